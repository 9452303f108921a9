"""Ranks what could be changed about a run by what it would gain, each by a replay.

What is asked of a load on a serving engine, a simulation of the engine answers.

A rule is an analysis with the columns of :data:`COLUMNS`: those of `queries/advice/`, and the
user's own. It says what was seen and what to ask of :mod:`tracekit.prediction.predicting`; which of
them gains anything, the replay says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from heapq import merge
from typing import TYPE_CHECKING, Any

from tracekit.analysis.result import Column, Result
from tracekit.analysis.spec import Spec
from tracekit.errors import QueryError
from tracekit.prediction.changes import REMOVE, SERVING, parse_change
from tracekit.prediction.edges import NothingChosenError
from tracekit.prediction.predicting import (
    MARGIN,
    MARGIN_OF_CHANGE,
    Prediction,
    Predictor,
    RunStep,
)
from tracekit.units import NS_PER_S, format_duration

if TYPE_CHECKING:
    from tracekit.prediction.serving import LoadPredictor, ServingPrediction

COLUMNS = ("what", "place", "change", "at_most", "cost_ns", "remedy", "evidence")
"""The columns of a rule, whose last is the command that shows what was seen."""

SEPARATOR = "; "
"""What stands between the changes of one row."""

LEAST_GAIN = 0.01
"""What gains less of the window is not said: an interval is as wide as that at least."""

MOST_INFERRED_PCT = 50
"""Where more of the critical path is inferred or assumed, no gain found is none known."""

NOTHING = "nothing worth changing above 1 %"
NOTHING_KNOWN = "no change is predicted to gain over 1 %"
"""What is said without advice, and where that is because gains are not known."""

UP_TO = "the profiler makes the CPU slower, by how much is not known here"
"""What is said of gains that are upper bounds."""

LEAST_UNSURE_PCT = 5.0
"""What may gain so much of the window, or nothing, is not passed over in silence."""

MAX_CANDIDATES = 24
"""So many are replayed, those with the largest cost first."""

WINDOW = "device window"
"""The figure in which a replay's gain is."""

FIGURES = {
    "ttft_mean_ns": "mean TTFT",
    "tpot_mean_ns": "mean TPOT",
    "itl_p99_ns": "p99 ITL",
    "output_tokens_per_s": "output tokens/s",
}
"""The figures of a load, in one of which the gain of a change of it is: by the name in
:data:`tracekit.prediction.serving.MEASURES`."""

_PART_OF = {"advice_fused": "advice_fusion"}
"""Rules whose work another rule counts too: together only one of them gains."""

_NOT_RECORDED = "gain unknown"

_OF_LAUNCHES = frozenset({"host", "launches", "graph"})
"""Keywords of changes of how work is launched: captured graphs, compiled code, larger batches."""

_OF_HOST = _OF_LAUNCHES | {"python", "sync"}
"""Keywords of changes of what the host does: what the profiler makes longer, too."""

_INSIDE = frozenset({"range", "call", "loading", "pauses"})
"""What else of a change is about the host."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row of a rule."""

    rule: str
    what: str
    place: str | None
    changes: tuple[str, ...]
    at_most: tuple[str, ...]
    cost_ns: int | None
    remedy: str
    evidence: str | None

    @property
    def is_of_launches(self) -> bool:
        """Whether it changes how work is launched, and nothing else."""
        return all(_keyword(text) in _OF_LAUNCHES for text in self.changes)

    @property
    def is_of_host(self) -> bool:
        """Whether it changes what the host does, and no work of a device."""
        return all(_keyword(text) in _OF_HOST for text in self.changes)

    @property
    def is_of_device(self) -> bool:
        """Whether it changes work of devices, and nothing that the host does."""
        return not any(_keyword(text) in _OF_HOST | _INSIDE for text in self.changes)

    @property
    def is_upper_bound(self) -> bool:
        """Whether part of its gain is time of the host that the profiler makes longer.

        What is left of a range after a change is launches; a range that goes is the program's own.
        """
        return any(
            _keyword(text) in _OF_HOST or (_keyword(text) == "range" and not text.endswith(REMOVE))
            for text in self.changes
        )


def _keyword(text: str) -> str:
    """Return the keyword of a change, or `range` or `call` where it chooses by one."""
    change = parse_change(text)
    if change.keyword is not None:
        return change.keyword
    return next((column for column, _ in change.terms if column in _INSIDE), "")


