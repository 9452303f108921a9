"""Step times of a serving engine by the work of the step, measured on recorded steps.

Steps with prefill and decode-only steps are separate kinds, because they run different kernels. For
each kind, least squares fits the time to the most explanatory terms among prompt tokens, decoding
requests, context tokens, and tokens times context (the cost of attention). The mean residual per
number of decoding requests is added, because the efficiency of kernels depends on it.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import fsum

from msgspec import Struct

from tracekit.errors import QueryError
from tracekit.prediction.batching import StepTime, Work

_STEPS_PER_TERM, _MIN_GAIN = 16, 0.02
"""Minimum number of steps per term, and minimum share of variance that a term must explain."""

_DOUBT_STEPS = 5
"""Number of zeros added to the residuals per number of requests, to shrink their mean."""

_BLOCK_STEPS = 4
"""Mean length of resampled blocks of consecutive steps, because adjacent steps are correlated."""

_MIN_ALIKE, _MIN_ALIKE_PCT, _ENOUGH_ALIKE = 3, 2.0, 10
"""A step is known if enough recorded steps decode a similar number of requests: at least
`_MIN_ALIKE` and `_MIN_ALIKE_PCT` percent of all steps, or `_ENOUGH_ALIKE`."""

_NEAR = 0.1
"""Maximum difference of similar steps in requests, prefill tokens, or context tokens, as a share of
the range; for requests, at least 1."""


class Timed(Struct, frozen=True):
    """One step, or several consecutive steps, with their total time, ns."""

    works: tuple[Work, ...]
    dur_ns: int


class _Row(Struct, frozen=True):
    terms: Sequence[float]
    dur_ns: int
    decode_count: int


class _Line:
    def __init__(self, rows: Sequence[_Row], terms: Sequence[int]) -> None:
        self._factors = _least_squares(rows, terms)
        self._missed: dict[int, float] = {}
        missed = defaultdict(list)
        for row in rows:
            missed[row.decode_count].append(self.missed_ns(row))
        for count, values in missed.items():
            self._missed[count] = fsum(values) / (len(values) + _DOUBT_STEPS)

    def dur_ns(self, terms: Sequence[float], decode_count: int) -> float:
        line = fsum(factor * term for factor, term in zip(self._factors, terms, strict=True))
        return line + terms[0] * self._missed.get(decode_count, 0.0)

    def missed_ns(self, row: _Row) -> float:
        """Return the residual per step."""
        return (row.dur_ns - self.dur_ns(row.terms, row.decode_count)) / row.terms[0]


class _Kind:
    def __init__(self, steps: Sequence[Timed]) -> None:
        self._works = [work for step in steps for work in step.works]
        _, decodes, contexts = zip(*self._works, strict=True)
        self._decodes = min(decodes), max(decodes)
        self._contexts = min(contexts), max(contexts)
        self._rows: list[_Row] = []
        for step in steps:
            columns = zip(*map(_terms, step.works), strict=True)
            terms = [sum(column) for column in columns]
            self._rows.append(_Row(terms, step.dur_ns, step.works[0].decode_count))
        self._terms = _useful_terms(self._rows)
        self.line = _Line(self._rows, self._terms)
        self._longer_ns = [self.line.missed_ns(row) for row in self._rows]
        self.shortest_ns = min(int(row.dur_ns / row.terms[0]) for row in self._rows)
        self.read = cache(self._read)
        self.nearest_batch = cache(self._nearest_batch)

    def drawn(self, chance: random.Random) -> tuple[_Line, Iterator[float]]:
        """Return a line fitted to resampled steps, and the residuals of single steps."""
        places = self._places(chance)
        line = _Line([self._rows[next(places)] for _ in self._rows], self._terms)
        return line, (self._longer_ns[at] for at in places)

    def _places(self, chance: random.Random) -> Iterator[int]:
        at = 0
        while True:
            at = (at + 1) % len(self._rows)
            if chance.random() < 1 / _BLOCK_STEPS:
                at = chance.randrange(len(self._rows))
            yield at

    def _read(self, decode_count: int) -> list[int]:
        """Return count, minimum, and maximum of prefill tokens at similar decode counts."""
        near = max(1, _NEAR * (self._decodes[1] - self._decodes[0]))
        read = [
            work.prefill_token_count
            for work in self._works
            if abs(work.decode_count - decode_count) <= near
        ]
        return [len(read), min(read, default=0), max(read, default=0)]

    def nearest(self, work: Work) -> Work:
        """Return the most similar recorded step, with its context if recorded."""
        read, decodes = self.nearest_batch(work.prefill_token_count, work.decode_count)
        low, high = self._contexts
        return Work(read, decodes, min(max(work.context_token_count, low), high))

    def _nearest_batch(self, read: int, decodes: int) -> tuple[int, int]:
        return min(
            (one[:2] for one in self._works),
            key=lambda one: (abs(one[1] - decodes), abs(one[0] - read)),
        )

    def strange(self, work: Work) -> str | None:
        """Return how a step differs from all recorded steps; None if it is similar to one."""
        decodes = work.decode_count
        alike_count, *read = self.read(decodes)
        share = len(self._works) * _MIN_ALIKE_PCT / 100
        if alike_count < max(_MIN_ALIKE, min(share, _ENOUGH_ALIKE)):
            return (
                f"would decode {decodes} requests, similar to {alike_count} of "
                f"{len(self._works)} recorded steps; recorded steps decode "
                f"{self._decodes[0]} to {self._decodes[1]}"
            )
        decoding = "1 request decodes" if decodes == 1 else f"{decodes} requests decode"
        for verb, kind, count, (low, high), such in (
            ("process", "prompt", work.prefill_token_count, read, " with about that many requests"),
            ("read", "context", work.context_token_count, self._contexts, ""),
        ):
            if max(low - count, count - high) > _NEAR * (high - low):
                return (
                    f"would {verb} {count} {kind} tokens while {decoding}; "
                    f"recorded steps{such} {verb} {low} to {high} tokens"
                )
        return None


class StepTimes:
    def __init__(self, steps: Sequence[Timed]) -> None:
        self._kinds = {
            reads: _Kind(chosen)
            for reads in (True, False)
            if (chosen := [step for step in steps if (step.works[0][0] > 0) is reads])
        }

    def usual(self) -> StepTime:
        return self._times({reads: (kind.line, None) for reads, kind in self._kinds.items()})

    def drawn(self, seed: int) -> StepTime:
        """Return step times of a resampled run: a block bootstrap of the recorded steps."""
        chance = random.Random(seed)
        return self._times({reads: kind.drawn(chance) for reads, kind in self._kinds.items()})

    def _times(self, drawn: Mapping[bool, tuple[_Line, Iterator[float] | None]]) -> StepTime:
        def step_ns(work: Work) -> int:
            reads = work.prefill_token_count > 0
            if reads not in drawn:
                kind = "prefill" if reads else "decode"
                raise QueryError(f"no {kind} step is recorded")
            line, longer_ns = drawn[reads]
            dur_ns = line.dur_ns(_terms(work), work.decode_count)
            dur_ns += next(longer_ns) if longer_ns else 0.0
            return max(int(dur_ns + 0.5), self._kinds[reads].shortest_ns)

        return step_ns

    def bounded(self, step_ns: StepTime, power: float) -> StepTime:
        """Return step times that bound steps unlike all recorded steps by the nearest one.

        With `power` 0, a decode step takes as long as the nearest step, and prefill time grows with
        the square root of the token count. With 1, both times are proportional to requests or
        tokens.
        """

        def bounded_ns(work: Work) -> int:
            kind = self._kinds.get(work.prefill_token_count > 0)
            near = kind.nearest(work) if kind else work
            took_ns = step_ns(near)
            if not work.prefill_token_count:
                return int(took_ns * math.pow(work.decode_count / near.decode_count, power))
            near_ns, decode_ns = (
                bounded_ns(one._replace(prefill_token_count=0)) if one.decode_count else 0
                for one in (near, work)
            )
            share = work.prefill_token_count / near.prefill_token_count
            read_ns = max(took_ns - near_ns, 0) * math.pow(share, (1 + power) / 2)
            return decode_ns + int(read_ns)

        return lambda work: bounded_ns(work) if self._strange(work) else step_ns(work)

    def _strange(self, work: Work) -> str | None:
        reads = work.prefill_token_count > 0
        kind = self._kinds.get(reads)
        name = "prefill" if reads else "decode"
        if kind is None:
            return f"no {name} steps are recorded"
        why = kind.strange(work)
        return why and f"some {name} steps {why}"

    def ratio(self, steps: Sequence[Timed]) -> float | None:
        """Return the ratio of another run's step times to these; None if no steps are similar."""
        usual = self.usual()
        alike = [step for step in steps if not any(map(self._strange, step.works))]
        usual_ns = sum(usual(work) for step in alike for work in step.works)
        return sum(step.dur_ns for step in alike) / usual_ns if usual_ns else None

    def unknown(self, steps: Sequence[tuple[Work, int]]) -> tuple[float, str]:
        """Return the share of time in steps unlike all recorded steps, in %, and the reason."""
        times: defaultdict[str, int] = defaultdict(int)
        for work, took_ns in steps:
            if why := self._strange(work):
                times[why] += took_ns
        if not times:
            return 0.0, ""
        total_ns = sum(took_ns for _, took_ns in steps)
        return 100 * sum(times.values()) / total_ns, max(times, key=times.__getitem__)


