"""Ranks what could be changed about a run by what it would gain, each by a replay.

A rule is an analysis with the columns of :data:`COLUMNS`: those of `queries/advice/`, and the
user's own. It says what was seen and what to ask of :mod:`tracekit.prediction.predicting`; which of
them gains anything, the replay says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tracekit.analysis.result import Column, Result
from tracekit.analysis.spec import Spec
from tracekit.errors import QueryError
from tracekit.prediction.predicting import Prediction, Predictor

COLUMNS = ("what", "place", "change", "at_most", "cost_ns", "remedy", "evidence")
"""The columns of a rule, whose last is the command that shows what was seen."""

SEPARATOR = "; "
"""What stands between the changes of one row."""

LEAST_GAIN = 0.01
"""What gains less of the window is not said: an interval is as wide as that at least."""

MAX_CANDIDATES = 24
"""So many are replayed, those with the largest cost first."""


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


@dataclass(frozen=True, slots=True)
class Advice:
    """What would gain how much.

    Attributes:
        candidate: what was seen, and what to do.
        prediction: of its changes alone.
        joint_gain_pct: gain of it and of all before it together, of the recorded window.
    """

    candidate: Candidate
    prediction: Prediction
    joint_gain_pct: float

    @property
    def gain_ns(self) -> int:
        """By how much the window gets shorter, ns."""
        return self.prediction.recorded_ns - (self.prediction.predicted_ns or 0)

    @property
    def range_pct(self) -> tuple[float, float]:
        """The least and the most of that, of the recorded window."""
        told = self.prediction
        low, high = (100 * (1 - ns / told.recorded_ns) for ns in (told.high_ns, told.low_ns))
        return low, high


@dataclass(frozen=True, slots=True)
class Advised:
    """The answer for a run.

    Attributes:
        recorded_ns: the window from the first device event of all ranks to the end of the last, ns.
        step_count: marked steps of the rank that has most.
        advice: best first.
        undecided: what was seen, but not what it would gain, each with the reason.
    """

    recorded_ns: int
    step_count: int
    advice: tuple[Advice, ...]
    undecided: tuple[tuple[Candidate, str], ...]

    def as_result(self) -> Result:
        """Return the advice as a table."""
        texts = ("rule", "what", "where", "change", "remedy", "evidence", "rests_on")
        pcts = ("gain_pct", "low_pct", "high_pct", "joint_gain_pct")
        columns = (
            *(Column(name, "VARCHAR") for name in texts),
            *(Column(name, "BIGINT") for name in ("gain_ns", "step_gain_ns")),
            *(Column(name, "DOUBLE") for name in pcts),
        )
        return Result("advise", columns, [self._row(one) for one in self.advice])

    def _row(self, one: Advice) -> tuple[object, ...]:
        seen, told = one.candidate, one.prediction
        return (
            *(seen.rule, seen.what, seen.place, SEPARATOR.join(seen.changes), seen.remedy),
            *(seen.evidence, SEPARATOR.join(told.assumptions), one.gain_ns),
            one.gain_ns // self.step_count if self.step_count else None,
            *(told.gain_pct, *one.range_pct, one.joint_gain_pct),
        )


def is_rule(spec: Spec) -> bool:
    """Tell whether an analysis gives advice."""
    return spec.column_names == COLUMNS


def advise(
    rules: Iterable[tuple[str, Callable[[], Result]]], predictor: Callable[[], Predictor]
) -> Advised:
    """Return what would gain most, best first.

    Args:
        rules: name of each, and what returns its rows.
        predictor: makes what replays the run; only where a rule has seen anything.

    Raises:
        QueryError: a rule has failed, or one of its changes is none.
    """
    candidates = [
        Candidate(name, what, place, _parted(change), _parted(at_most), cost_ns, remedy, evidence)
        for name, answer in rules
        for what, place, change, at_most, cost_ns, remedy, evidence in answer().rows
    ]
    undecided = [(one, "it is not recorded") for one in candidates if not one.changes]
    candidates = [one for one in candidates if one.changes]
    if not candidates:
        return Advised(0, 0, (), tuple(undecided))
    replay = predictor()
    recorded_ns = replay.recorded_ns
    least_ns = LEAST_GAIN * recorded_ns
    candidates = [one for one in candidates if one.cost_ns is None or one.cost_ns >= least_ns]
    candidates.sort(key=lambda one: -(one.cost_ns or recorded_ns))
    found: list[tuple[Candidate, Prediction]] = []
    for one in candidates[:MAX_CANDIDATES]:
        try:
            told = _predicted(one, replay, least_ns)
        except QueryError as error:
            undecided.append((one, error.message))
            continue
        if told is None:
            continue
        if told.reason is not None:
            undecided.append((one, told.reason))
        elif told.high_ns < recorded_ns:
            found.append((one, told))
    ranked = _ranked(found)
    return Advised(recorded_ns, replay.step_count, _joined(ranked, replay), tuple(undecided))


def _predicted(one: Candidate, replay: Predictor, least_ns: float) -> Prediction | None:
    """Return what its changes would gain; None where that is less than is said."""
    if replay.gain_ns(one.changes) < least_ns:
        return None
    return replay.predict(one.changes, at_most=one.at_most)


_Found = tuple[Candidate, Prediction]


def _ranked(found: Sequence[_Found]) -> list[_Found]:
    """Return the largest gain first; of two that cannot be told apart, the simpler change."""
    ranked: list[_Found] = []
    for pair in sorted(found, key=lambda pair: pair[1].predicted_ns or 0):
        place = len(ranked)
        while place and _is_simpler(pair, ranked[place - 1]):
            place -= 1
        ranked.insert(place, pair)
    return ranked


def _is_simpler(one: _Found, other: _Found) -> bool:
    return (
        _size(one[0]) < _size(other[0])
        and one[1].low_ns <= (other[1].predicted_ns or 0)
        and (one[1].predicted_ns or 0) <= other[1].high_ns
    )


def _size(one: Candidate) -> tuple[int, float]:
    return len(one.changes), math.inf if one.cost_ns is None else one.cost_ns


def _joined(found: Sequence[_Found], replay: Predictor) -> tuple[Advice, ...]:
    """Replay each together with all before it."""
    advice: list[Advice] = []
    changes: dict[str, None] = {}
    for one, told in found:
        changes |= dict.fromkeys(one.changes)
        gain_ns = replay.gain_ns([*changes])
        advice.append(Advice(one, told, 100 * gain_ns / max(replay.recorded_ns, 1)))
    return tuple(advice)


def _parted(change: str | None) -> tuple[str, ...]:
    return tuple(change.split(SEPARATOR)) if change else ()
