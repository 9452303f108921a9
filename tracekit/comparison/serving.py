"""Compares serving: latency, throughput, and steps by batch composition.

Samples are requests. Intervals over the requests of one run exclude effects common to all requests,
mainly of the queue. Gaps between tokens (itl) are not tested, because the gaps of one request are
not independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from tracekit.analysis.result import Column, Result, columns_of_text
from tracekit.comparison.noise import Difference, Gain, compare_series
from tracekit.comparison.quantiles import quantile_difference, rate_difference
from tracekit.comparison.tree import apportion, rounded
from tracekit.errors import UsageError
from tracekit.trace import Trace

METRICS = ("e2e", "ttft", "tpot")
QUANTILES = (50, 90, 99)
PHASES = ("prefill", "mixed", "decode", "verify")
ALL = "all"

_EXACT_TO = 16
_PARTS_OF_DOUBLE = 16


class ServingStep(Struct, frozen=True):
    phase: str
    prefill_token_count: int | None
    decode_request_count: int | None
    time_ns: Fraction

    @property
    def batch(self) -> tuple[str, int, int] | None:
        """Key of similar batches: counts up to 16 are equal, larger ones within about 4 %."""
        if self.prefill_token_count is None or self.decode_request_count is None:
            return None
        return self.phase, _about(self.prefill_token_count), _about(self.decode_request_count)


def _about(count: int) -> int:
    return count if count <= _EXACT_TO else round(_PARTS_OF_DOUBLE * math.log2(count))


class Served(Struct, frozen=True):
    latencies: Mapping[str, Sequence[int]]
    # Output tokens of each measured, successful request, and the time since the previous request
    # completed, ns. The times of a run add up to its interval in analysis `throughput`.
    answers: Sequence[tuple[int | None, int]]
    steps: Sequence[ServingStep]


class Batches(Struct, frozen=True):
    """Steps of one phase on both sides, and the parts of the difference of their mean.

    `by_batch_ns` is due to different frequencies of batches, `by_own_batch_ns` to batches on one
    side only, and `by_cost_ns` to different times of equal batches. They are None if batch
    composition is unknown or the sides share no batch.
    """

    phase: str
    base: Sequence[ServingStep]
    new: Sequence[ServingStep]
    difference: Difference
    base_ns: int
    new_ns: int
    by_batch_ns: int | None
    by_own_batch_ns: int | None
    by_cost_ns: int | None
    matched_pct: float | None


class Serving(Struct, frozen=True):
    latency: Mapping[tuple[str, int], Difference]
    rates: Mapping[str, Difference]
    batches: Sequence[Batches]


def served_by(traces: Sequence[Trace]) -> Served:
    latencies: dict[str, list[int]] = {}
    answers: list[tuple[int | None, int]] = []
    steps: list[ServingStep] = []
    for trace in traces:
        ((has_requests, has_steps),) = trace.sql(
            "SELECT EXISTS (FROM request), EXISTS (FROM serving_step_ranges)"
        )
        if has_requests:
            for metric, value_ns in trace.sql(
                "SELECT metric, value_ns FROM request_latency('sent') WHERE metric <> 'itl'"
            ):
                latencies.setdefault(metric, []).append(value_ns)
            answers += _answers(trace)
        if has_steps:
            steps += _steps(trace)
    return Served(latencies, answers, steps)


def _answers(trace: Trace) -> Iterable[tuple[int | None, int]]:
    rows = trace.sql(
        "SELECT t.run_id, r.end_ns, r.output_token_count, "
        "min(r.sent_ns) OVER (PARTITION BY t.run_id) AS first_ns, t.is_ok "
        "FROM request_times('sent') AS t JOIN request AS r USING (run_id, request_id) "
        "WHERE t.is_measured ORDER BY t.run_id, r.end_ns"
    )
    last: dict[object, int] = {}
    for run, end_ns, count, first_ns, is_ok in rows:
        if is_ok:
            yield count, end_ns - last.get(run, first_ns)
            last[run] = end_ns


def _steps(trace: Trace) -> Iterable[ServingStep]:
    # The devices of a step work in parallel, so its time is their mean.
    result: dict[int, list[ServingStep]] = {}
    for row in trace.query("serving_steps").to_dicts():
        if row["step"] is not None:
            result.setdefault(row["step"], []).append(
                ServingStep(
                    row["phase"],
                    row["prefill_token_count"],
                    row["decode_request_count"],
                    Fraction(row["wall_ns"] + row["idle_ns"]),
                )
            )
    for of_devices in result.values():
        one = of_devices[0]
        time_ns = sum((step.time_ns for step in of_devices), Fraction()) / len(of_devices)
        yield ServingStep(one.phase, one.prefill_token_count, one.decode_request_count, time_ns)


def compare_serving(base: Served, new: Served, margin_pct: float) -> Serving | None:
    latency = {
        (metric, quantile): quantile_difference(
            base.latencies[metric], new.latencies[metric], quantile, margin_pct=margin_pct
        )
        for metric in METRICS
        for quantile in QUANTILES
        if base.latencies.get(metric) and new.latencies.get(metric)
    }
    rates = {}
    for name in ("requests_per_s", "output_tokens_per_s"):
        pairs = _amounts(base, name), _amounts(new, name)
        if pairs[0] and pairs[1]:
            rates[name] = rate_difference(*pairs, margin_pct=margin_pct)
    batches = []
    for phase in (*PHASES, ALL):
        chosen = [[one for one in side.steps if phase in (ALL, one.phase)] for side in (base, new)]
        if all(chosen):
            batches.append(_batches(phase, chosen[0], chosen[1], margin_pct))
    return Serving(latency, rates, batches) if latency or rates or batches else None


def load_gain(base: Trace, new: Trace, figure: str) -> Gain:
    """Return the reduction of one of the FIGURES of advice; for tokens/s, of the time per token."""
    metric, _, statistic = figure.partition("_")
    statement = f"SELECT value_ns FROM request_latency('arrival') WHERE metric = '{metric}'"
    values = [[value_ns for (value_ns,) in trace.sql(statement)] for trace in (base, new)]
    if metric == "output":
        pairs = [_amounts(Served({}, [*_answers(trace)], ()), figure) for trace in (base, new)]
    else:
        pairs = [[(1, value_ns) for value_ns in side] for side in values]
    if not all(pairs):
        raise UsageError(f"a run has no {figure} to compare")
    if statistic == "p99_ns":
        result = quantile_difference(values[0], values[1], 99)
        times = [
            result.base + part for part in (result.difference, result.high or 0, result.low or 0)
        ]
        ratios = [one / result.base for one in times]
    else:
        result = rate_difference(pairs[0], pairs[1])
        rates = [
            result.base + part for part in (result.difference, result.low or 0, result.high or 0)
        ]
        ratios = [result.base / one for one in rates]
    gain, least, most = (100 * (1 - ratio) for ratio in ratios)
    if result.low is None:
        return gain, None, None, result.verdict
    return gain, least, most, result.verdict


def _amounts(side: Served, rate: str) -> list[tuple[int, int]]:
    """Return numbers of requests or tokens with their times; an empty list if some are unknown."""
    results = []
    for token_count, ns in side.answers:
        amount = 1 if rate == "requests_per_s" else token_count
        if amount is None:
            return []
        results.append((amount, ns))
    return results


def _batches(
    phase: str, base: Sequence[ServingStep], new: Sequence[ServingStep], margin_pct: float
) -> Batches:
    difference = compare_series(
        [float(one.time_ns) for one in base],
        [float(one.time_ns) for one in new],
        margin_pct=margin_pct,
    )
    means = _mean(base), _mean(new)
    base_ns, new_ns = rounded(means[0]), rounded(means[1])
    parts: tuple[int, ...] | tuple[None, None, None] = (None, None, None)
    matched_pct = None
    if all(one.batch is not None for one in (*base, *new)):
        groups = _grouped(base), _grouped(new)
        common = groups[0].keys() & groups[1].keys()
        matched = sum(len(group[key]) for group in groups for key in common)
        matched_pct = 100 * matched / (len(base) + len(new))
        if common:
            exact = _parts(groups, common, means)
            parts = tuple(apportion(new_ns - base_ns, exact))
    by_batch_ns, by_own_batch_ns, by_cost_ns = parts
    return Batches(
        *(phase, base, new, difference, base_ns, new_ns),
        *(by_batch_ns, by_own_batch_ns, by_cost_ns, matched_pct),
    )


_Groups = Mapping[tuple[str, int, int], Sequence[ServingStep]]


def _parts(
    groups: tuple[_Groups, _Groups],
    common: Iterable[tuple[str, int, int]],
    means: tuple[Fraction, Fraction],
) -> list[Fraction]:
    """Split the difference of two means by cause: batch frequency, batches of one side, cost.

    The difference of the products is split symmetrically (Kitagawa 1955), so that swapping base and
    new only changes signs.
    """
    shared = [[group[key] for key in sorted(common)] for group in groups]
    shares = [[Fraction(len(steps), sum(map(len, side))) for steps in side] for side in shared]
    costs = [[_mean(steps) for steps in side] for side in shared]
    by_batch = by_cost = Fraction()
    for share, other_share, cost, other_cost in zip(*shares, *costs, strict=True):
        by_batch += (other_share - share) * (cost + other_cost) / 2
        by_cost += (other_share + share) * (other_cost - cost) / 2
    return [by_batch, means[1] - means[0] - by_batch - by_cost, by_cost]


def _mean(steps: Sequence[ServingStep]) -> Fraction:
    return sum((one.time_ns for one in steps), Fraction()) / len(steps)


def _grouped(steps: Sequence[ServingStep]) -> dict[tuple[str, int, int], list[ServingStep]]:
    result: dict[tuple[str, int, int], list[ServingStep]] = {}
    for one in steps:
        if one.batch is not None:
            result.setdefault(one.batch, []).append(one)
    return result


def serving_tables(serving: Serving) -> dict[str, Result]:
    latencies = [((name, f"p{rank}"), one) for (name, rank), one in serving.latency.items()]
    rates = [((name.removesuffix("_per_s"),), one) for name, one in serving.rates.items()]
    tables = (
        _intervals("comparison_latency", "ns", latencies, ("metric", "statistic")),
        _intervals("comparison_throughput", "per_s", rates, ("rate",)),
        _batches_table(serving),
    )
    return {table.name: table for table in tables}


def _intervals(
    name: str,
    unit: str,
    intervals: Sequence[tuple[Sequence[str], Difference]],
    keys: Sequence[str],
) -> Result:
    sides, parts = ("base", "new"), ("difference", "low", "high")
    columns = (
        *(Column(key, "VARCHAR") for key in keys),
        *(Column(f"{side}_count", "BIGINT") for side in sides),
        *(Column(f"{one}_{unit}", "DOUBLE") for one in (*sides, *parts)),
        *(Column(f"{one}_pct", "DOUBLE") for one in parts),
        *(Column("verdict", "VARCHAR"), Column("more_count", "BIGINT")),
    )
    rows = [
        (
            *(*key, one.base_count, one.new_count, one.base, one.new),
            *(one.difference, one.low, one.high),
            *(one.difference_pct, one.low_pct, one.high_pct),
            *(one.verdict, one.more_count),
        )
        for key, one in intervals
    ]
    return Result(name, columns, rows)


def _batches_table(serving: Serving) -> Result:
    columns = columns_of_text(
        "phase VARCHAR, base_step_count BIGINT, new_step_count BIGINT, "
        "base_mean_prefill_token_count DOUBLE, new_mean_prefill_token_count DOUBLE, "
        "base_mean_decode_request_count DOUBLE, new_mean_decode_request_count DOUBLE, "
        "base_ns BIGINT, new_ns BIGINT, delta_ns BIGINT, by_batch_ns BIGINT, "
        "by_own_batch_ns BIGINT, by_cost_ns BIGINT, matched_pct DOUBLE, low_ns DOUBLE, "
        "high_ns DOUBLE, verdict VARCHAR"
    )
    return Result("comparison_batches", columns, [_row(one) for one in serving.batches])


def _row(one: Batches) -> tuple[Any, ...]:
    means = [
        _mean_count([getattr(step, name) for step in steps])
        for name in ("prefill_token_count", "decode_request_count")
        for steps in (one.base, one.new)
    ]
    result = one.difference
    return (
        *(one.phase, len(one.base), len(one.new), *means),
        *(one.base_ns, one.new_ns, one.new_ns - one.base_ns),
        *(one.by_batch_ns, one.by_own_batch_ns, one.by_cost_ns, one.matched_pct),
        *(result.low, result.high, result.verdict),
    )


def _mean_count(counts: list[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) / len(known) if len(known) == len(counts) else None
