"""Which traces share a batch, and the resources of workers."""

from pathlib import Path

import pytest

from tracekit.engine import choice
from tracekit.engine.work import TraceFile, make_batches
from tracekit.storage import Location
from tracekit.units import MB


def ranks_of(*sizes_mb):
    place = Location.of(Path("trace.json"))
    return [TraceFile(number, place, size * MB) for number, size in enumerate(sizes_mb)]


def sizes(count, *sizes_mb, memory_mb=512):
    batches = make_batches(ranks_of(*sizes_mb), memory_mb * MB, count)
    together = [trace.trace_id for batch in batches for trace in batch.traces]
    assert together == list(range(len(sizes_mb)))
    return [len(batch.traces) for batch in batches]


def test_ranks_share_batches_as_their_bytes_allow():
    assert sizes(2, *[17] * 64) == [*[11] * 5, 9]
    assert sizes(2, *[17] * 256) == [*[11] * 23, 3]
    assert sizes(2, 1, 1, 1) == [3]
    assert sizes(2, 40, 40) == [1, 1]
    assert sizes(2, 900, 1, 1, 1) == [1, 3]


def test_many_small_ranks_use_all_workers():
    """Each rank has a fixed cost in addition to its size."""
    assert sizes(2, *[0] * 40) == [40]
    assert sizes(2, *[0] * 64) == [32, 32]
    assert sizes(2, *[0] * 1024) == [512, 512]
    assert sizes(2, *[0] * 1000, *[17] * 12) == [608, 403, 1]


@pytest.mark.parametrize(
    ("count", "total", "shares"),
    [
        (None, None, (4, 512 * MB)),
        (2, None, (2, 512 * MB)),
        (16, None, (16, 256 * MB)),
        (None, 600 * MB, (2, 300 * MB)),
        (3, 600 * MB, (3, 200 * MB)),
    ],
)
def test_memory_is_shared_out(monkeypatch, count, total, shares):
    monkeypatch.setattr(choice, "processor_count", lambda: 4)
    monkeypatch.setattr(choice, "memory_bytes", lambda: 8_000 * MB)
    assert choice.shares(count, total) == shares


def test_limits_of_a_control_group(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("1000000\n", encoding="ascii")
    (tmp_path / "cpu.max").write_text("100000 100000\n", encoding="ascii")
    monkeypatch.setattr(choice, "_GROUPS", tmp_path)
    assert choice.memory_bytes() == 1_000_000
    assert choice.processor_count() == 1
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    (tmp_path / "cpu.max").write_text("max 100000\n", encoding="ascii")
    assert choice.memory_bytes() > 1_000_000
    assert choice.processor_count() >= 1
