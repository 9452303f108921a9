"""Rows of `split` are summed over devices in SQL, so their number does not depend on ranks."""

from collections import Counter
from pathlib import Path

import pytest
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.comparison.cells import make_side, read, split_rows
from tracekit.errors import QueryError


@pytest.fixture
def ranks(tiny_trace, tmp_path):
    """Return a function that writes a number of ranks with two steps, each rank slightly slower."""

    def write(count):
        folder = tmp_path / f"ranks{count}"
        folder.mkdir()
        for rank in range(count):
            events = [
                event
                for step in range(2)
                for event in (
                    span("user_annotation", f"ProfilerStep#{step}", 100 * step, 100 * step + 90),
                    call(100 * step + 1, 100 * step + 2, step + 1),
                    kernel("gemm", 100 * step + 10, 100 * step + 50 + rank, step + 1),
                )
            ]
            top = {"distributedInfo": {"rank": rank, "world_size": count}}
            made = tiny_trace(events, f"rank{rank}.json", **top)
            made.rename(folder / f"rank{rank}.json")
        return folder

    return write


def test_more_ranks_are_no_more_rows(ranks):
    counts = []
    for count in (1, 3):
        with tracekit.open(ranks(count), cache=False) as trace:
            found = split_rows(trace)
            counts.append(len(found.rows))
            split = trace.query("split").to_dicts()
            sums = Counter()
            for row in split:
                key = [row[n] for n in ("part", "class", "phase", "module_path", "op", "shape")]
                sums[(row["step"], *key, row["name"])] += row["wall_ns"]
            assert {(row.step, *row.key): row.wall_ns for row in found.rows} == dict(sums)
            assert set(found.devices) == {
                (row["step"], (row["rank"], row["device"])) for row in split
            }
            for per, units in (("step", 2 * count), ("window", count)):
                side = make_side(read([trace], "x"), per)
                assert (side.unit_count, side.device_count) == (units, count)
    assert counts[0] == counts[1]


def test_a_run_without_a_trace_is_said(tmp_path):
    sample = Path(__file__).resolve().parents[2] / "sample_traces" / "serve_vllm"
    for name in ("run.json", "requests.jsonl"):
        (tmp_path / name).write_bytes((sample / name).read_bytes())
    with tracekit.open(tmp_path, cache=False) as trace, pytest.raises(QueryError):
        split_rows(trace)
