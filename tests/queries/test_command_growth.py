"""The time of each command is proportional to the size of the trace in every dimension.

For four times the size, a linear command takes four times as long, and a quadratic one sixteen
times; the limit is eight. Only CPU time counts, and a short first run counts as 0.5 s.
"""

import json
import time

import pytest
from traces_by_hand import span

from tracekit.cli._main import main

OF_EACH = {
    "streams": lambda i: {"stream": i},
    "streams alone": lambda i: {"stream": i, "is_alone": True},
    "threads": lambda i: {"tid": i + 1},
    "devices": lambda i: {"device": i},
    "steps": lambda i: {"range": ("user_annotation", f"ProfilerStep#{i}", {})},
    "modules": lambda i: {
        "range": (
            "python_function",
            f"nn.Module: Linear_{i}",
            {"Python id": i + 1, "Python module id": i},
        )
    },
    "process groups": lambda i: {
        "kernel": "ncclDevKernel_AllReduce_Sum_f32",
        "args": {
            "Collective name": "allreduce",
            "Process Group Name": str(i),
            "Process Group Ranks": "[0, 1]",
            "Group size": 2,
        },
    },
    # Programs share out numbers once; a damaged or hostile file shares them out often.
    "events of one number": lambda _: {"number": 9},
}
COMMANDS = {
    "breakdown": ("breakdown", "--full"),
    "replay": ("query", "replay"),
    "export": ("export", "-o", "{folder}/out.pftrace"),
    "report": ("report", "-o", "{folder}/out.html"),
    "advise": ("advise",),
    "pivot": ("pivot",),
    "predict": ("predict", "--change", "class=* x0.5"),
    "compare": ("compare", "{trace}"),
    "check": ("check", "--rule", "window_time <= 1 s"),
}
_NIGHTLY = pytest.mark.nightly("compares CPU times")


def _events(of_each, count):
    found = []
    for i in range(count):
        one, at = of_each(i), 100 * i
        number = one.get("number", i + 1)
        ids = {"External id": number, "Sequence number": number}
        tid, place = (
            one.get("tid", 1),
            {"stream": one.get("stream", 7), "device": one.get("device", 0)},
        )
        if "range" in one:
            category, name, args = one["range"]
            found.append(span(category, name, at, at + 95, tid, **args))
        launch = [
            span("cpu_op", "aten::mm", at + 2, at + 62, tid, **ids),
            span("cuda_runtime", "cudaLaunchKernel", at + 10, at + 15, tid, correlation=number),
        ]
        name, args = one.get("kernel", "gemm"), {"correlation": number, **ids, **place}
        args |= one.get("args", {})
        kernel = span("kernel", name, at + 30, at + 120, place["stream"], **args)
        found += [*(launch if "is_alone" not in one else ()), kernel]
    return found


@pytest.mark.parametrize(
    ("much", "command"),
    [
        pytest.param(
            much, command, marks=() if (much, command) == ("streams alone", "replay") else _NIGHTLY
        )
        for much in OF_EACH
        for command in COMMANDS
    ],
)
def test_growth(monkeypatch, tmp_path, much, command):
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))
    taken_s = []
    for count in (1_500, 6_000):
        trace = tmp_path / f"{count}.json"
        trace.write_text(json.dumps({"traceEvents": _events(OF_EACH[much], count)}))
        name, *options = COMMANDS[command]
        words = [one.format(folder=tmp_path / str(count), trace=trace) for one in options]
        (tmp_path / str(count)).mkdir()
        begun_s = time.process_time()
        assert main([name, *words, str(trace)]) == 0
        taken_s.append(time.process_time() - begun_s)
    assert taken_s[1] <= 8 * max(taken_s[0], 0.5)
