"""Rows of `split` are summed over devices in SQL, so their number does not depend on ranks."""

from collections import Counter
from pathlib import Path

import pytest
from run_of_ranks import write_ranks
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.comparison.cells import make_side, read, split_rows
from tracekit.errors import QueryError


def events_of(rank):
    """Return the events of two steps, on each rank slightly slower."""
    return [
        event
        for step in range(2)
        for event in (
            span("user_annotation", f"ProfilerStep#{step}", 100 * step, 100 * step + 90),
            call(100 * step + 1, 100 * step + 2, step + 1),
            kernel("gemm", 100 * step + 10, 100 * step + 50 + rank, step + 1),
        )
    ]


def test_more_ranks_are_no_more_rows(tmp_path):
    counts = []
    for count in (1, 3):
        folder = tmp_path / f"ranks{count}"
        write_ranks(folder, count, events=events_of)
        with tracekit.open(folder, cache=False) as trace:
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


def test_a_run_without_a_trace_is_rejected(tmp_path):
    sample = Path(__file__).resolve().parents[2] / "sample_traces" / "serve_vllm"
    for name in ("run.json", "requests.jsonl"):
        (tmp_path / name).write_bytes((sample / name).read_bytes())
    with tracekit.open(tmp_path, cache=False) as trace, pytest.raises(QueryError):
        split_rows(trace)
    with pytest.raises(QueryError, match="compare needs a trace"):
        tracekit.compare(tmp_path, tmp_path, cache=False)
