"""What the page of predictions that were held against reality says of each pair, and of all."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import made_parts
import torch


@dataclass(frozen=True)
class Row:
    """What was predicted for a pair and what came: milliseconds of a step, under the profiler.

    `reason` says why there is no prediction. `is_null` is a pair in which nothing changes.
    """

    name: str
    change: str = ""
    before_ms: float = 0.0
    told_ms: float = 0.0
    low_ms: float = 0.0
    high_ms: float = 0.0
    after_ms: float = 0.0
    noise_pct: float = 0.0
    is_null: bool = False
    reason: str | None = None

    @property
    def error_pct(self) -> float:
        """By how much the prediction is longer than what came."""
        return 100 * (self.told_ms / self.after_ms - 1)

    @property
    def truth_pct(self) -> float:
        """By how much the step got longer."""
        return 100 * (self.after_ms / self.before_ms - 1)

    @property
    def is_held(self) -> bool:
        """Whether the interval holds what came."""
        return self.low_ms <= self.after_ms <= self.high_ms

    @property
    def is_noise(self) -> bool:
        """Whether what changed is no more than the noise."""
        return abs(self.truth_pct) <= self.noise_pct

    @property
    def has_sign(self) -> bool:
        """Whether it got longer or shorter as predicted."""
        return (self.told_ms - self.before_ms) * (self.after_ms - self.before_ms) > 0

    def line(self) -> str:
        """Return it as a row of the table."""
        if self.reason is not None:
            return f"| {self.name} | {_code(self.change)} | | {self.reason} | | | | |"
        interval = f"{self.low_ms:.1f} to {self.high_ms:.1f}{'' if self.is_held else ' ✗'}"
        change = f"{self.truth_pct:+.1f} %{' (noise)' if self.is_noise else ''}"
        return (
            f"| {self.name} | {_code(self.change)} | {self.before_ms:.1f} | {self.told_ms:.1f} "
            f"({interval}) | {self.after_ms:.1f} | {change} | {self.error_pct:+.1f} % "
            f"| {self.noise_pct:.1f} % |"
        )


def _code(change: str) -> str:
    return " · ".join(f"`{text}`" for text in change.split("; ")) if change else ""


def summary(rows: Sequence[Row]) -> str:
    """Return what the rows amount to, without a mean."""
    told = [row for row in rows if row.reason is None]
    if not told:
        return "Nothing was predicted.\n"
    errors = sorted(abs(row.error_pct) for row in told)
    real = [row for row in told if not row.is_noise and not row.is_null]
    worst = max(told, key=lambda row: abs(row.error_pct))
    within = [sum(error <= limit for error in errors) for limit in (3.3, 5, 10)]
    count = len(told)
    return f"""| | |
| --- | --- |
| pairs with a prediction | {count} of {len(rows)} |
| median of the errors, without their sign | {statistics.median(errors):.1f} % |
| within 3.3 %, 5 %, 10 % | {within[0]}, {within[1]}, {within[2]} of {count} |
| worst | {worst.error_pct:+.1f} % ({worst.name}) |
| too long, too short | {sum(r.error_pct > 0 for r in told)}, {sum(r.error_pct < 0 for r in told)} |
| the interval holds what came | {sum(row.is_held for row in told)} of {count} |
| the sign is right, of changes beyond the noise | {sum(r.has_sign for r in real)} of {len(real)} |
| median noise of A against A | {statistics.median(row.noise_pct for row in told):.1f} % |
"""


def filled(text: str, rows: Sequence[Row], rounds: int, steps: int) -> str:
    """Return the page with these rows in the part that `make predictions` writes."""
    table = "\n".join(row.line() for row in rows)
    made = f"""Medians of {rounds} windows of {steps} steps; torch {torch.__version__}, one thread a
rank, {os.cpu_count()} cores, load at the end {os.getloadavg()[0]:.1f}; {datetime.now(UTC).date()}.

{summary(rows)}
| pair | change | A, ms | predicted (interval), ms | B, ms | B against A | error | noise |
| --- | --- | --- | --- | --- | --- | --- | --- |
{table}
"""
    return made_parts.filled(text, "make predictions", made)
