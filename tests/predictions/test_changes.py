"""Changes of traces whose answer one can work out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from traces_by_hand import Event, span, work

import tracekit
from tracekit.errors import QueryError, UsageError

LOADER = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"
STEPS = 4


def predicted(folder: Path, events: list[Event], *changes: str) -> float:
    """Return the predicted window, µs."""
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}), "utf-8")
    with tracekit.open(path, cache=False) as trace:
        found = trace.predict(*changes)
    assert found.predicted_ns is not None
    return found.predicted_ns / 1e3


def op(name: str, start: float, end: float) -> Event:
    return span("cpu_op", name, start, end)


def steps(*events: Event, length: float) -> list[Event]:
    """Return steps that all hold these, one behind the other."""
    found = []
    for number in range(STEPS):
        begin = number * length
        found.append(span("user_annotation", f"ProfilerStep#{number}", begin, begin + length))
        found += [event | {"ts": event["ts"] + begin} for event in events]
    return found


# 1,000 µs of ops, then a range with 1,000 of Python, in the middle of which an op takes 500.
RANGED = steps(
    op("aten::mm", 0, 1000),
    span("user_annotation", "augment", 1000, 2500),
    op("aten::outer", 1500, 2000),
    op("aten::inner", 1600, 1900),
    op("aten::mm", 2500, 3000),
    length=3000,
)


@pytest.mark.parametrize(
    ("change", "window"),
    [
        ("host x1", 12_000),
        ("range=augment remove", 6_000),
        ("range=augment x0.5", 9_000),
        ("range=aug* x3", 24_000),
        ("range=augment step=0 remove", 10_500),
        # An op takes those along that lie in it.
        ("op=aten::outer remove", 10_000),
        ("op=aten::inner remove", 10_800),
        ("op=aten::outer step=1 remove", 11_500),
    ],
)
def test_what_lies_in_ranges_and_ops(tmp_path: Path, change: str, window: float) -> None:
    assert predicted(tmp_path, RANGED, change) == window


def test_a_range_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="no such range"):
        predicted(tmp_path, RANGED, "range=nothing remove")
    with pytest.raises(UsageError, match="only one op, range"):
        predicted(tmp_path, RANGED, "range=augment op=aten::mm remove")


# A loader with an op inside, as transforms have, 2,000 µs in all, and 1,000 µs of ops.
LOADED = steps(
    span("user_annotation", LOADER.format("SingleProcess"), 0, 2000),
    op("aten::add", 1200, 1800),
    op("aten::mm", 2000, 3000),
    length=3000,
)


@pytest.mark.parametrize(
    ("change", "window"),
    [
        # The window begins with the first op: 800 µs of the first batch are in it.
        ("loading x0.5", 400 + 1000 + 3 * 2000),
        ("loading remove", 4 * 1000),
        ("loading workers=1", 3 * 2000 + 1000),
        ("loading workers=2", 4 * 1000),
    ],
)
def test_ops_of_a_loader_are_loading(tmp_path: Path, change: str, window: float) -> None:
    assert predicted(tmp_path, LOADED, change) == pytest.approx(window, abs=1)


# A worker needs 2,000 µs; the program waits for it 1,000 in each step, then rebuilds the batch.
WAITED = steps(
    op("aten::mm", 0, 900),
    span("user_annotation", LOADER.format("MultiProcessing"), 900, 2000),
    op("aten::set_", 1900, 1950),
    length=2000,
)


@pytest.mark.parametrize(
    ("change", "window"),
    [("loading x0.5", 1900 + 50 + 3 * 1000), ("loading x2", 1900 + 50 + 3 * 4000)],
)
def test_a_batch_is_there_before_the_loader_rebuilds_it(
    tmp_path: Path, change: str, window: float
) -> None:
    assert predicted(tmp_path, WAITED, change) == pytest.approx(window, rel=0.03)


def reduction(correlation: int, start: float, end: float, elements: int) -> list[Event]:
    """Return an all-reduce of floats, launched long before."""
    said = {"Collective name": "allreduce", "dtype": "Float", "Group size": 2}
    size = {"In msg nelems": elements, "Out msg nelems": elements}
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    return work(20 * correlation, start, end, correlation, name, **said, **size)


@pytest.mark.parametrize(
    ("elements", "lengths_us", "window"),
    [
        # Of one size, all of it is taken for bandwidth.
        ((1000, 1000), (200, 200), 200),
        # 100 µs and 0.1 for each element: the former stay.
        ((1000, 2000), (200, 300), 350),
    ],
)
def test_bandwidth(
    tmp_path: Path, elements: tuple[int, int], lengths_us: tuple[int, int], window: float
) -> None:
    events: list[Event] = []
    at = 100
    for number, (count, length) in enumerate(zip(elements, lengths_us, strict=True)):
        events += reduction(number + 1, at, at + length, count)
        at += length
    assert predicted(tmp_path, events, "bandwidth x2") == pytest.approx(window, rel=0.02)
