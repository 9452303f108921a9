"""Commands that are run one after the other in this process, and open the same few traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import tracekit
from tracekit.cli import _open


@contextmanager
def opened_once() -> Iterator[None]:
    """Let commands that open the same traces in the same way share them, and what derives of them.

    Pages show the same few samples some hundred times.
    """
    open_traces = _open.open_traces
    shared: dict[str, tracekit.Trace] = {}
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:

        @contextmanager
        def open_once(
            traces: Sequence[str], *given: Any, **options: Any
        ) -> Iterator[tracekit.Trace]:
            key = repr((traces, given, options))
            # What only breaks down closes its trace before it has printed all.
            if key not in shared or "for_breakdown" in options:
                shared[key] = stack.enter_context(open_traces(traces, *given, **options))
            yield shared[key]

        patch.setattr(_open, "open_traces", open_once)
        yield
