"""tracekit: exact profiler-trace analysis for LLM workloads.

    import tracekit

    with tracekit.open("rank0.json.gz") as trace:
        print(trace.query("timeline"))

The public names are loaded on first use, so that importing the package costs nothing and pulls in
no library.

In a program that `tracekit collect` runs, what records it is there before the program asks for this
package, and hidden (`collectors/loop/hidden_modules.py`). Importing this shows it again, so that
there is one of everything.

It may be imported before pytest, which loads tracekit's plugin and would rewrite the asserts of all
of it, and warn that it cannot: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracekit.analysis.result import Column, Result
    from tracekit.collectors.loop.bootstrap import step
    from tracekit.collectors.session import collect
    from tracekit.comparison.comparing import compare
    from tracekit.errors import (
        QueryError,
        StoreError,
        TraceError,
        TracekitError,
        UsageError,
        WorkloadError,
    )
    from tracekit.ingest.progress import Progress
    from tracekit.opening import open
    from tracekit.plot import Chart as Chart
    from tracekit.plot import Plots as Plots
    from tracekit.render._notebook import result_html as result_html
    from tracekit.render._notebook import result_text as result_text
    from tracekit.render._notebook import trace_html as trace_html
    from tracekit.trace import Trace

__version__ = "0.1.0"

sys.modules.update(sys.__dict__.pop("_tracekit_modules", {}))

_HOME_OF = {
    "Chart": "tracekit.plot",
    "Column": "tracekit.analysis.result",
    "Plots": "tracekit.plot",
    "Progress": "tracekit.ingest.progress",
    "QueryError": "tracekit.errors",
    "Result": "tracekit.analysis.result",
    "StoreError": "tracekit.errors",
    "Trace": "tracekit.trace",
    "TraceError": "tracekit.errors",
    "TracekitError": "tracekit.errors",
    "UsageError": "tracekit.errors",
    "WorkloadError": "tracekit.errors",
    "collect": "tracekit.collectors.session",
    "compare": "tracekit.comparison.comparing",
    "open": "tracekit.opening",
    "step": "tracekit.collectors.loop.bootstrap",
    # What a notebook or print shows: nothing below render imports it, so it is asked for here.
    "result_html": "tracekit.render._notebook",
    "result_text": "tracekit.render._notebook",
    "trace_html": "tracekit.render._notebook",
}

__all__ = [
    "Column",
    "Progress",
    "QueryError",
    "Result",
    "StoreError",
    "Trace",
    "TraceError",
    "TracekitError",
    "UsageError",
    "WorkloadError",
    "__version__",
    "collect",
    "compare",
    "open",
    "step",
]


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in, once."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'tracekit' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)
