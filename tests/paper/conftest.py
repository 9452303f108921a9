"""Run folders as the collectors leave them, with traces small enough to add up by hand."""

import json

import pytest

from tracekit import manifest
from tracekit.manifest import Environment, Manifest, Model

SHAPES = {"llama2-7b": (4096, 11008, 32), "llama2-13b": (5120, 13824, 40), "tiny": (256, 688, 4)}
GPU = Environment(devices=["NVIDIA H200"], processor="Xeon", core_count=16, memory_bytes=10**11)


@pytest.fixture
def write_run(tmp_path):
    """Return a function that writes a run folder below `runs`.

    It takes the folder's name, members of the manifest, and `steps`: for a trace of rank 0, the
    work of each step, one launch after the other, a µs of idle before each.
    """

    def write(name, model="llama2-7b", layers=None, steps=None, parameter_count=None, **members):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        hidden, inner, count = SHAPES[model]
        stated = Manifest(
            run_id=name,
            tracekit_version="0",
            created_at="2026-01-01T00:00:00Z",
            **{"stage": "pretrain", "engine": "deepspeed", "environment": GPU, **members},
            model=Model(
                model,
                parameter_count=parameter_count,
                layer_count=count if layers is None else layers,
                config={"hidden_size": hidden, "intermediate_size": inner},
            ),
        )
        if steps is not None:
            stated.traces = ["rank0.json"]
            (folder / "rank0.json").write_text(json.dumps({"traceEvents": _events(steps)}))
        manifest.write(stated, folder)
        return folder

    return write


def _events(steps):
    events = []
    now, number = 0.0, 0

    def span(category, name, ts, dur, args=None):
        pid = 0 if category == "kernel" else 1
        head = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": pid}
        events.append({**head, "ts": ts, "dur": dur, "args": args or {}})

    for step, work in enumerate(steps):
        step_start = now
        for ranges, kernel, duration in work:
            number += 1
            linked = {"correlation": number, "device": 0, "stream": 7}
            for depth, name in enumerate(ranges.split(";")):
                nested = 0.01 * depth
                name, *shapes = name.split("|")
                arguments = {
                    "Input Dims": [list(map(int, shape.split(","))) for shape in shapes],
                    "Input type": ["c10::BFloat16"] * len(shapes),
                }
                category = "cpu_op" if shapes else "user_annotation"
                args = arguments if shapes else None
                span(category, name, now + nested, duration + 1 - 2 * nested, args)
            span("cuda_runtime", "cudaLaunchKernel", now + 0.5, 0.25, linked)
            span("kernel", kernel, now + 1, duration, linked)
            now += duration + 1
        span("user_annotation", f"tk/step/{step}", step_start, now - step_start)
    return events
