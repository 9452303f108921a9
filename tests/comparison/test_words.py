"""Messages for unusual pairs: one clear sentence that agrees with the figures."""

import pytest
from traces_by_hand import span, work

import tracekit


def _steps(kernel_us, names=("gemm",)):
    """Return steps that run equally long kernels, launched as the step begins."""
    events, at = [], 1000.0
    for number, dur_us in enumerate(kernel_us):
        events += [
            span("user_annotation", f"ProfilerStep#{number}", at, at + dur_us * len(names) + 20),
            span("cpu_op", "aten::mm", at + 1, at + 6, **{"External id": number + 1}),
        ]
        for place, name in enumerate(names):
            begin, correlation = at + 10 + dur_us * place, len(names) * number + place + 1
            events += work(at + 2 + place, begin, begin + dur_us, correlation, name)
        at += dur_us * len(names) + 20
    return events


def test_a_mean_dominated_by_single_steps_is_reported(cli, tiny_trace):
    base = tiny_trace(_steps([100 + n * 7 % 20 / 10 for n in range(20)]), "base.json")
    slow = _steps([*(95 + n * 7 % 20 / 10 for n in range(19)), 2000])
    new = tiny_trace(slow, "new.json")
    done = cli("compare", base, new, "--no-cache")
    assert "a few steps dominate the mean" in " ".join(done.stdout.split())


@pytest.mark.parametrize("names", [("gemm",), ("gemm", "softmax")])
def test_a_slower_kernel_or_an_unknown_shape_is_no_other_clock(cli, tiny_trace, names):
    """Without shapes, a larger batch makes all kernels slower."""
    base, new = (tiny_trace(_steps([us] * 6, names), f"{us}.json") for us in (100, 120))
    done = cli("compare", base, new, "--no-cache")
    assert "same kernels, changed duration" in done.stdout
    assert "different clocks" not in done.stdout


def test_a_trace_against_itself(cli, tiny_trace):
    one = tiny_trace(_steps([100] * 6), "one.json")
    done = cli("compare", one, one, "--no-cache")
    assert "one.json → one.json (again)" in done.stdout
    assert "(+0.0 %)   same (unprofiled, estimated)" in done.stdout.splitlines()[1]
    assert "faster" not in done.stdout
    assert "slower" not in done.stdout


def test_there_is_no_table_of_negligible_causes(cli, tiny_trace):
    base, new = (tiny_trace(_steps([us] * 6), f"{us}.json") for us in (1000, 1000.01))
    lines = cli("compare", base, new, "--no-cache", "--per", "window").stdout.splitlines()
    assert [line.split(" ")[0] for line in lines[1:4]] == ["Window", "", "Where"]


@pytest.mark.parametrize(
    ("content", "exit_code", "is_base"),
    [
        ('{"traceEvents": []}', 3, True),
        ('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}', 2, False),
        ("{}", 3, False),
    ],
)
def test_nothing_to_compare(cli, tiny_trace, content, exit_code, is_base):
    odd, whole = tiny_trace(content, "odd.json"), tiny_trace(_steps([100] * 6), "whole.json")
    done = cli("compare", *([odd, whole] if is_base else [whole, odd]), "--no-cache")
    assert (done.exit_code, done.stdout) == (exit_code, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert "odd.json" in error
    assert hint.startswith("hint: ")


def test_records_that_are_in_no_figure_are_named_where_one_side_has_them(tiny_trace):
    events = _steps([100] * 4)
    # The last one is delivered twice.
    base, new = tiny_trace(events, "base.json"), tiny_trace([*events, events[-1]], "new.json")
    with tracekit.open(base, cache=False) as one, tracekit.open(new, cache=False) as other:
        found = [(row.name, row.base, row.new) for row in tracekit.compare(one, other).setup]
    assert ("implausible_records", "0", "1") in found
