"""What a process has done before commands are forked from it: see `warm_server`.

Whoever is first to open a trace in a process reads headers, rules and macros, tries names and
imports what draws tables, which takes longer than ten events.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from pathlib import Path

from traces_by_hand import call, kernel, span

from tracekit.cli._main import main

_EVENTS = [
    span("user_annotation", "ProfilerStep#1", 0, 60),
    span("cpu_op", "aten::mm", 1, 9),
    call(2, 4, 11),
    kernel("gemm_kernel", 5, 20, 11),
]


def run_once() -> None:
    """Run commands over a few events, in a folder that is gone behind them."""
    inherited = dict(os.environ)
    said = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        trace = Path(folder) / "trace.json"
        trace.write_text(json.dumps({"traceEvents": _EVENTS}), "utf-8")
        os.environ["TRACEKIT_CACHE_DIR"] = f"{folder}/cache"
        try:
            for words in (
                *(["breakdown"], ["query", "kernels", "--format", "json"]),
                *(["compare", str(trace)], ["report", "-o", f"{folder}/report.html"]),
            ):
                assert main([*words, str(trace)]) == 0, said.getvalue()
        finally:
            os.environ.clear()
            os.environ.update(inherited)