def _terms(work: Work) -> tuple[float, ...]:
    prefill, decodes, context = work
    attention = 1.0 * (prefill + decodes) * context
    if prefill:
        return 1.0, prefill, attention, decodes, context
    return 1.0, decodes, context, attention


def _useful_terms(rows: Sequence[_Row]) -> list[int]:
    """Return the most explanatory terms by forward selection, starting with the constant."""
    selected, factors = [0], _solved(rows, [0])
    residual = _squares(rows, factors, selected)
    total = sum(row.dur_ns**2 for row in rows)
    while len(selected) <= len(rows) // _STEPS_PER_TERM and residual > 1e-18 * total:
        results = []
        for term in range(len(rows[0].terms)):
            if term not in selected:
                factors = _solved(rows, [*selected, term])
                if all(factor >= 0 for factor in factors[1:]):
                    results.append((_squares(rows, factors, [*selected, term]), term))
        if not results or min(results)[0] > (1 - _MIN_GAIN) * residual:
            break
        residual, term = min(results)
        selected.append(term)
    return selected


def _squares(rows: Sequence[_Row], factors: Sequence[float], terms: Sequence[int]) -> float:
    chosen = list(zip(factors, terms, strict=True))
    return fsum(
        (row.dur_ns - fsum(factor * row.terms[i] for factor, i in chosen)) ** 2 for row in rows
    )


