"""Serving compared, as tables."""

from __future__ import annotations

from typing import Any

from tracekit.analysis.result import Column, Result
from tracekit.comparison.quantiles import Interval
from tracekit.comparison.serving import Batches, Serving


def serving_tables(serving: Serving) -> dict[str, Result]:
    """Return latency, throughput and the steps by their batches as tables by name.

    Args:
        serving: what was found.
    """
    return {
        "comparison_latency": _intervals(
            "comparison_latency",
            "ns",
            [
                ((metric, f"p{quantile}"), one)
                for (metric, quantile), one in serving.latency.items()
            ],
            ("metric", "statistic"),
        ),
        "comparison_throughput": _intervals(
            "comparison_throughput",
            "per_s",
            [((name.removesuffix("_per_s"),), one) for name, one in serving.rates.items()],
            ("rate",),
        ),
        "comparison_batches": _batches(serving),
    }


def _intervals(
    name: str,
    unit: str,
    rows: list[tuple[tuple[str, ...], Interval]],
    keys: tuple[str, ...],
) -> Result:
    columns = (
        *(Column(key, "VARCHAR") for key in keys),
        Column("base_count", "BIGINT"),
        Column("new_count", "BIGINT"),
        *(
            Column(f"{one}_{unit}", "DOUBLE")
            for one in ("base", "new", "difference", "low", "high")
        ),
        *(Column(f"{one}_pct", "DOUBLE") for one in ("difference", "low", "high")),
        Column("verdict", "VARCHAR"),
        Column("more_count", "BIGINT"),
    )
    return Result(
        name,
        columns,
        [
            (
                *(*key, one.base_count, one.new_count, one.base, one.new, one.difference),
                *(one.low, one.high),
                *(_pct(part, one.base) for part in (one.difference, one.low, one.high)),
                *(one.verdict, one.more_count),
            )
            for key, one in rows
        ],
    )


def _pct(part: float | None, whole: float) -> float | None:
    return 100 * part / whole if whole and part is not None else None


def _batches(serving: Serving) -> Result:
    columns = (
        Column("phase", "VARCHAR"),
        *(Column(f"{side}_step_count", "BIGINT") for side in ("base", "new")),
        *(
            Column(f"{side}_mean_{what}_count", "DOUBLE")
            for what in ("prefill_token", "decode_request")
            for side in ("base", "new")
        ),
        *(Column(name, "BIGINT") for name in ("base_ns", "new_ns", "delta_ns")),
        *(Column(f"by_{name}_ns", "BIGINT") for name in ("batch", "own_batch", "cost")),
        Column("matched_pct", "DOUBLE"),
        Column("low_ns", "DOUBLE"),
        Column("high_ns", "DOUBLE"),
        Column("verdict", "VARCHAR"),
    )
    return Result("comparison_batches", columns, [_row(one) for one in serving.batches])


def _row(one: Batches) -> tuple[Any, ...]:
    means = [
        _mean([getattr(step, name) for step in steps])
        for name in ("prefill_token_count", "decode_request_count")
        for steps in (one.base, one.new)
    ]
    found = one.difference
    return (
        *(one.phase, len(one.base), len(one.new), *means),
        *(one.base_ns, one.new_ns, one.new_ns - one.base_ns),
        *(one.by_batch_ns, one.by_own_batch_ns, one.by_cost_ns, one.matched_pct),
        *(found.low, found.high, found.verdict),
    )


def _mean(counts: list[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) / len(known) if len(known) == len(counts) else None
