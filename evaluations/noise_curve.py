"""Measures how often differences are detected, by size, number of steps, and noise.

Steps of a real run are resampled for both sides, and one side is lengthened. The run is noisier
than most, so its noise is also scaled down, keeping the long tail.

    python evaluations/noise_curve.py

prints the table of docs/how-to/compare-runs.md.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist, median

from tracekit.comparison.noise import compare_series
from tracekit.comparison.statistics import ALPHA, spread

STEPS = Path(__file__).resolve().parents[1] / "tests" / "comparison" / "steps_of_a_busy_run.json"
PAIRS = 400
PAIRS_WITHOUT_DIFFERENCE = 2_000
SPREADS_PCT = (0.5, 1.0, 2.0)
COUNTS = (6, 10, 20)
EFFECTS_PCT = (0.0, 1.0, 2.0, 5.0)


def real_steps() -> list[float]:
    steps: list[float] = json.loads(STEPS.read_text("utf-8"))["step_ns"]
    return steps


def with_spread(steps: Sequence[float], spread_pct: float) -> list[float]:
    """Return steps with their noise scaled to a spread.

    Args:
        steps: recorded steps, ns.
        spread_pct: standard deviation estimated from the median absolute deviation, percent of the
            median.
    """
    middle = median(steps)
    factor = spread_pct / 100 * middle / spread(steps)
    return [middle + factor * (step - middle) for step in steps]


def verdicts(steps: Sequence[float], count: int, effect_pct: float, pairs: int) -> Counter[str]:
    """Return the number of each verdict over pairs of resampled series.

    Args:
        steps: steps to sample from, ns.
        count: steps on each side.
        effect_pct: how much longer the steps of the new side are, percent.
        pairs: number of pairs.
    """
    draw = random.Random(f"{count} {effect_pct}")
    result: Counter[str] = Counter()
    for _ in range(pairs):
        base = draw.choices(steps, k=count)
        new = [step * (1 + effect_pct / 100) for step in draw.choices(steps, k=count)]
        result[str(compare_series(base, new).verdict)] += 1
    return result


def alarms_in_order(count: int, pairs: int, *, is_in_turn: bool) -> int:
    """Return how often consecutive steps of one run differ significantly.

    The first ten steps, which are far slower, are omitted.

    Args:
        count: steps on each side.
        pairs: number of pairs, each from a different part of the run.
        is_in_turn: whether steps alternate between the sides; otherwise, each side has consecutive
            steps from a different part of the run.
    """
    steps, draw, alarms = real_steps()[10:], random.Random(count), 0
    for _ in range(pairs):
        if is_in_turn:
            at = draw.randrange(len(steps) - 2 * count)
            base, new = (steps[at + side : at + 2 * count : 2] for side in (0, 1))
        else:
            first, second = sorted(draw.randrange(len(steps) - 2 * count) for _ in range(2))
            base, new = steps[first : first + count], steps[second + count : second + 2 * count]
        alarms += compare_series(base, new).verdict in ("slower", "faster")
    return alarms


def ideal_pct(count: int, effect_pct: float, spread_pct: float) -> float:
    """Return how often the optimal test detects a difference in normal noise of known size, %."""
    normal = NormalDist()
    shift = effect_pct / (spread_pct * math.sqrt(2 / count))
    z = normal.inv_cdf(1 - ALPHA / 2)
    return 100 * (normal.cdf(shift - z) + normal.cdf(-shift - z))


def table() -> str:
    """Return a Markdown table of detection rates, with optimal rates in parentheses."""
    steps = real_steps()
    heads = [f"{effect:g} % longer" for effect in EFFECTS_PCT[1:]]
    lines = [
        f"| spread | steps each | false alarms | {' | '.join(heads)} |",
        "| ---: | ---: | ---: |" + " ---: |" * len(heads),
    ]
    for spread_pct in SPREADS_PCT:
        shrunk = with_spread(steps, spread_pct)
        for count in COUNTS:
            cells = []
            for effect in EFFECTS_PCT:
                pairs = PAIRS if effect else PAIRS_WITHOUT_DIFFERENCE
                result = verdicts(shrunk, count, effect, pairs)
                detected_pct = 100 * (result["slower"] + result["faster"]) / pairs
                if effect:
                    wrong = result["same"] if effect > 1 else 0
                    ideal = ideal_pct(count, effect, spread_pct)
                    text = f"{detected_pct:.1f} % ({ideal:.1f} %)" + (
                        f", {wrong} × same" if wrong else ""
                    )
                    cells.append(text)
                else:
                    cells.append(f"{detected_pct:.1f} %")
            lines.append(f"| {spread_pct:g} % | {count} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
    for is_in_turn in (False, True):
        share = alarms_in_order(10, 2_000, is_in_turn=is_in_turn) / 20
        sys.stdout.write(f"\nin {'turn' if is_in_turn else 'a row'}: {share:.1f} %\n")
