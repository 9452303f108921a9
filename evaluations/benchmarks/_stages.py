"""The CPU time of every stage of a breakdown, each alone on one thread.

    python _stages.py TRACE OUT

It looks into the rooms of the version that it is run with, and fails where those are others.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_LARGE_BYTES = 200 * 10**6
"""With so much text, one derived table is made at a time."""

taken: dict[str, float] = {"start: Python": time.process_time() * 1e3}


def timed(name: str, step: Callable[[], T]) -> T:
    """Do a step and note what it took."""
    began = time.process_time()
    result = step()
    taken[name] = (time.process_time() - began) * 1e3
    return result


def main() -> None:
    """Take the stages one by one, and write what each took, ms."""
    trace, out = map(Path, sys.argv[1:])
    timed("start: click and the command", partial(__import__, "tracekit.cli.breakdown"))
    timed("start: duckdb", partial(__import__, "duckdb"))
    timed("start: reader", partial(__import__, "tracekit.ingest.load"))
    timed("start: analysis", partial(__import__, "tracekit.analysis.derive"))
    timed("start: render", partial(__import__, "tracekit.render.table"))
    from tracekit.analysis.breakdown import BREAKDOWN, TOTALS
    from tracekit.analysis.catalog import load_catalog
    from tracekit.analysis.derive import Derivation, prepare
    from tracekit.analysis.run import run_analysis
    from tracekit.database import build_temporary
    from tracekit.ingest.load import load_trace
    from tracekit.ingest.reading import Reading
    from tracekit.ingest.threads import THREAD, fill_threads
    from tracekit.render.table import render

    catalog = timed("start: catalogue", load_catalog)

    def room(_cursor: Any, _bytes: int, step: Any) -> None:
        given = step.args[1:]
        name = given[0].name if given else step.func.__name__
        timed(f"derive: {name}", step)

    with contextlib.ExitStack() as resources:
        build = timed("store: tables", lambda: resources.enter_context(build_temporary()))
        connection = build.connection
        connection.execute("SET threads = 1")
        timed("store: rules and macros", partial(prepare, connection))

        def read() -> None:
            with Reading(trace) as reading:
                load_trace(connection, reading, 0)

        timed("read", read)
        Derivation(connection, _LARGE_BYTES, {THREAD: fill_threads}, room).make()
        results = {}
        for name in BREAKDOWN:
            ask = partial(run_analysis, connection, catalog.analyses[name], {}, results)
            results[name] = timed(f"analysis: {name}", ask)
        for name, total in TOTALS.items():
            if name in results:
                ask = partial(run_analysis, connection, catalog.analyses[total], {}, results)
                results[total] = timed(f"analysis: {total}", ask)
        timed("render", partial(render, results, io.StringIO()))
    taken["all"] = sum(taken.values())
    out.write_text(json.dumps(taken))


if __name__ == "__main__":
    main()