@dataclass(frozen=True, slots=True)
class Advice:
    """What would gain how much.

    Attributes:
        candidate: what was seen, and what to do.
        prediction: of its changes alone; of a load, of :attr:`figure` in place of the window.
        joint_gain_pct: gain of it and of all before it of the same figure together.
        figure: what gets shorter: :data:`WINDOW`, or one of :data:`FIGURES` (of tokens/s the time
            of one).
        load: what all figures of a load would be; None of a replay.
        step_gain_ns: by how much a step gets shorter, ns; None where none are marked.
        is_upper_bound: the gain is of the recording, and of the run at most as much: the profiler
            makes the host's work longer, by how much is not known.
    """

    candidate: Candidate
    prediction: Prediction
    joint_gain_pct: float
    figure: str = WINDOW
    load: ServingPrediction | None = None
    step_gain_ns: int | None = None
    is_upper_bound: bool = False

    @property
    def brings(self) -> str | None:
        """The figures of a load before and after, with their intervals; None of a replay."""
        load = self.load
        if load is None or load.predicted is None:
            return None
        texts = []
        for name, figure in FIGURES.items():
            before, after, low, high = (
                format_duration(round(one[name])) if name.endswith("_ns") else f"{one[name]:,.0f}"
                for one in (load.recorded, load.predicted, load.low, load.high)
            )
            texts.append(f"{figure} {before} → {after} ({low} to {high})")
        return ", ".join(texts)

    @property
    def gain_ns(self) -> int:
        """By how much the figure gets shorter, ns."""
        return self.prediction.before_ns - (self.prediction.predicted_ns or 0)

    @property
    def range_pct(self) -> tuple[float, float]:
        """The least and the most of that, of what was recorded."""
        told = self.prediction
        low, high = (100 * (1 - ns / told.before_ns) for ns in (told.high_ns, told.low_ns))
        return low, high


@dataclass(frozen=True, slots=True)
class Advised:
    """The answer for a run.

    Attributes:
        before_ns: the window from the first device event of all ranks to the end of the last, of
            the run where its basis is known, else as recorded, ns.
        step_count: marked steps of the rank that has most.
        advice: best first.
        undecided: what was seen, but not what it would gain, each with the reason.
        run_step: a step without the profiler beside a recorded one; None where none is to be told.
    """

    before_ns: int
    step_count: int
    advice: tuple[Advice, ...]
    undecided: tuple[tuple[Candidate, str], ...]
    run_step: RunStep | None = None

    def as_result(self) -> Result:
        """Return the advice as a table."""
        texts = ("rule", "figure", "what", "where", "change", "remedy", "evidence", "rests_on")
        pcts = ("gain_pct", "low_pct", "high_pct", "joint_gain_pct")
        columns = (
            *(Column(name, "VARCHAR") for name in texts),
            *(Column(name, "BIGINT") for name in ("gain_ns", "step_gain_ns")),
            *(Column(name, "DOUBLE") for name in pcts),
            Column("brings", "VARCHAR"),
            Column("is_upper_bound", "BOOLEAN"),
        )
        return Result("advise", columns, [self._row(one) for one in self.advice])

    def _row(self, one: Advice) -> tuple[object, ...]:
        seen, told = one.candidate, one.prediction
        return (
            *(seen.rule, one.figure, seen.what, seen.place, SEPARATOR.join(seen.changes)),
            *(seen.remedy, seen.evidence, SEPARATOR.join(told.assumptions), one.gain_ns),
            one.step_gain_ns,
            *(told.gain_pct, *one.range_pct, one.joint_gain_pct, one.brings, one.is_upper_bound),
        )


def gain_text(row: Mapping[str, Any]) -> str:
    """Return the gain of a row of advice with its interval, and of what it is unless the window."""
    if row["is_upper_bound"]:
        return "up to {gain_pct:.1f} % of the recording".format(**row)
    text = "{gain_pct:.1f} % ({low_pct:.1f} to {high_pct:.1f} %)".format(**row)
    return text if row["figure"] == WINDOW else f"{text} of the {row['figure']}"


def recording_text(step: RunStep | None) -> str | None:
    """Return how much longer the recording is than the run; None where that is not known."""
    if step is None or step.run_ns is None or step.ratio is None or step.ratio < 1.05:
        return None
    run = format_duration(step.run_ns)
    if step.basis == "constants" and step.low_ns is not None and step.high_ns is not None:
        low, high = map(format_duration, (step.low_ns, step.high_ns))
        run = f"about {run} ({low} to {high})"
    text = (
        f"The recording is {step.ratio:.1f} times as long as the run, of which a step takes {run}"
    )
    if step.reason is not None:
        return f"{text}. Only the recording is replayed: {step.reason}"
    return f"{text}. Gains are of the run, evidence is of the recording"


