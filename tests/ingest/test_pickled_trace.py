"""Pickles of torch: allocator histories and flight recorder dumps, read without unpickling."""

import gzip
import json
import os
import pickle
from pathlib import Path

import pytest

import tracekit
from tracekit.errors import TraceError

MODULE = {"filename": "/x/torch/nn/modules/module.py", "line": 1773, "name": "_call_impl"}
FORWARD = {"filename": "/home/u/train.py", "line": 14, "name": "forward"}
MM = {"filename": "??", "line": 0, "name": "at::_ops::mm::call(at::Tensor const&)"}


def entry(action, at_us, addr, size, *frames):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": at_us,
            "frames": list(frames)}  # fmt: skip


def written(path, content, protocol=4):
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


def history():
    """Return a history: 512 bytes exist before, 1,024 remain, and 4,096 are freed."""
    blocks = [
        {"size": 1024, "requested_size": 1024, "state": "active_allocated"},
        {"size": 512, "requested_size": 256, "state": "active_allocated"},
        {"size": 512, "requested_size": 9, "state": "inactive"},
    ]
    entries = [
        entry("segment_alloc", 5, 0x1000, 2_097_152),
        entry("alloc", 10, 0x1000, 1024, MM, FORWARD, MODULE),
        entry("alloc", 20, 0x2000, 4096, FORWARD, MODULE),
        entry("free_requested", 30, 0x2000, 4096),
        entry("free_completed", 40, 0x2000, 4096),
    ]
    segment = {"device": 0, "total_size": 2_097_152, "blocks": blocks}
    return {"segments": [segment], "device_traces": [entries]}


@pytest.mark.parametrize("protocol", [2, 5])
def test_an_allocator_history(tmp_path, protocol):
    path = written(tmp_path / "snapshot.pickle", history(), protocol)
    with tracekit.open(path, cache=False) as trace:
        rows = trace.query("memory_peak").to_dicts()
        events = trace.sql(
            "SELECT ts_ns - min(ts_ns) OVER (), bytes, total_allocated_bytes, "
            "total_reserved_bytes FROM memory ORDER BY event_id"
        ).rows
    assert events == [
        (0, 1024, 1536, 2_097_152),
        (10_000, 4096, 5632, 2_097_152),
        (30_000, -4096, 1536, 2_097_152),
    ]
    assert [(row["bytes"], row["op"], row["line"]) for row in rows] == [
        (4096, None, "/home/u/train.py:14: forward"),
        (1024, "aten::mm", "/home/u/train.py:14: forward"),
        (512, None, None),
    ]
    assert rows[2]["category"] == "(before the recording)"


def test_an_allocation_counts_its_block(tmp_path):
    """Sizes are rounded up to 512, and a rest of at most 1 MiB stays part of the block."""
    mib = 1 << 20
    sizes = [(0, 700, 1024), (4 * mib, 3 * mib, 4 * mib), (8 * mib, mib + 1, mib + 512)]
    segments = [
        {"device": 0, "address": begin * mib, "total_size": size * mib, "blocks": []}
        for begin, size in ((0, 2), (4, 4), (8, 12))
    ]
    entries = [
        entry(action, 10 * i, addr, size)
        for i, (addr, size, _) in enumerate(sizes)
        for action in ("alloc", "free_requested", "free_completed")
    ]
    path = written(tmp_path / "x.pickle", {"segments": segments, "device_traces": [entries]})
    with tracekit.open(path, cache=False) as trace:
        found = trace.sql("SELECT bytes FROM memory ORDER BY event_id").rows
        (peak,) = trace.query("memory_peaks").to_dicts()
    assert found == [(sign * block,) for _, _, block in sizes for sign in (1, -1)]
    assert peak["before_bytes"] == 0


def test_failed_allocations_in_a_history(tmp_path):
    content = history()
    for size in (70, 9_000):
        content["device_traces"][0].append({"action": "oom", "size": size, "time_us": 50})
    with tracekit.open(written(tmp_path / "x.pickle", content), cache=False) as trace:
        (row,) = trace.query("memory_peaks").to_dicts()
    assert (row["peak_at_ns"], row["oom_bytes"]) == (15_000, 9_000)


def test_a_memory_timeline(tmp_path):
    """A gradient of 30 bytes exists before; an input of 8 bytes becomes a parameter."""
    rows = [[-1, 1, 30, 5], [1000, 2, 8, 2], [2000, 3, -8, 2], [2000, 3, 8, 0]]
    rows += [[2500, 2, 5, 7], [3000, 4, -30, 5], [4000, 4, -5, 7]]
    path = tmp_path / "memory_timeline.raw.gz"
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))
    with tracekit.open(path, cache=False) as trace:
        (peak,) = trace.query("memory_peaks").to_dicts()
        held = trace.query("memory_peak").to_dicts()
    assert (peak["peak_at_ns"], peak["allocated_bytes"], peak["before_bytes"]) == (1500, 43, 0)
    held_bytes = {row["category"]: row["bytes"] for row in held}
    assert held_bytes == {"gradients": 30, "parameters": 8, "unknown": 5}


class Harmful:
    def __reduce__(self):
        return os.system, ("touch harmed",)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({"entries": [Harmful()]}, r"posix\.system"),
        ({"device_traces": Path("x")}, "Path"),
        ([1, 2], r"x\.pickle"),
        ({"device_traces": [[{"action": "alloc"}]]}, "KeyError"),
        ({"entries": [{"state": "started"}]}, "KeyError"),
        ({"entries": 7}, "TypeError"),
        ({"entries": [], "pg_config": {"0": {"ranks": "?"}}}, "JSONDecode"),
        ({"device_traces": []}, r"x\.pickle"),
        # A memo index of 34 GB; a key of a million nested tuples; opcodes of other types.
        (b"\x80\x02}r\xff\xff\xff\x7f.", r"x\.pickle"),
        (b"\x80\x02}K\x01" + b"\x85" * 1_000_000 + b"Ns.", "values"),
        (b"\x80\x02}K\x01" + b"\x85" * 90_000 + b"Ns.", "key"),
        (b"\x80\x02\x82\x01.", "types"),
        (b"\x80\x02cposix\nsystem\n.", r"posix\.system"),
        (b"\x80\x02(i__main__\nX\n.", "types"),
        (pickle.dumps(history())[:-20], r"x\.pickle"),
    ],
)
def test_hostile_and_damaged_pickles_are_refused(content, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.pickle"
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
    with pytest.raises(TraceError, match=word):
        tracekit.open(path, cache=False)
    assert not (tmp_path / "harmed").exists()


def test_the_command(tmp_path, cli):
    path = written(tmp_path / "snapshot.pickle", history())
    done = cli("query", "memory", path, "--blocks", "--format", "json")
    assert done.exit_code == 0
    assert [*done.json()] == ["memory_peaks", "memory_holders", "memory_peak"]
    assert "train.py:14: forward" in cli("query", "memory", path).stdout
