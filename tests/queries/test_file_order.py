"""The order of events in a file decides nothing: shuffled, they have the same figures."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from every_trace import PATHS
from traces_by_hand import kernel

import tracekit

ASKED = ("timeline", "phases", "modules", "kernel_classes", "kernels", "idle_causes")
SMALL = [path for path in PATHS if path.is_file() and path.stat().st_size < 180_000]


def rows_of(trace: tracekit.Trace, name: str) -> Counter[str]:
    limit = {"limit": 0} if name == "kernels" else {}
    return Counter(json.dumps(row, sort_keys=True) for row in trace.query(name, **limit).to_dicts())


def test_shuffled_traces_have_the_same_figures(
    opened: Callable[[Path], tracekit.Trace], tmp_path: Path
) -> None:
    """All in one store: it takes hardly longer than one of them."""
    expected: dict[str, Counter[str]] = {name: Counter() for name in ASKED}
    for path in SMALL:
        for name in ASKED:
            expected[name] += rows_of(opened(path), name)
        with gzip.open(path) as file:
            content = json.load(file)
        random.Random(7).shuffle(content["traceEvents"])
        # The name may say the rank.
        other = tmp_path / path.parent.name / path.name.removesuffix(".gz")
        other.parent.mkdir(exist_ok=True)
        other.write_text(json.dumps(content))
    with tracekit.open(*sorted(tmp_path.rglob("*.json")), cache=False) as shuffled:
        for name in ASKED:
            assert rows_of(shuffled, name) == expected[name], name


def test_a_kernel_of_no_length_where_another_starts_overlaps_none(
    tiny_trace: Callable[..., Path],
) -> None:
    events = [kernel("a", 0, 10), kernel("b", 0, 0)]
    for ordered in (events, events[::-1]):
        with tracekit.open(tiny_trace(ordered), cache=False) as trace:
            values = {row["metric"]: row["value"] for row in trace.health().to_dicts()}
            assert values["same_stream_overlaps"] == 0
