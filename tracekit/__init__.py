"""tracekit: exact profiler-trace analysis for LLM workloads.

    import tracekit

    with tracekit.open("rank0.json.gz") as trace:
        print(trace.query("timeline"))

Public names are loaded on first use, so importing the package is fast and loads no library.

Under `tracekit collect`, the recorder is loaded before the program runs and removed from
`sys.modules` (`collectors/loop/hidden_modules.py`). If the program imports this package, its
modules are restored, so that none is loaded twice.

PYTEST_DONT_REWRITE: without this marker, pytest would rewrite the asserts of the entire package
when it loads tracekit's plugin, and warn if the package was imported earlier.
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
    # Functions that format results for print() and notebooks. They are listed here because lower
    # layers must not import render.
    "result_html": "tracekit.render._notebook",
    "result_text": "tracekit.render._notebook",
    "trace_html": "tracekit.render._notebook",
}

__all__ = [
    "Column",
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
    """Load a public name from its module on first use."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'tracekit' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)
