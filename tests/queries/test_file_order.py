"""The order of events in a file decides nothing: shuffled, they have the same figures."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from every_trace import PATHS
from traces_by_hand import kernel

import tracekit

ASKED = ("timeline", "phases", "modules", "kernel_classes", "kernels", "idle_causes")
SMALL = [path for path in PATHS if path.is_file() and path.stat().st_size < 180_000]


def figures(trace: tracekit.Trace) -> dict[str, list[str]]:
    """Return the rows of analyses as sorted texts."""
    return {
        name: sorted(json.dumps(row, sort_keys=True) for row in trace.query(name).to_dicts())
        for name in ASKED
    }


@pytest.mark.parametrize("path", SMALL, ids=[f"{path.parent.name}/{path.name}" for path in SMALL])
def test_a_shuffled_trace_has_the_same_figures(
    path: Path, opened: Callable[[Path], tracekit.Trace], tmp_path: Path
) -> None:
    with gzip.open(path) as file:
        content = json.load(file)
    random.Random(7).shuffle(content["traceEvents"])
    # The name may say the rank.
    other = tmp_path / path.name.removesuffix(".gz")
    other.write_text(json.dumps(content))
    with tracekit.open(other, cache=False) as shuffled:
        assert figures(shuffled) == figures(opened(path))


def test_a_kernel_of_no_length_where_another_starts_overlaps_none(
    tiny_trace: Callable[..., Path],
) -> None:
    events = [kernel("a", 0, 10), kernel("b", 0, 0)]
    for ordered in (events, events[::-1]):
        with tracekit.open(tiny_trace(ordered), cache=False) as trace:
            values = {row["metric"]: row["value"] for row in trace.health().to_dicts()}
            assert values["same_stream_overlaps"] == 0