def _least_squares(rows: Sequence[_Row], terms: Sequence[int]) -> list[float]:
    """Return nonnegative coefficients of all terms, because more work does not take less time."""
    selected = list(terms)
    result = _solved(rows, selected)
    while min(result[1:], default=0.0) < 0:
        selected = [i for i, factor in zip(selected, result, strict=True) if i == 0 or factor >= 0]
        result = _solved(rows, selected)
    factors = dict(zip(selected, result, strict=True))
    return [factors.get(i, 0.0) for i in range(len(rows[0].terms))]


def _solved(rows: Sequence[_Row], selected: Sequence[int]) -> list[float]:
    """Return the coefficients of these terms; linearly dependent terms get 0."""
    scale = [max(abs(row.terms[i]) for row in rows) or 1.0 for i in selected]
    scaled = [[row.terms[i] / by for i, by in zip(selected, scale, strict=True)] for row in rows]
    places = range(len(selected))
    table = [
        [fsum(row[i] * row[j] for row in scaled) for j in places]
        + [fsum(terms[i] * row.dur_ns for terms, row in zip(scaled, rows, strict=True))]
        for i in places
    ]
    squares = [table[i][i] for i in places]
    used = [False for _ in places]
    for i in places:
        used[i] = table[i][i] > 1e-9 * squares[i]
        for j in places:
            if used[i] and j != i:
                share = table[j][i] / table[i][i]
                table[j] = [a - share * b for a, b in zip(table[j], table[i], strict=True)]
    return [table[i][-1] / table[i][i] / scale[i] if used[i] else 0.0 for i in places]
