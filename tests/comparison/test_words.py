"""Messages for unusual pairs: one clear sentence that agrees with the figures."""

import json

import pytest

import tracekit


def _trace(path, kernel_us, name="gemm"):
    """Write a trace in which each step runs one kernel, launched as it begins."""
    events = []
    at_us = 1000.0
    for number, dur_us in enumerate(kernel_us):
        step = {"cat": "user_annotation", "name": f"ProfilerStep#{number}", "dur": dur_us + 20}
        ids = {"correlation": number + 1, "External id": number + 1}
        op = {"cat": "cpu_op", "name": "aten::mm", "ts": at_us + 1, "dur": 5, "args": ids}
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at_us + 2, "dur": 2}
        kernel = {"cat": "kernel", "name": name, "ts": at_us + 10, "dur": dur_us, "pid": 0}
        here = {"device": 0, "stream": 7}
        events += [
            {"ph": "X", "pid": 1, "tid": 1, "ts": at_us, **step},
            {"ph": "X", "pid": 1, "tid": 1, **op},
            {"ph": "X", "pid": 1, "tid": 1, "args": ids, **launch},
            {"ph": "X", "tid": 7, "args": ids | here, **kernel},
        ]
        at_us += dur_us + 20
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_a_mean_that_single_steps_make_is_said(cli, tmp_path):
    base = _trace(tmp_path / "base.json", [100 + n * 7 % 20 / 10 for n in range(20)])
    new = _trace(tmp_path / "new.json", [*(95 + n * 7 % 20 / 10 for n in range(19)), 2000])
    done = cli("compare", base, new, "--no-cache")
    _, whole, of_work, *_ = (line for line in done.stdout.splitlines() if " ms   +" in line)
    assert "device work" in of_work
    assert "faster by the median (-" in whole
    assert "a few steps dominate the mean" in " ".join(done.stdout.split())


def test_a_trace_against_itself(cli, tmp_path):
    one = _trace(tmp_path / "one.json", [100] * 6)
    done = cli("compare", one, one, "--no-cache")
    assert "one.json → one.json (again)" in done.stdout
    assert "(+0.0 %)   same unprofiled" in done.stdout.splitlines()[1]
    assert "faster" not in done.stdout
    assert "slower" not in done.stdout


@pytest.mark.parametrize(
    ("content", "exit_code", "is_base"),
    [
        ({"traceEvents": []}, 3, True),
        ({"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}, 2, False),
        ({}, 3, False),
    ],
)
def test_nothing_to_compare(cli, tmp_path, content, exit_code, is_base):
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps(content))
    whole = _trace(tmp_path / "whole.json", [100] * 6)
    done = cli("compare", *([odd, whole] if is_base else [whole, odd]), "--no-cache")
    assert (done.exit_code, done.stdout) == (exit_code, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert "odd.json" in error
    assert hint.startswith("hint: ")


def test_records_that_are_in_no_figure_are_named_where_one_side_has_them(tmp_path):
    base, new = (_trace(tmp_path / name, [100] * 4) for name in ("base.json", "new.json"))
    events = json.loads(new.read_text())["traceEvents"]
    events.append(events[-1])  # delivered twice
    new.write_text(json.dumps({"traceEvents": events}))
    with tracekit.open(base, cache=False) as one, tracekit.open(new, cache=False) as other:
        found = [(row.name, row.base, row.new) for row in tracekit.compare(one, other).setup]
    assert ("implausible_records", "0", "1") in found