def up_to_text(step: RunStep | None) -> str:
    """Return why gains of what the host does are upper bounds."""
    if step is None or step.reason is None:
        return f"{UP_TO}: the run gains less"
    between = ""
    if step.low_ns is not None and step.high_ns is not None:
        steps = map(format_duration, (step.recorded_ns, step.low_ns, step.high_ns))
        between = "a step takes {} recorded and {} to {} without it, ".format(*steps)
    return f"{UP_TO} ({between}{step.reason}): the run gains less"


def is_rule(spec: Spec) -> bool:
    """Tell whether an analysis gives advice."""
    return spec.column_names == COLUMNS


def advise(
    rules: Iterable[tuple[str, Callable[[], Result]]],
    predictor: Callable[[], Predictor],
    load_predictor: Callable[[], LoadPredictor],
    window_ns: int,
) -> Advised:
    """Return what would gain most, best first.

    Args:
        rules: name of each, and what returns its rows.
        predictor: makes what replays the run; only where a rule has seen anything.
        load_predictor: makes what simulates its load, likewise.
        window_ns: the longest window of a device, of which what takes less is not looked at.

    Raises:
        QueryError: a rule has failed, or one of its changes is none.
    """
    candidates = [
        Candidate(name, what, place, _parted(change), _parted(at_most), cost_ns, remedy, evidence)
        for name, answer in rules
        for what, place, change, at_most, cost_ns, remedy, evidence in answer().rows
    ]
    undecided = [(one, _NOT_RECORDED) for one in candidates if not one.changes]
    loads = [one for one in candidates if _is_of_load(one)]
    candidates = [one for one in candidates if one.changes and not _is_of_load(one)]
    of_load = _of_load(loads, load_predictor, undecided)

    def counts(one: Candidate) -> bool:
        return one.cost_ns is None or one.cost_ns >= LEAST_GAIN * window_ns

    candidates = [one for one in candidates if counts(one)]
    undecided = [(one, why) for one, why in undecided if why != _NOT_RECORDED or counts(one)]
    undecided.sort(key=lambda pair: -math.inf if pair[0].cost_ns is None else -pair[0].cost_ns)
    if not candidates:
        return Advised(0, 0, of_load, tuple(undecided))
    replay = predictor()
    before_ns = replay.before_ns
    least_ns = LEAST_GAIN * before_ns
    candidates.sort(key=lambda one: -(one.cost_ns or before_ns))
    found: list[tuple[Candidate, Prediction]] = []
    for one in candidates[:MAX_CANDIDATES]:
        try:
            told = _predicted(one, replay, least_ns)
        except NothingChosenError:  # nobody waits for what is changed
            continue
        except QueryError as error:
            undecided.append((one, error.message))
            continue
        if told is None:
            continue
        told = _bounded(one, _beyond_host(one, told, replay), replay)
        if told.reason is not None:
            undecided.append((one, told.reason))
        elif told.high_ns < before_ns:
            found.append((one, told))
        elif told.inferred_pct >= MOST_INFERRED_PCT and (one.cost_ns or 0) >= 5 * least_ns:
            why = f"{told.inferred_pct:.0f} % of the critical path are inferred or assumed"
            undecided.append((one, f"what that would gain is not known: {why}"))
        elif (told.gain_pct or 0.0) >= LEAST_UNSURE_PCT:
            low, high = Advice(one, told, 0.0).range_pct
            gain = f"{told.gain_pct:.1f} % ({low:.1f} to {high:.1f} %)"
            undecided.append((one, f"the predicted gain of {gain} may be none"))
    ranked = _ranked(found)
    if not replay.is_of_run and _run_ns(replay) is None:
        # How long launches take without the profiler is not known; what else is found comes first.
        ranked.sort(key=lambda pair: pair[0].is_of_launches)
    replayed = _joined(ranked, replay)
    # Each keeps its order, in which the simpler of two may come first.
    sure = [one for one in replayed if not (one.is_upper_bound and one.candidate.is_of_launches)]
    every = merge(sure, of_load, key=lambda one: -(one.prediction.gain_pct or 0.0))
    return Advised(
        before_ns,
        replay.step_count,
        (*every, *replayed[len(sure) :]),
        tuple(undecided),
        replay.run_step,
    )


