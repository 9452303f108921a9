"""Modules that lie deeper than any viewer shows count for the deepest that is drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odd_shapes import nested_ranges
from recorded_scene import record

import tracekit


def test_modules_are_drawn_a_hundred_levels_deep(
    tiny_trace: Callable[..., Path], cli: Callable[..., Any]
) -> None:
    (events,) = nested_ranges(150)
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        scene, _ = record(trace)
    facts = [json.loads(one.facts or "{}") for found in scene.spans.values() for one in found]
    drawn = [one for one in facts if "self_wall_ns" in one]
    by_wall = sorted((one["wall_ns"] for one in drawn), reverse=True)
    # Each has a kernel of 4 µs of its own and those of all inside of it.
    assert by_wall == [4000 * (150 - depth) for depth in range(101)]
    rows = json.loads(cli("query", "class_icicle", tiny_trace(events), "--format", "json").stdout)
    widths = [(row["depth"], row["total_wall_ns"], row["self_wall_ns"]) for row in rows]
    assert widths[0] == (0, 600_000, 0)
    assert widths[1:] == [(1 + at, 4000 * (150 - at), 4000) for at in range(150)]
