"""Creates what a store holds beyond the ingested tables: macros, derived tables, views.

Each is a SQL file under ``queries/``; the headers say what requires what, which gives the order and
what may be made at the same time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from tracekit.analysis import context_walk, replayed_ops, stretch_alignment
from tracekit.analysis.catalog import Catalog, load_catalog, tables_behind
from tracekit.analysis.device_peaks import DEVICE_PEAK, create_device_peaks
from tracekit.analysis.device_rules import (
    DEVICE_MARK,
    create_device_marks,
    create_unrecorded_marks,
)
from tracekit.analysis.macros import is_of_nothing, macros_of_stores_in_order, provide_macros
from tracekit.analysis.plausibility import IMPLAUSIBLE, judge_records
from tracekit.analysis.rules import (
    RULED_RANGE,
    RULED_WORK,
    create_rule_tables,
    rule_ranges,
    rule_work,
)
from tracekit.analysis.run import run_analysis
from tracekit.analysis.spec import Spec
from tracekit.analysis.sweeps import sweep_table
from tracekit.database import (
    SCRATCH,
    SMALL_SOURCE_BYTES,
    create_run_tables,
    cursor_of,
    execute_own,
    set_first_limit,
    set_limit_of_questions,
    with_more_room,
)
from tracekit.errors import StoreError

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.result import Result

_QUESTION = "?"
"""What sets the name of an analysis apart from that of a table in the order of making."""


def prepare(connection: duckdb.DuckDBPyConnection, rules: Path | None = None) -> None:
    """Create what depends on no trace: the tables of runs and of rules, the macros of every store.

    Raises:
        UsageError: the rules file is not valid.
    """
    create_run_tables(connection)
    create_rule_tables(connection, rules)
    create_unrecorded_marks(connection)
    for spec in macros_of_stores_in_order():
        execute_own(connection, spec.sql)


Step = Callable[["duckdb.DuckDBPyConnection"], None]
"""What makes or fills a table."""

Room = Callable[["duckdb.DuckDBPyConnection", int, Callable[[], None]], None]
"""What does a step for so many bytes of JSON text, in the memory that it takes."""


class Derivation:
    """The derived tables and views of a store that is prepared and filled, made as they are needed.

    For small traces two steps are made at a time: planning is most of their time, and DuckDB plans
    a statement on one thread. For large ones a step has all the memory.

    Args:
        connection: the store that is being built, as :func:`prepare` left it.
        text_bytes: how much JSON text the traces have, roughly.
        also: further steps by the name under which SQL files require them; they require nothing.
        room: does a step in the memory that it takes.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        text_bytes: int = 0,
        also: Mapping[str, Step] | None = None,
        room: Room = with_more_room,
    ) -> None:
        self._connection = connection
        self._text_bytes = text_bytes
        self._room = room
        self._in_python = _IN_PYTHON | dict(also or {})
        self._specs, self._left = _steps(load_catalog(), self._in_python)
        self._lock = Lock()

    def make(
        self, needed: Iterable[str] | None = None, wanted: Sequence[Spec] = ()
    ) -> dict[str, Result]:
        """Make what is not there yet.

        Args:
            needed: names of tables and views that are to be there; None for all that are left.
            wanted: analyses to run with their default parameters, each as soon as what it requires
                is there.

        Returns:
            The results of these by name; one that ran out of memory is missing.
        """
        with self._lock:
            names = set(self._left)
            if needed is not None:
                names = _closure(self._left, [*needed, *tables_behind(wanted)])
            if not names and not wanted:
                return {}
            is_limited = self._room is with_more_room
            if is_limited:
                set_first_limit(self._connection, self._text_bytes)
            try:
                results = self._make(names, {spec.name: spec for spec in wanted})
            finally:
                if is_limited:
                    set_limit_of_questions(self._connection)
            if names and not self._left:
                for table in _OF_STEPS:
                    self._connection.execute(f"DROP TABLE {SCRATCH}.{table}")
            return results

    def _make(self, names: Set[str], analyses: Mapping[str, Spec]) -> dict[str, Result]:
        specs, text_bytes = self._specs, self._text_bytes
        graph = {name: sorted(names & self._left[name]) for name in names}
        for name, spec in analyses.items():
            graph[_QUESTION + name] = sorted(names & tables_behind([spec]))
        sorter = TopologicalSorter(graph)
        sorter.prepare()
        heights = _heights(graph)
        workers = 2 if text_bytes <= SMALL_SOURCE_BYTES else 1
        cursors = [cursor_of(self._connection) for _ in range(workers)]
        results: dict[str, Result] = {}

        def rank(name: str) -> tuple[int, int]:
            spec = specs.get(name) or analyses.get(name.removeprefix(_QUESTION))
            return heights[name], len(spec.sql) if spec else 0

        def make(name: str) -> str:
            cursor = cursors.pop()
            try:
                if name.startswith(_QUESTION):
                    spec = analyses[name.removeprefix(_QUESTION)]
                    with contextlib.suppress(StoreError):
                        results[spec.name] = run_analysis(cursor, spec, {})
                    return name
                make_it = self._in_python.get(name)
                step = (
                    partial(make_it, cursor) if make_it else partial(_create, cursor, specs[name])
                )
                self._room(cursor, text_bytes, step)
                del self._left[name]
            finally:
                cursors.append(cursor)
            return name

        with ThreadPoolExecutor(workers, thread_name_prefix="tracekit-derive") as pool:
            ready: list[str] = []
            running: set[Future[str]] = set()
            while sorter.is_active():
                # What most others wait for, one behind the other, goes first; then what takes
                # longest: long SQL, mostly.
                ready = sorted([*ready, *sorter.get_ready()], key=rank, reverse=True)
                while ready and len(running) < workers:
                    running.add(pool.submit(make, ready.pop(0)))
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                try:
                    sorter.done(*(future.result() for future in finished))
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
        for cursor in cursors:
            cursor.close()
        return results