FASTER_HOST = "host x0.25"
"""A run's host is up to four times as fast as a recorded one, which may hide what devices gain."""


def _beyond_host(one: Candidate, prediction: Prediction, replay: Predictor) -> Prediction:
    """Return a prediction of device work whose interval holds its gain beside a faster host, too.

    Without the profiler the host is faster: where it holds the changed recording up, the run gains
    more.
    """
    if prediction.predicted_ns is None or not one.is_of_device or not replay.has_device:
        return prediction
    if replay.is_of_run:
        return prediction
    try:
        before_ns = replay.gain_ns([FASTER_HOST])
        gain_ns = replay.gain_ns([*(one.at_most or one.changes), FASTER_HOST]) - before_ns
    except QueryError:  # no time of the host is recorded
        return prediction
    most_ns = gain_ns + MARGIN * prediction.before_ns + MARGIN_OF_CHANGE * gain_ns
    return replace(
        prediction, low_ns=max(min(prediction.low_ns, round(prediction.before_ns - most_ns)), 0)
    )


def _run_ns(replay: Predictor) -> int | None:
    return replay.run_step.run_ns if replay.run_step is not None else None


def _shrunk(prediction: Prediction, share: float) -> Prediction:
    """Return a prediction that gains a share of it."""
    predicted, low, high = (
        round(prediction.before_ns - share * (prediction.before_ns - ns))
        for ns in (prediction.predicted_ns or 0, prediction.low_ns, prediction.high_ns)
    )
    return replace(prediction, predicted_ns=predicted, low_ns=low, high_ns=high)


def _bounded(one: Candidate, prediction: Prediction, replay: Predictor) -> Prediction:
    """Return a prediction that gains no more than what was seen, nor than the run has to give.

    What the host does gains at most the time of a step in which the device has no work. A gain lies
    in its interval.
    """
    if prediction.predicted_ns is None:
        return prediction
    before_ns = prediction.before_ns
    limits = [before_ns if one.cost_ns is None else one.cost_ns]
    step = replay.run_step
    if step is not None and replay.step_count:
        if one.is_of_host and step.idle_ns is not None:
            limits.append(step.idle_ns * replay.step_count)
        # On CPUs, ops are the work, and what of them is the profiler's is not known.
        if step.ratio is not None and step.busy_ns is not None and not replay.is_of_run:
            if one.is_of_host:
                prediction = _shrunk(prediction, step.idle_share)
            elif not one.is_of_device:
                prediction = _shrunk(prediction, min(1 / step.ratio, 1.0))
    least_ns = before_ns - min(before_ns, *limits)
    predicted_ns = max(prediction.predicted_ns or 0, least_ns)
    low_ns, high_ns = prediction.low_ns, max(prediction.high_ns, predicted_ns)
    if one.is_of_host:
        low_ns = max(low_ns, least_ns)
    if predicted_ns > (prediction.predicted_ns or 0):
        # The interval is as wide on the side of less.
        high_ns = max(high_ns, predicted_ns + prediction.high_ns - (prediction.predicted_ns or 0))
    return replace(
        prediction, predicted_ns=predicted_ns, low_ns=min(low_ns, predicted_ns), high_ns=high_ns
    )


def _is_of_load(one: Candidate) -> bool:
    return bool(one.changes) and one.changes[0].split()[0] in SERVING


def _of_load(
    candidates: Sequence[Candidate],
    load_predictor: Callable[[], LoadPredictor],
    undecided: list[tuple[Candidate, str]],
) -> tuple[Advice, ...]:
    """Return what would gain in some figure of a load, more surely than it loses in any other."""
    predictor = cache(load_predictor)

    def simulate(changes: Sequence[str]) -> ServingPrediction:
        return predictor().predict([*map(parse_change, changes)], is_bounded=True)

    prediction: dict[_Found, tuple[str, ServingPrediction]] = {}
    for one in candidates:
        try:
            load = simulate(one.changes)
        except QueryError as error:
            undecided.append((one, error.message))
            continue
        if load.reason is not None:
            undecided.append((one, load.reason))
            continue
        # How many times as long each surely gets at most, and at least.
        most, least = ({name: _times(load, name, i) for name in FIGURES} for i in (2, 1))
        name = min(most, key=most.__getitem__)
        if most[name] < 1 and max(least.values()) * most[name] < 1:
            found = _in_figure(load, name)
            if (found.gain_pct or 0.0) >= 100 * LEAST_GAIN:
                prediction[one, found] = name, load
        elif min(_times(load, figure, 0) for figure in FIGURES) < 1 - LEAST_GAIN:
            brings = Advice(one, _in_figure(load, name), 0.0, FIGURES[name], load).brings
            undecided.append((one, f"no figure surely gains more than others lose: {brings}"))
    advice: list[Advice] = []
    changes: dict[str, None] = {}
    for one, found in _ranked([*prediction]):
        name, load = prediction[one, found]
        changes |= dict.fromkeys(one.changes)
        joint = found
        if advice:
            try:
                joint = _in_figure(simulate([*changes]), name)
            except QueryError:
                changes = dict.fromkeys(one.changes)
        advice.append(Advice(one, found, joint.gain_pct or 0.0, FIGURES[name], load))
    return tuple(advice)


