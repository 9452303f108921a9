"""Serving runs: records load A, predicts load B from A, runs B, and updates the page."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import made_parts
import torch
from msgspec import Struct, field

MEASURES: Mapping[str, tuple[str, float, float]] = {
    "tpot_mean_ns": ("mean TPOT, ms", 1e-6, 5),
    "output_tokens_per_s": ("output tokens/s", 1, 2),
    "ttft_mean_ns": ("mean TTFT, ms", 1e-6, 10),
}
"""Measures that are compared with reruns: name on the page, unit factor, and target in %."""

# Options common to both sides: no changes to the cache, and no profile.
_OPTIONS = {"--requests": 64, "--warmup-requests": 8, "--concurrency": 8, "--cache-blocks": 128}


class ServingPair(Struct, frozen=True):
    """Options of A and B, and the corresponding change; `more` is a run that adds step times.

    A rate is relative to the throughput with all requests at once.
    """

    name: str
    a: Mapping[str, Any]
    b: Mapping[str, Any]
    change: str
    more: Mapping[str, Any] | None = None


def _rate(share: float, **more: Any) -> dict[str, Any]:
    options = {f"--{name.replace('_', '-')}": value for name, value in more.items()}
    return {"rate": share} | options


PAIRS = (
    ServingPair("nothing changed", _rate(1 / 3), _rate(1 / 3), "rate x1"),
    ServingPair("1/3 → 1/6 of the maximum", _rate(1 / 3), _rate(1 / 6), "rate x0.5"),
    ServingPair("2/3 → 1/3", _rate(2 / 3), _rate(1 / 3), "rate x0.5"),
    ServingPair("2/3 → 1/6", _rate(2 / 3), _rate(1 / 6), "rate x0.25"),
    ServingPair("1/6 → 1/3", _rate(1 / 6), _rate(1 / 3), "rate x2", _rate(2 / 3)),
    ServingPair("1/3 → 2/3", _rate(1 / 3), _rate(2 / 3), "rate x2", _rate(1)),
    ServingPair("1/6 → 2/3", _rate(1 / 6), _rate(2 / 3), "rate x4", _rate(1)),
    ServingPair("limit 8 → 4", _rate(2 / 3), _rate(2 / 3, concurrency=4), "batch limit=4"),
    ServingPair("limit 4 → 8", _rate(2 / 3, concurrency=4), _rate(2 / 3), "batch limit=8",
                _rate(1)),
    ServingPair("limit 8 → 4, all at once", {}, {"--concurrency": 4}, "batch limit=4",
                _rate(2 / 3)),
    ServingPair("limit 4 → 8, all at once", {"--concurrency": 4}, {}, "batch limit=8", _rate(1)),
    ServingPair("limit 4 → 8, from A alone", {"--concurrency": 4}, {}, "batch limit=8"),
    ServingPair("step of 256 → 128 tokens", {"--max-batch-tokens": 256}, {}, "batch tokens=128",
                _rate(1)),
    ServingPair("cache of 2,048 → 896 tokens", {}, {"--cache-blocks": 56}, "kv tokens=896",
                _rate(2 / 3)),
)  # fmt: skip


class ServingRow(Struct):
    """Prediction and measurement of a pair by round: A, predicted, low, high, and B."""

    pair: ServingPair
    rounds: list[dict[str, Mapping[str, float]]] = field(default_factory=list)
    refusal: str = ""

    def median(self, what: str, measure: str) -> float:
        """Return the median over the rounds."""
        return statistics.median(each[what][measure] for each in self.rounds)

    def error_pct(self, measure: str) -> float:
        """Return the relative error of the prediction; positive if it is too high."""
        return 100 * (self.median("predicted", measure) / self.median("b", measure) - 1)

    def contains_measured(self, measure: str) -> bool:
        """Return whether the interval contains the measured value."""
        low, high = self.median("low", measure), self.median("high", measure)
        return low <= self.median("b", measure) <= high

    def noise_pct(self, measure: str) -> float:
        """Return the maximum deviation of runs of B from their median."""
        median = self.median("b", measure)
        return max(100 * abs(each["b"][measure] / median - 1) for each in self.rounds)

    def line(self) -> str:
        """Return it as a row of the table."""
        head = f"| {self.pair.name} | `{self.pair.change}` |"
        if not self.rounds:
            return f"{head} {self.refusal} | | | | | |"
        cells = []
        for measure, (_, factor, _) in MEASURES.items():
            a, predicted, low, high, b = (
                self.median(what, measure) * factor
                for what in ("a", "predicted", "low", "high", "b")
            )
            digits = 0 if b >= 100 else 2
            cells.append(
                f"{a:.{digits}f} → {predicted:.{digits}f} ({low:.{digits}f} to {high:.{digits}f}"
                f"{'' if self.contains_measured(measure) else ' ✗'}), measured {b:.{digits}f} "
                f"± {self.noise_pct(measure):.0f} % | {self.error_pct(measure):+.1f} %"
            )
        if self.refusal:
            cells[-1] += f" ({self.refusal})"
        return f"{head} {' | '.join(cells)} |"


def recorded(
    pairs: Sequence[ServingPair],
    folder: Path,
    rounds: int,
    run: Callable[[Path, Mapping[str, Any]], None],
) -> dict[str, list[Path]]:
    """Record the loads of all pairs, each once per round; return the folders of each load.

    Args:
        pairs: pairs to predict.
        folder: parent of the run folders.
        rounds: number of rounds; loads alternate, so that drift of the machine affects all.
        run: records a run folder with options.
    """
    wanted = {str(load): load for pair in pairs for load in (pair.a, pair.b, pair.more or pair.a)}
    folders: dict[str, list[Path]] = {name: [] for name in wanted}
    if any("rate" in load for load in wanted.values()):
        run(folder / "capacity", _OPTIONS)
        capacity_per_s = _requests_per_s(folder / "capacity")
    for number in range(rounds):
        for place, (name, options) in enumerate(wanted.items()):
            folders[name].append(folder / f"load{place}-{number}")
            given = dict(options)
            if (share := given.pop("rate", None)) is not None:
                given["--arrival"] = f"poisson:{share * capacity_per_s:.3g}"
            run(folders[name][-1], _OPTIONS | given)
    return folders


def _requests_per_s(folder: Path) -> float:
    import tracekit

    with tracekit.open(folder, traces=False, cache=False) as trace:
        (row,) = trace.query("throughput").to_dicts()
    return float(row["requests_per_s"])


def measured(pair: ServingPair, folders: Mapping[str, Sequence[Path]]) -> ServingRow:
    """Return prediction and measurement of a pair from the folders of loads."""
    import tracekit
    from tracekit.errors import QueryError

    row = ServingRow(pair)
    refusals: list[str] = []
    loads = (pair.a, pair.a if pair.more is None else pair.more, pair.b)
    rounds = list(zip(*(folders[str(load)] for load in loads), strict=True))
    for number, (a, more, b) in enumerate(rounds):
        known = [a] if pair.more is None else [a, more]
        # An unchanged load is compared with its next round.
        again = rounds[(number + 1) % len(rounds)][2] if a == b else b
        try:
            with tracekit.open(*known, traces=False, cache=False) as trace:
                result = trace.predict(pair.change)
        except QueryError as error:
            refusals.append(str(error))
            continue
        if result.predicted is None:
            refusals.append(str(result.reason))
            continue
        with tracekit.open(again, traces=False, cache=False) as trace:
            figures = seen(trace)
        row.rounds.append(
            {"a": result.recorded, "predicted": result.predicted, "b": figures}
            | {"low": result.low, "high": result.high}
        )
    if refusals:
        row.refusal = f"{len(refusals)} of {len(rounds)} refused: {refusals[0]}"
    return row


def seen(trace: Any) -> dict[str, float]:
    """Return request metrics from the analyses."""
    measures = {}
    for row in trace.query("latency", since="arrival").to_dicts():
        if row["metric"] in ("ttft", "tpot"):
            measures[f"{row['metric']}_mean_ns"] = row["mean_ns"]
        if row["metric"] == "itl":
            measures["itl_p99_ns"] = row["p99_ns"]
    (row,) = trace.query("throughput").to_dicts()
    return measures | {"output_tokens_per_s": row["output_tokens_per_s"]}


def filled(text: str, rows: Sequence[ServingRow], rounds: int) -> str:
    """Return the page with the rows in the part for loads."""
    predicted = [row for row in rows if row.rounds]
    lines = []
    for measure, (name, _, bar_pct) in MEASURES.items():
        errors = sorted(abs(row.error_pct(measure)) for row in predicted)
        if errors:
            within = sum(error <= bar_pct for error in errors)
            hit_count = sum(row.contains_measured(measure) for row in predicted)
            lines.append(
                f"| {name} | {statistics.median(errors):.1f} % | {bar_pct} % | {within} | "
                f"{errors[-1]:.1f} % | {hit_count} |"
            )
    heads = " | ".join(f"{name} | error" for name, _, _ in MEASURES.values())
    rule = "| --- " * (2 + 2 * len(MEASURES)) + "|"
    part = f"""Medians of {rounds} rounds of {_OPTIONS["--requests"]} requests; torch
{torch.__version__}, one thread, {os.cpu_count()} cores, load at the end {os.getloadavg()[0]:.1f};
{datetime.now(UTC).date()}. {len(predicted)} of {len(rows)} pairs have a prediction.

| | median error | target | pairs within target | worst | the interval contains the measured value |
| --- | --- | --- | --- | --- | --- |
{chr(10).join(lines)}

| pair | change | {heads} |
{rule}
{chr(10).join(row.line() for row in rows)}"""
    return made_parts.filled(text, "make predictions, serving", part)
