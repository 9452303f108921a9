"""Page of predictions compared with measurements: rows per pair, and a summary."""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime

import made_parts
import torch
from msgspec import Struct


class Row(Struct, frozen=True):
    """Prediction and measurement of a pair, in milliseconds per profiled step.

    `reason` explains a missing prediction. `is_null` means that the pair has no change.
    """

    name: str
    change: str = ""
    before_ms: float = 0.0
    predicted_ms: float = 0.0
    low_ms: float = 0.0
    high_ms: float = 0.0
    after_ms: float = 0.0
    noise_pct: float = 0.0
    is_null: bool = False
    reason: str | None = None

    @property
    def error_pct(self) -> float:
        """Relative error of the prediction; positive if it is too long."""
        return 100 * (self.predicted_ms / self.after_ms - 1)

    @property
    def truth_pct(self) -> float:
        """Relative change of the measured step."""
        return 100 * (self.after_ms / self.before_ms - 1)

    @property
    def has_factor(self) -> bool:
        """Whether the user provides a factor for the work of a phase or module."""
        return re.search(r"\b(phase|module)=\S+ x[\d.]", self.change) is not None

    @property
    def contains_measured(self) -> bool:
        """Whether the interval contains the measured value."""
        return self.low_ms <= self.after_ms <= self.high_ms

    @property
    def is_noise(self) -> bool:
        """Whether the change does not exceed the noise."""
        return abs(self.truth_pct) <= self.noise_pct

    @property
    def has_sign(self) -> bool:
        """Whether the direction of the change was predicted."""
        return (self.predicted_ms - self.before_ms) * (self.after_ms - self.before_ms) > 0

    def line(self) -> str:
        """Return the row of the table."""
        if self.reason is not None:
            return f"| {self.name} | {_code(self.change)} | | {self.reason} | | | | |"
        interval = (
            f"{self.low_ms:.1f} to {self.high_ms:.1f}{'' if self.contains_measured else ' ✗'}"
        )
        change = f"{self.truth_pct:+.1f} %{' (noise)' if self.is_noise else ''}"
        return (
            f"| {self.name} | {_code(self.change)} | {self.before_ms:.1f} | {self.predicted_ms:.1f}"
            f" ({interval}) | {self.after_ms:.1f} | {change} | {self.error_pct:+.1f} % "
            f"| {self.noise_pct:.1f} % |"
        )


def _code(change: str) -> str:
    return " · ".join(f"`{text}`" for text in change.split("; ")) if change else ""


def summary(rows: Sequence[Row]) -> str:
    """Return a summary of all rows, and of rows with and without a user-provided factor."""
    if all(row.reason is not None for row in rows):
        return "Nothing was predicted.\n"
    parts = [
        ("all", rows),
        ("derived from the trace", [row for row in rows if not row.has_factor]),
        ("work scaled by the user's factor", [row for row in rows if row.has_factor]),
    ]
    columns = [_amounts(some) for _, some in parts]
    lines = [f"| {name} | {' | '.join(one[name] for one in columns)} |" for name in columns[0]]
    head = f"| | {' | '.join(name for name, _ in parts)} |\n| --- | --- | --- | --- |\n"
    return head + "\n".join(lines) + "\n"


def _amounts(rows: Sequence[Row]) -> dict[str, str]:
    predicted = [row for row in rows if row.reason is None]
    errors = sorted(abs(row.error_pct) for row in predicted)
    real = [row for row in predicted if not row.is_noise and not row.is_null]
    worst = max(predicted, key=lambda row: abs(row.error_pct), default=None)
    within = [sum(error <= limit for error in errors) for limit in (3.3, 5, 10)]
    count, hit_count = len(predicted), sum(row.contains_measured for row in predicted)
    longer = sum(row.error_pct > 0 for row in predicted)
    shorter = sum(row.error_pct < 0 for row in predicted)
    noise_pct = statistics.median(row.noise_pct for row in predicted) if predicted else 0
    return {
        "pairs with a prediction": f"{count} of {len(rows)}",
        "median absolute error": (f"{statistics.median(errors):.1f} %" if errors else "–"),
        "within 3.3 %, 5 %, 10 %": f"{within[0]}, {within[1]}, {within[2]} of {count}",
        "worst": f"{worst.error_pct:+.1f} % ({worst.name})" if worst else "–",
        "predictions too long, too short": f"{longer}, {shorter}",
        "the interval contains the measured value": f"{hit_count} of {count}",
        "correct sign, of changes beyond the noise": (
            f"{sum(row.has_sign for row in real)} of {len(real)}"
        ),
        "median noise of repeated runs of A": f"{noise_pct:.1f} %" if predicted else "–",
    }


def filled(text: str, rows: Sequence[Row], rounds: int, steps: int) -> str:
    """Return the page with the rows in the part that `make predictions` writes."""
    table = "\n".join(row.line() for row in rows)
    part = f"""Medians of {rounds} windows of {steps} steps; torch {torch.__version__}, one thread a
rank, {os.cpu_count()} cores, load at the end {os.getloadavg()[0]:.1f}; {datetime.now(UTC).date()}.

{summary(rows)}
| pair | change | A, ms | predicted (interval), ms | B, ms | B relative to A | error | noise |
| --- | --- | --- | --- | --- | --- | --- | --- |
{table}
"""
    return made_parts.filled(text, "make predictions", part)