def _times(load: ServingPrediction, name: str, place: int) -> float:
    """Return how many times as long a figure gets: 0 in the middle, 1 at least, 2 at most."""
    found = _in_figure(load, name)
    return (found.predicted_ns or 0, found.low_ns, found.high_ns)[place] / max(found.before_ns, 1)


def _in_figure(load: ServingPrediction, name: str) -> Prediction:
    """Return what a load would see as a prediction of a figure; of tokens/s, of the time of one."""
    answers = load.recorded, load.replayed, load.predicted or load.replayed, load.low, load.high
    recorded, replayed, predicted, low, high = (
        round(one[name] if name.endswith("_ns") else NS_PER_S / max(one[name], 1e-9))
        for one in answers
    )
    error_pct = 100 * (replayed / max(recorded, 1) - 1)
    least, most = sorted((low, high))
    return Prediction(
        load.changes, recorded, recorded, predicted, least, most, error_pct, 0.0, load.assumptions
    )


def _predicted(one: Candidate, replay: Predictor, least_ns: float) -> Prediction | None:
    """Return what its changes would gain; None where that is less than is said."""
    if replay.gain_ns(one.changes) < least_ns:
        return None
    return replay.predict(one.changes, at_most=one.at_most)


_Found = tuple[Candidate, Prediction]


def _ranked(found: Sequence[_Found]) -> list[_Found]:
    """Return the largest gain first; of two that cannot be prediction apart, the simpler change."""
    ranked: list[_Found] = []
    for pair in sorted(found, key=lambda pair: -(pair[1].gain_pct or 0.0)):
        place = len(ranked)
        while place and _is_simpler(pair, ranked[place - 1]):
            place -= 1
        ranked.insert(place, pair)
    return ranked


def _is_simpler(one: _Found, other: _Found) -> bool:
    return (
        one[1].before_ns == other[1].before_ns
        and _size(one[0]) < _size(other[0])
        and one[1].low_ns <= (other[1].predicted_ns or 0)
        and (one[1].predicted_ns or 0) <= other[1].high_ns
    )


def _size(one: Candidate) -> tuple[int, float]:
    return len(one.changes), math.inf if one.cost_ns is None else one.cost_ns


def _joined(found: Sequence[_Found], replay: Predictor) -> list[Advice]:
    """Replay each together with all before it."""
    advice: list[Advice] = []
    changes: dict[str, None] = {}
    most_ns = 0
    rules = {one.rule for one, _ in found}
    for one, told in found:
        gain_ns = told.before_ns - (told.predicted_ns or 0)
        if _PART_OF.get(one.rule) not in rules:
            changes |= dict.fromkeys(one.changes)
            most_ns += gain_ns
        joint_ns = max(min(replay.gain_ns([*changes]), most_ns), gain_ns)
        step_gain_ns = replay.step_gain_ns(one.changes)
        if step_gain_ns is not None:
            # As much less as the gain was cut, and no more of the steps than of the window, which
            # may begin behind what the first of them gains.
            replayed_ns = max(replay.gain_ns(one.changes), 1)
            step_gain_ns = round(max(step_gain_ns, 0) * min(gain_ns / replayed_ns, 1))
            steps = max(replay.step_count - (replay.step_count > 2), 1)
            step_gain_ns = min(step_gain_ns, gain_ns // steps)
        advice.append(
            Advice(
                one,
                told,
                100 * joint_ns / max(replay.before_ns, 1),
                step_gain_ns=step_gain_ns,
                is_upper_bound=one.is_upper_bound and _run_ns(replay) is None and replay.has_device,
            )
        )
    return advice


def _parted(change: str | None) -> tuple[str, ...]:
    return tuple(change.split(SEPARATOR)) if change else ()
