"""Names and arguments may be anything: they are written as they are, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfetto_engine import engine_folder
from perfetto_read_back import check_read_back
from recorded_scene import record
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.export.chrome import export_chrome

NAMES = [
    '"quoted" \\back',
    "<script>alert(1)</script>",
    "\u202eevil",
    "\x1b[31mred",
    "\U0001f600",
    "x" * 5_000,
    "",
    "%s%n",
    "'; DROP TABLE event; --",
    "\x07\x08",
    "lone \ud800",
]


def hostile() -> list[dict[str, Any]]:
    """Return events, kernels and counters whose names mean something elsewhere."""
    numbers = {"big": 2**70, "least": -(2**63), "most": 2**64 - 1, "tiny": 5e-324}
    found = [span("cpu_op", "before all", -50, -40), span("cpu_op", "huge", 300, 310, **numbers)]
    for number, name in enumerate(NAMES):
        found.append(span("cpu_op", name, 10 * number, 10 * number + 5, **{name: name}))
        found.append(call(500 + number, 500.5 + number, number + 1))
        found.append(kernel(name[:99] or "k", 600 + 3 * number, 606 + 3 * number, number + 1))
    values = {'w"x': 3, "$.a": 4, "b\\": 5, "*": 6, "is text": "7.5", "none": float("nan")}
    counter = {"ph": "C", "name": "ours", "pid": 1, "tid": 1, "ts": 700, "args": values}
    return [*found, counter, {"ph": "i", "name": "\u2028", "s": "t", "pid": 1, "tid": 1, "ts": 701}]


def test_a_counter_may_have_any_name(tiny_trace: Callable[..., Path]) -> None:
    with tracekit.open(tiny_trace(hostile()), cache=False) as trace:
        scene, _ = record(trace)
    found = {place[-2]: values[0][1] for place, values in scene.numbers.items()}
    told = {'w"x': 3, "$.a": 4, "b\\": 5, "*": 6, "is text": 7.5}
    assert {name: value for name, value in found.items() if name.startswith("ours")} == {
        f"ours: {name}": value for name, value in told.items()
    }


def test_perfetto_reads_hostile_text(tiny_trace: Callable[..., Path], tmp_path: Path) -> None:
    engine_folder()
    with tracekit.open(tiny_trace(hostile()), cache=False) as trace:
        check_read_back(trace, tmp_path / "x.pftrace")


def test_chrome_json_of_hostile_text_is_json(tiny_trace: Callable[..., Path]) -> None:
    blocks: list[bytes] = []
    with tracekit.open(tiny_trace(hostile()), cache=False) as trace:
        done = export_chrome(trace, blocks.append)
        names = {row[0] for row in trace.sql("SELECT name FROM event").rows}
    events = json.loads(b"".join(blocks))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == done.slice_count
    assert names <= {event["name"] for event in slices}
