"""When the requests of a load are due: `burst`, `poisson:RATE` or `constant:RATE`."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal

from tracekit.errors import UsageError
from tracekit.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Arrival:
    """How requests arrive; `rate_per_s` is None for a burst."""

    pattern: Literal["burst", "poisson", "constant"]
    rate_per_s: float | None = None

    def __str__(self) -> str:
        return self.pattern if self.rate_per_s is None else f"{self.pattern}:{self.rate_per_s:g}"

    def schedule_ns(self, count: int, seed: int) -> list[int]:
        """Return when each request is due, in ns from the start, in rising order.

        The first request is due at once. The gaps of `poisson` are exponential, and the same for
        the same seed.
        """
        if self.rate_per_s is None:
            return [0] * count
        gap_s = 1 / self.rate_per_s
        if self.pattern == "constant":
            return [round(index * gap_s * NS_PER_S) for index in range(count)]
        source = random.Random(seed)
        due_s = 0.0
        due_ns = []
        for _ in range(count):
            due_ns.append(round(due_s * NS_PER_S))
            due_s += source.expovariate(self.rate_per_s)
        return due_ns


def parse_arrival(text: str) -> Arrival:
    """Read `--arrival`.

    Raises:
        UsageError: it is none of the three patterns, or the rate is no positive number.
    """
    pattern, colon, rate = text.strip().lower().partition(":")
    if pattern == "burst" and not colon:
        return Arrival("burst")
    if pattern in ("poisson", "constant") and colon:
        try:
            rate_per_s = float(rate)
        except ValueError:
            rate_per_s = math.nan
        if math.isfinite(rate_per_s) and rate_per_s > 0:
            # The comparison keeps the literal type.
            return Arrival("poisson" if pattern == "poisson" else "constant", rate_per_s)
        raise UsageError(f"--arrival {text}: {rate!r} is no rate in requests per second")
    raise UsageError(
        f"--arrival {text!r} is no arrival pattern",
        hint="burst, poisson:RATE or constant:RATE, with the rate in requests per second",
    )
