"""Stacks for flame graphs: collapsed ones, and speedscope's JSON."""

import json
from typing import get_args

import pytest
from every_trace import BUNDLED, on_some_traces
from traces_by_hand import kernel, span, work

from tracekit.export.stacks import Weight, read_stacks, write_collapsed, write_speedscope

# A call of Python holds an op that launches a kernel; another kernel was launched before.
EVENTS = [
    span("python_function", "train.py(7): step;\n", 0, 10),
    span("cpu_op", "aten::mm", 2, 6),
    *work(3, 20, 25, 1, "gemm"),
    span("cpu_op", "aten::mm", 7, 8),
    kernel("gemm", 30, 31),
]
LINES = {
    "host": [
        "thread 1;train.py(7): step  5000",
        "thread 1;train.py(7): step ;aten::mm 4000",
        "thread 1;train.py(7): step ;aten::mm;cudaLaunchKernel 1000",
    ],
    "device": [
        "thread 1;train.py(7): step ;aten::mm;cudaLaunchKernel;gemm 5000",
        "(launch not in the trace);gemm 1000",
    ],
}


@pytest.mark.parametrize("weight", LINES)
def test_collapsed_stacks(cli, tiny_trace, weight):
    done = cli("export", "collapsed", tiny_trace(EVENTS), "-o", "-", "--weight", weight)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == LINES[weight]
    assert "stacks, " in done.stderr


def test_speedscope(cli, tiny_trace, tmp_path):
    out = tmp_path / "out.speedscope.json"
    done = cli("export", "speedscope", tiny_trace(EVENTS), "-o", out)
    assert done.exit_code == 0, done.stderr
    written = json.loads(out.read_bytes())
    names = ["train.py(7): step;\n", "aten::mm", "cudaLaunchKernel"]
    assert [frame["name"] for frame in written["shared"]["frames"]] == names
    (profile,) = written["profiles"]
    assert profile == {
        "type": "sampled",
        "name": "thread 1",
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": 10_000,
        "samples": [[0], [0, 1], [0, 1, 2]],
        "weights": [5_000, 4_000, 1_000],
    }


@on_some_traces
@pytest.mark.nightly("reads complete traces")
def test_weights_add_up(answered, path):
    ask = answered(path)
    busy_ns = sum(row["busy_ns"] for row in ask("timeline").to_dicts())
    # The time in which a thread is in any span, by another way: the union of its spans.
    ((host_ns,),) = ask.trace.sql(
        "WITH span AS (SELECT (trace_id, pid, tid) AS part, place AS id, ts_ns AS start_ns, "
        "ts_ns + dur_ns AS end_ns FROM host_spans WHERE dur_ns > 0) "
        "SELECT coalesce(sum(end_ns - start_ns), 0) FROM interval_union('span')"
    ).rows
    for weight, total_ns in zip(get_args(Weight), (host_ns, busy_ns), strict=True):
        stacks = read_stacks(ask.trace, weight)
        lines = []
        write_collapsed(stacks, lines.append)
        found = b"".join(lines).decode().splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in found) == total_ns
        if path in BUNDLED:
            blocks = []
            write_speedscope(stacks, blocks.append)
            profiles = json.loads(b"".join(blocks))["profiles"]
            assert sum(profile["endValue"] for profile in profiles) == total_ns