def _heights(graph: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return how many steps at least must follow each one, one behind the other."""
    heights = dict.fromkeys(graph, 0)
    for name in reversed(list(TopologicalSorter(graph).static_order())):
        for required in graph[name]:
            heights[required] = max(heights[required], heights[name] + 1)
    return heights


def _create(connection: duckdb.DuckDBPyConnection, spec: Spec) -> None:
    if is_of_nothing(connection, spec):
        connection.execute(spec.empty_table())
    elif not sweep_table(connection, spec):
        provide_macros(connection, spec)
        what = "TABLE" if spec.kind == "table" else "VIEW"
        execute_own(connection, f"CREATE {what} {spec.name} AS\n{spec.sql}")


_IN_PYTHON: dict[str, Step] = {
    context_walk.WALK: context_walk.walk_contexts,
    stretch_alignment.ALIGNMENT: stretch_alignment.align_stretches,
    replayed_ops.REPLAYED_OPS: replayed_ops.add_replayed_ops,
    RULED_WORK: rule_work,
    RULED_RANGE: rule_ranges,
    DEVICE_PEAK: create_device_peaks,
    DEVICE_MARK: create_device_marks,
    IMPLAUSIBLE: judge_records,
}
"""The steps in Python."""

_REQUIRED_IN_PYTHON = {
    context_walk.WALK: context_walk.REQUIRES,
    stretch_alignment.ALIGNMENT: stretch_alignment.REQUIRES,
    replayed_ops.REPLAYED_OPS: replayed_ops.REQUIRES,
    RULED_WORK: ("device_work",),
    RULED_RANGE: (DEVICE_MARK,),
}
"""What these require; the others require what was ingested."""


_OF_STEPS = (
    *context_walk.TABLES,
    *(stretch_alignment.TABLE, RULED_WORK, RULED_RANGE),
)
"""The tables of the database ``scratch`` that steps leave to others."""


def _steps(
    catalog: Catalog, in_python: Mapping[str, Step]
) -> tuple[dict[str, Spec], dict[str, frozenset[str]]]:
    """Return the tables and views, and of every step what it requires."""
    specs = {**catalog.tables, **catalog.views}
    steps = {*specs, *in_python}
    required = {name: tables_behind([spec]) for name, spec in specs.items()}
    required |= {name: frozenset(_REQUIRED_IN_PYTHON.get(name, ())) for name in in_python}
    # What every other step reads of the events is what is left of them.
    first = {name: {IMPLAUSIBLE} - {name} for name in required}
    return specs, {name: (others & steps) | first[name] for name, others in required.items()}


def _closure(graph: Mapping[str, Collection[str]], names: Iterable[str]) -> set[str]:
    """Return those of the names that the graph has, with all that they require in it."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in graph and name not in found:
            found.add(name)
            waiting += graph[name]
    return found
