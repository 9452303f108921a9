"""Computes HTA's figures for the tests.

Runs in a separate process, because HTA prints warnings and reads settings at import.

python _hta_figures.py TRACE…  prints one JSON object: file name to figures. Times are microseconds.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

# Otherwise, HTA rounds to microseconds, which fails an assertion on some traces. Read at import.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

from hta.common.trace import Trace
from hta.trace_analysis import TraceAnalysis

logging.disable(logging.CRITICAL)


# HTA would rewrite the trace for every sequence.
Trace.write_raw_trace = lambda *_, **__: None

OPS = ("aten::linear", "aten::conv2d")


def sequences(analysis: TraceAnalysis, op: str) -> dict[str, list[float]]:
    """Return count, kernel time, and host time by the names of op and kernels."""
    with tempfile.TemporaryDirectory() as folder:
        result = analysis.get_frequent_cuda_kernel_sequences(
            operator_name=op, output_dir=folder, min_pattern_len=1, visualize=False
        )
    columns = ("count", "GPU kernel duration (us)", "CPU op duration (us)")
    return {
        row["pattern"]: [float(row[column]) for column in columns]
        for row in result.to_dict("records")
    }


def figures(path: str) -> dict[str, Any]:
    """Return HTA's figures of one trace."""
    analysis = TraceAnalysis(trace_files={0: path}, trace_dir="")
    kernel_types, kernels = analysis.get_gpu_kernel_breakdown(
        visualize=False, num_kernels=1_000_000, duration_ratio=1.0
    )
    idle, _ = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    launches = analysis.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
    return {
        "event_count": int((analysis.t.get_trace(0)["stream"] != -1).sum()),
        "temporal": analysis.get_temporal_breakdown(visualize=False).to_dict("records")[0],
        "overlap": analysis.get_comm_comp_overlap(visualize=False).to_dict("records")[0],
        "kernel_types": dict(zip(kernel_types["kernel_type"], kernel_types["sum"], strict=True)),
        "kernels": dict(zip(kernels["name"], kernels["sum (us)"], strict=True)),
        "idle": [
            (int(row["stream"]), row["idle_category"], float(row["idle_time"]))
            for row in idle.to_dict("records")
        ],
        "sequences": {op: sequences(analysis, op) for op in OPS},
        "launches": {
            "count": len(launches),
            "cpu": float(launches["cpu_duration"].sum()),
            "delay": float(launches["launch_delay"].sum()),
            "short": int((launches["gpu_duration"] < launches["cpu_duration"]).sum()),
        },
    }


# HTA reports progress on stdout.
result, sys.stdout = sys.stdout, sys.stderr
json.dump({Path(path).name: figures(path) for path in sys.argv[1:]}, result)
