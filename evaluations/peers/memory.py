"""Compares memory categories at the peak of a run with torch's memory profile."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

from made_parts import table


def memory() -> str:
    """Return the bytes per category for two models: in tracekit, in torch, and in both."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "queries"))
    tests = importlib.import_module("test_against_torch")
    lines: list[tuple[object, ...]] = []
    with tempfile.TemporaryDirectory(prefix="tracekit-peers-") as name:
        for make in (tests.perceptron, tests.encoder):
            pairs = tests.at_the_peak(make, Path(name) / f"{make.__name__}.json")
            for category in dict.fromkeys(tests.NAMES.values()):
                theirs = sum(size for (_, one), size in pairs.items() if one == category)
                ours = sum(size for (one, _), size in pairs.items() if one == category)
                both = pairs[category, category]
                if ours or theirs:
                    cells = (f"{size:,}" for size in (theirs, ours, both))
                    lines.append((make.__name__, category, *cells))
    return table(
        ("model", "category", "torch, bytes", "tracekit, bytes", "same category, bytes"), lines
    )
