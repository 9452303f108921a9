"""Measures the CPU time of every stage of a breakdown, each on one thread.

    python _stages.py TRACE OUT

Uses internal modules, so it works only with matching versions.
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
"""For larger texts, derived tables are created one at a time."""

taken: dict[str, float] = {"start: Python": time.process_time() * 1e3}


def timed(name: str, step: Callable[[], T]) -> T:
    """Run a step and record its time."""
    began = time.process_time()
    result = step()
    taken[name] = (time.process_time() - began) * 1e3
    return result


def main() -> None:
    """Run the stages sequentially, and write the duration of each, ms."""
    trace, out = map(Path, sys.argv[1:])
    timed("start: click and the command", partial(__import__, "tracekit.cli.commands.breakdown"))
    timed("start: duckdb", partial(__import__, "duckdb"))
    timed("start: reader", partial(__import__, "tracekit.ingest.load"))
    timed("start: analysis", partial(__import__, "tracekit.analysis.relations"))
    timed("start: render", partial(__import__, "tracekit.render.table"))
    from tracekit.analysis import relations
    from tracekit.analysis.breakdown import BREAKDOWN, TOTALS
    from tracekit.analysis.catalog import load_catalog
    from tracekit.analysis.library import library_file
    from tracekit.analysis.run import run_analysis
    from tracekit.database.building import build_temporary
    from tracekit.ingest.load import THREAD, fill_threads, load_trace
    from tracekit.ingest.reading import Reading
    from tracekit.render.table import render

    catalog = timed("start: catalogue", load_catalog)

    make_one = relations._Making._make_one

    def timed_one(making: Any, cursor: Any, name: str) -> None:
        kind = "analysis" if name in catalog.analyses else "derive"
        timed(f"{kind}: {name}", partial(make_one, making, cursor, name))

    relations._Making._make_one = timed_one
    with contextlib.ExitStack() as resources:
        build = timed(
            "store: tables", lambda: resources.enter_context(build_temporary(library_file()))
        )
        connection = build.connection
        connection.execute("SET threads = 1")

        def read() -> None:
            with Reading(trace) as reading:
                load_trace(connection, reading, 0)

        timed("read", read)
        store = relations.Relations(connection, _LARGE_BYTES, {THREAD: fill_threads})
        store.make_store()
        names = [name for one in BREAKDOWN for name in (one, TOTALS.get(one)) if name is not None]
        store.make(filter(relations.is_relation, names))
        results = {
            name: timed(
                f"read: {name}", partial(run_analysis, connection, catalog.analyses[name], {})
            )
            for name in names
        }
        timed("render", partial(render, results, io.StringIO()))
    taken["all"] = sum(taken.values())
    out.write_text(json.dumps(taken))


if __name__ == "__main__":
    main()
