"""Ranks suggested changes to a run by their predicted gain.

A rule is an analysis with the columns of :data:`COLUMNS`, in `queries/advice/` or the user's own.
Each row describes an observation and names a change. :mod:`tracekit.prediction.predicting` replays
the trace with that change; changes to the load on a serving engine are simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from heapq import merge
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tracekit.analysis.result import Column, Result, ShownAsTable
from tracekit.analysis.spec import Spec
from tracekit.errors import QueryError
from tracekit.prediction.changes import SERVING, parse_change
from tracekit.prediction.edges import NothingChosenError
from tracekit.prediction.predicting import Prediction, Predictor, RunStep
from tracekit.units import (
    NS_PER_S,
    format_interval,
    format_ms,
    format_short,
    short_decimals,
)

if TYPE_CHECKING:
    from tracekit.prediction.serving import LoadPredictor, ServingPrediction

COLUMNS = ("what", "place", "change", "cost_ns", "remedy", "evidence")
"""Columns of a rule. `evidence` is the command that shows the evidence."""

SEPARATOR = "; "

MIN_GAIN = 0.01
"""Minimum listed gain as a share of a step. Intervals are at least this wide."""

NOTHING = "no change above 1 % found"
NOTHING_OF_LOAD = "no change of the load above 1 % found; other changes need a trace"
NOTHING_KNOWN = "no change has a predicted gain above 1 %"

UP_TO = "Up to: the profiler slows the CPU by an unknown factor. The unprofiled run gains less."

MIN_UNCERTAIN_PCT = 2.5
"""Minimum listed gain if it is uncertain, percent of a step."""

MAX_CANDIDATES = 24
"""Maximum number of candidates that are replayed, largest cost first."""

STEP = "step"
"""Figure that a replay predicts: a step or, without marked steps, the device window."""

FIGURES = {
    "ttft_mean_ns": "mean TTFT",
    "tpot_mean_ns": "mean TPOT",
    "itl_p99_ns": "p99 ITL",
    "output_tokens_per_s": "output tokens/s",
}
"""Figures of a serving load, by name in :data:`tracekit.prediction.serving.MEASURES`. A gain refers
to one of them."""

_PART_OF = dict.fromkeys(
    ("advice_casts", "advice_cross_entropy", "advice_library_kernels"), "advice_compile"
)
"""Rules that cover the same GPU time as another rule. A joint gain includes only one of the two."""

GAIN_UNKNOWN = "the gain is unknown"

_METHOD_OF = {
    "advice_offload": "offload off",
    "advice_optimizer": "optimizer fused",
}
"""Changes for `tracekit predict` that replace the changes in the rows of a rule."""

BOTH = ("compile on", "optimizer fused")


class Candidate(Struct, frozen=True):
    rule: str
    what: str
    place: str | None
    changes: tuple[str, ...]
    cost_ns: int | None
    remedy: str
    evidence: str | None


class Advice(Struct, frozen=True):
    """A candidate with its predicted gain in `figure`: :data:`STEP` or one of :data:`FIGURES`.

    `joint_gain_pct` is the combined gain with all earlier advice for the same figure. For a serving
    load, `load` has the predictions of all its figures.
    """

    candidate: Candidate
    prediction: Prediction
    joint_gain_pct: float
    figure: str = STEP
    load: ServingPrediction | None = None

    @property
    def brings(self) -> str | None:
        """The figures of a load before and after, with intervals; None for a replay."""
        load = self.load
        if load is None or load.predicted is None:
            return None
        texts = []
        for name, figure in FIGURES.items():
            values = [one[name] for one in (load.recorded, load.predicted, load.low, load.high)]
            is_time = name.endswith("_ns")
            decimals = short_decimals(values[:1])
            before, after, low, high = (
                format_ms(value, decimals) if is_time else f"{value:,.0f}" for value in values
            )
            texts.append(f"{figure} {before} → {after}{' ms' * is_time} ({low} to {high})")
        return ", ".join(texts)

    @property
    def is_certain(self) -> bool:
        """Whether the complete interval is a gain."""
        return self.prediction.range_pct[0] > 0


class Advised(ShownAsTable, Struct, frozen=True):
    """All advice for a run.

    Attributes:
        before_ns: time from the first device event of all ranks to the end of the last one, ns. It
        refers to the unprofiled run if known, else to the trace.
        step_count: largest number of marked steps of a rank.
        advice: all advice, certain and uncertain, largest gain first.
        undecided: candidates whose gain is unknown, each with the reason.
        run_step: the recorded and the unprofiled step; None without an estimate.
        has_trace: whether the run has a trace, not only requests.
    """

    shown = ("what", "where", "remedy", "gain_ns", "gain_pct", "low_pct", "high_pct")

    before_ns: int
    step_count: int
    advice: tuple[Advice, ...]
    undecided: tuple[tuple[Candidate, str], ...]
    run_step: RunStep | None = None
    has_trace: bool = True

    @property
    def reason(self) -> str | None:
        """The reason why there is no advice; None if there is some."""
        if self.advice:
            return None
        if self.undecided:
            return NOTHING_KNOWN
        return NOTHING if self.has_trace else NOTHING_OF_LOAD

    def as_result(self) -> Result:
        texts = ("rule", "figure", "what", "where", "change", "remedy", "evidence", "rests_on")
        pcts = ("gain_pct", "low_pct", "high_pct", "joint_gain_pct")
        columns = (
            *(Column(name, "VARCHAR") for name in texts),
            *(Column(name, "BIGINT") for name in ("gain_ns", "before_step_ns")),
            *(Column(name, "DOUBLE") for name in pcts),
            Column("brings", "VARCHAR"),
            Column("base", "VARCHAR"),
            *(Column(name, "BOOLEAN") for name in ("is_upper_bound", "is_certain")),
        )
        return Result("advise", columns, [self._row(one) for one in self.advice])

    def _row(self, one: Advice) -> tuple[object, ...]:
        candidate, prediction = one.candidate, one.prediction
        changes, assumptions = (
            SEPARATOR.join(texts) for texts in (candidate.changes, prediction.assumptions)
        )
        return (
            *(candidate.rule, one.figure, candidate.what, candidate.place, changes),
            *(candidate.remedy, candidate.evidence, assumptions, prediction.gain_ns),
            prediction.before_step_ns,
            *(prediction.gain_pct, *prediction.range_pct, one.joint_gain_pct, one.brings),
            *(prediction.base, prediction.is_upper_bound, one.is_certain),
        )


def gain_text(row: Mapping[str, Any]) -> str:
    """Return the gain of a change with its interval, and the figure unless it is a step."""
    verb = "saves" if row["is_certain"] else "may save"
    if row["is_upper_bound"]:
        return f"{verb} up to {row['gain_pct']:.1f} % of the profiled step"
    if row["figure"] == STEP:
        low_ns, high_ns = (
            row[end] * row["before_step_ns"] / 100 for end in ("low_pct", "high_pct")
        )
        decimals = short_decimals((row["gain_ns"],))
        gain, low, high = (format_ms(ns, decimals) for ns in (row["gain_ns"], low_ns, high_ns))
        return f"{verb} {gain} ms ({low} to {high}), {row['gain_pct']:.1f} %"
    text = "{gain_pct:.1f} % ({low_pct:.1f} to {high_pct:.1f} %) of the {figure}".format(**row)
    return f"{verb} {text}"


def recording_text(step: RunStep | None, step_count: int) -> str | None:
    if step is None or step.run_ns is None or step.ratio is None:
        return None
    run = format_short(step.run_ns)
    if step.low_ns is not None and step.high_ns is not None and step.low_ns < step.high_ns:
        basis = "estimated," if step.basis == "constants" else "median, p10–p90"
        run = f"{run} ({basis} {format_interval(step.low_ns, step.high_ns)})"
    unit = "step" if step_count else "run"
    text = f"Unprofiled {unit}: {run}"
    longer = (
        f"; the recorded one takes {step.ratio:.1f} times as long" if step.ratio >= 1.05 else ""
    )
    text = f"{text}{longer}."
    if step.reason is not None:
        return f"{text} Gains are for the recording: {step.reason}."
    steps = f" ({step_count:,} steps and the work around them)" if step_count > 1 else ""
    text = f"{text} Gains, with bounds, are per unprofiled {unit};"
    return f"{text} evidence is from the complete recording{steps}."


def is_rule(spec: Spec) -> bool:
    return spec.column_names == COLUMNS


def advise(
    rules: Iterable[tuple[str, Callable[[], Result]]],
    predictor: Callable[[], Predictor],
    load_predictor: Callable[[], LoadPredictor],
    window_ns: int | None,
) -> Advised:
    """Return the advice for a run, largest gain first.

    Candidates that cost less than 1 % of the longest device window, `window_ns`, are omitted.
    Without a trace, `window_ns` is None. The replay and the simulation of a load are created only
    if needed.
    """
    candidates = [
        Candidate(
            name, what, place,
            tuple(_METHOD_OF.get(name, change).split(SEPARATOR)) if change else (),
            cost_ns, remedy, evidence,
        )
        for name, answer in rules
        for what, place, change, cost_ns, remedy, evidence in answer().rows
    ]  # fmt: skip
    undecided = [(one, GAIN_UNKNOWN) for one in candidates if not one.changes]
    loads = [one for one in candidates if _is_of_load(one)]
    candidates = [one for one in candidates if one.changes and not _is_of_load(one)]
    of_load = _of_load(loads, load_predictor, undecided)

    def counts(one: Candidate) -> bool:
        return one.cost_ns is None or one.cost_ns >= MIN_GAIN * (window_ns or 0)

    candidates = [one for one in candidates if counts(one)]
    undecided = [(one, why) for one, why in undecided if why != GAIN_UNKNOWN or counts(one)]
    undecided.sort(key=lambda pair: -math.inf if pair[0].cost_ns is None else -pair[0].cost_ns)
    if not candidates:
        return Advised(0, 0, of_load, tuple(undecided), has_trace=window_ns is not None)
    replay = predictor()
    candidates.sort(key=lambda one: -(one.cost_ns or replay.before_ns))
    candidates = [*candidates[:MAX_CANDIDATES], *_combined_changes(candidates)]
    results: list[_Predicted] = []
    for one in candidates:
        try:
            prediction = replay.predict(one.changes)
        except NothingChosenError:  # No later event depends on the changed events.
            continue
        except QueryError as error:
            undecided.append((one, error.message))
            continue
        gain_pct = prediction.gain_pct
        if gain_pct is None:
            undecided.append((one, prediction.reason or GAIN_UNKNOWN))
        elif gain_pct >= _least_pct(*prediction.range_pct):
            results.append((one, prediction))
    replayed = _with_joint_gains(_ranked(results), replay)
    every = merge(replayed, of_load, key=lambda one: -(one.prediction.gain_pct or 0.0))
    return Advised(
        replay.before_ns, replay.step_count, (*every,), tuple(undecided), replay.run_step
    )


def _least_pct(low: float, high: float) -> float:
    if low > 0:
        return 100 * MIN_GAIN
    return MIN_UNCERTAIN_PCT * (1 if low + high > 0 else 2)


def _combined_changes(candidates: Sequence[Candidate]) -> list[Candidate]:
    parts = [one for text in BOTH for one in candidates if one.changes == (text,)]
    if len(parts) < len(BOTH):
        return []
    what, place, remedy = (
        mark.join(filter(None, texts))
        for mark, *texts in zip(
            (". ", "; ", ". "), *((one.what, one.place, one.remedy) for one in parts), strict=True
        )
    )
    return [Candidate(parts[0].rule, what, place, BOTH, None, remedy, parts[0].evidence)]


def _is_of_load(one: Candidate) -> bool:
    return bool(one.changes) and one.changes[0].split()[0] in SERVING


def _of_load(
    candidates: Sequence[Candidate],
    load_predictor: Callable[[], LoadPredictor],
    undecided: list[tuple[Candidate, str]],
) -> tuple[Advice, ...]:
    """Return advice on changes to a load that gain more in one figure than they lose in others."""
    predictor = cache(load_predictor)

    def simulate(changes: Sequence[str]) -> ServingPrediction:
        return predictor().predict([*map(parse_change, changes)], is_bounded=True)

    prediction: dict[_Predicted, tuple[str, ServingPrediction]] = {}
    for one in candidates:
        try:
            load = simulate(one.changes)
        except QueryError as error:
            undecided.append((one, error.message))
            continue
        if load.reason is not None:
            undecided.append((one, load.reason))
            continue
        # Upper and lower bound of each figure, relative to its recorded value.
        most, least = ({name: _times(load, name, i) for name in FIGURES} for i in (2, 1))
        name = min(most, key=most.__getitem__)
        if most[name] < 1 and max(least.values()) * most[name] < 1:
            result = _in_figure(load, name)
            if (result.gain_pct or 0.0) >= 100 * MIN_GAIN:
                prediction[one, result] = name, load
        elif min(_times(load, figure, 0) for figure in FIGURES) < 1 - MIN_GAIN:
            brings = Advice(one, _in_figure(load, name), 0.0, FIGURES[name], load).brings
            undecided.append(
                (one, f"no gain clearly exceeds the losses of other figures: {brings}")
            )
    advice: list[Advice] = []
    changes: dict[str, None] = {}
    for one, result in _ranked([*prediction]):
        name, load = prediction[one, result]
        changes |= dict.fromkeys(one.changes)
        joint = result
        if advice:
            try:
                joint = _in_figure(simulate([*changes]), name)
            except QueryError:
                changes = dict.fromkeys(one.changes)
        advice.append(Advice(one, result, joint.gain_pct or 0.0, FIGURES[name], load))
    return tuple(advice)


def _times(load: ServingPrediction, name: str, place: int) -> float:
    """Return the predicted (`place` 0), lowest (1), or highest (2) ratio to the recorded value."""
    result = _in_figure(load, name)
    return (result.predicted_ns or 0, result.low_ns, result.high_ns)[place] / max(
        result.before_ns, 1
    )


def _in_figure(load: ServingPrediction, name: str) -> Prediction:
    """Return the prediction of one figure of a load; for tokens/s, of the time per token."""
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


_Predicted = tuple[Candidate, Prediction]


def _ranked(result: Sequence[_Predicted]) -> list[_Predicted]:
    """Sort by gain, largest first; for equal gains, changes with fewer parts come first."""
    return sorted(result, key=lambda pair: (-(pair[1].gain_pct or 0.0), len(pair[0].changes)))


def _with_joint_gains(result: Sequence[_Predicted], replay: Predictor) -> list[Advice]:
    """Add joint gains: each certain gain is replayed together with all earlier ones."""
    advice: list[Advice] = []
    changes: dict[str, None] = {}
    joint_pct = 0.0
    rules = {one.rule for one, prediction in result if prediction.range_pct[0] > 0}
    for one, prediction in result:
        if prediction.range_pct[0] > 0 and _PART_OF.get(one.rule) not in rules:
            added = [text for text in one.changes if text not in changes]
            changes |= dict.fromkeys(added)
            if added:
                joint = replay.predict([*changes]).gain_pct or 0.0
                joint_pct = max(min(joint, joint_pct + (prediction.gain_pct or 0.0)), joint_pct)
        advice.append(Advice(one, prediction, max(joint_pct, prediction.gain_pct or 0.0)))
    return advice
