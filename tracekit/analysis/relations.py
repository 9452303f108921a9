"""Creates the relations of a store: derived tables, views, and analyses by name.

Each relation is an SQL file in ``queries/`` or a Python step. The names in its SQL determine its
dependencies, and therefore the order of creation. Tables that every store has are created with the
store. Other tables (``Created: on demand``) are created on demand in an in-memory database that all
connections of the process share. The same applies to analyses that a statement reads like a table,
with default parameters. Processes can therefore share a store without changing it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.header import SQL_TOKEN
from tracekit.analysis.library import macro_of_analysis, names_in, reads
from tracekit.analysis.names.device_peaks import DEVICE_PEAK, DEVICE_PEAK_TYPES, fill_device_peaks
from tracekit.analysis.names.device_rules import (
    DEVICE_MARK,
    DEVICE_TABLES,
    create_device_marks,
    create_unrecorded_marks,
)
from tracekit.analysis.names.rules import (
    CLASS_MACROS,
    CLASSIFIED_RANGE,
    CLASSIFIED_WORK,
    ROLE_MACROS,
    classify_ranges,
    classify_work,
    create_class_macros,
    create_role_macros,
    create_rule_tables,
)
from tracekit.analysis.params import ParamValue, bind
from tracekit.analysis.passes import context_walk, section_alignment
from tracekit.analysis.passes.graph_sweeps import TABLES as SWEPT_TABLES
from tracekit.analysis.passes.graph_sweeps import create_swept
from tracekit.analysis.passes.sweeps import SWEEPS, sweep_table
from tracekit.analysis.plausibility import (
    EVENT_KIND,
    IMPLAUSIBLE,
    create_event_kinds,
    judge_records,
)
from tracekit.analysis.query_errors import store_error
from tracekit.analysis.result import Column, columns_of
from tracekit.analysis.spec import Spec
from tracekit.database.connections import (
    SCRATCH,
    SESSION,
    SMALL_SOURCE_BYTES,
    Session,
    cursor_of,
    execute_own,
    session_of,
    set_first_limit,
    set_query_limit,
    with_higher_limit,
    with_memory_limit,
)
from tracekit.schema import TABLES
from tracekit.sql_text import literal, select_rows

if TYPE_CHECKING:
    from collections.abc import Sequence


class Answer(NamedTuple):
    """The columns and rows of an analysis."""

    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]


Step = Callable[["duckdb.DuckDBPyConnection"], None]
"""A function that creates or fills a table."""

REPLAYED_OPS = "replayed_ops"
"""The step that adds ops of graph replays to table ``record``."""


def add_replayed_ops(connection: duckdb.DuckDBPyConnection) -> None:
    """Add a row to table record for each op of a graph replay, with no host time.

    A replay runs each captured op once, so figures per call, such as FLOPs, apply to each replay.
    The views of events exclude these rows.
    """
    if session_of(connection).row_counts["replayed_event"]:
        connection.execute(
            """
            INSERT INTO record BY NAME
            SELECT r.trace_id, r.op_id AS event_id, o.ph, l.pid, l.tid, o.category, o.name,
                l.ts_ns, 0 AS dur_ns, o.args
            FROM (SELECT DISTINCT trace_id, op_id, captured_op_id, replay_id FROM replayed_event)
                AS r
            INNER JOIN record AS o ON r.trace_id = o.trace_id AND r.captured_op_id = o.event_id
            INNER JOIN launch AS l ON r.trace_id = l.trace_id AND r.replay_id = l.launch_id
            ORDER BY r.trace_id, r.op_id
            """
        )


_IN_PYTHON: dict[str, tuple[Step, tuple[str, ...]]] = {
    context_walk.WALK: (context_walk.walk_contexts, context_walk.REQUIRES),
    section_alignment.ALIGNMENT: (section_alignment.align_sections, section_alignment.REQUIRES),
    REPLAYED_OPS: (add_replayed_ops, ("replayed_event",)),
    CLASSIFIED_WORK: (classify_work, ("device_work",)),
    CLASSIFIED_RANGE: (classify_ranges, (DEVICE_MARK,)),
    DEVICE_PEAK: (fill_device_peaks, ()),
    DEVICE_MARK: (create_device_marks, ()),
    IMPLAUSIBLE: (judge_records, ()),
    CLASS_MACROS: (create_class_macros, ()),
    ROLE_MACROS: (create_role_macros, ()),
}
"""The Python steps, with the relations that each reads in addition to ingested tables."""

_IN_SESSION = frozenset((CLASS_MACROS, ROLE_MACROS))
"""Steps whose results are only in the session, not in the store."""

_STEP_OF_TABLE = {
    **dict.fromkeys(context_walk.TABLES, context_walk.WALK),
    section_alignment.TABLE: section_alignment.ALIGNMENT,
    "device_process": DEVICE_MARK,
    EVENT_KIND: IMPLAUSIBLE,
}
"""Step that creates each table, if their names differ."""

_AFTER = {"attribution": (REPLAYED_OPS,)}
"""Steps that must run before a relation although its SQL does not name them."""

_OF_STEPS = (
    *context_walk.TABLES,
    *(section_alignment.TABLE, CLASSIFIED_WORK, CLASSIFIED_RANGE),
)
"""Tables in database ``scratch`` that steps create for other steps."""

_THREAD, _CALL = "thread", "()"

_INGESTED = frozenset(table.name for table in TABLES)
"""Ingested tables. Analyses with the same names are not relations; statements must call them."""


def with_values(spec: Spec, values: Mapping[str, ParamValue]) -> str:
    """Return the SQL with each parameter `$name` replaced by its value, cast to its type.

    Comments, string literals, and quoted names stay unchanged.
    """
    types = {param.name: param.type for param in spec.params}

    def replacement(match: re.Match[str]) -> str:
        name = match["param"]
        if name is None:
            return match.group()
        return f"CAST({literal(values[name])} AS {types[name]})"

    return SQL_TOKEN.sub(replacement, spec.sql) if types else spec.sql


def create_empty_store(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables, views, and functions of every store in an empty database.

    Only the rule tables have rows. The store includes the functions that its views call, so that
    other programs can read the views.
    """
    for table in TABLES:
        connection.execute(table.create_sql())
    create_rule_tables(connection)
    create_unrecorded_marks(connection)
    connection.execute(DEVICE_TABLES)
    catalog = load_catalog()
    views = catalog.views
    named = _closure(views, lambda name: name in views or name in catalog.functions)
    for name in reversed(named):
        if name in catalog.functions:
            execute_own(connection, catalog.functions[name].sql)
    create_event_kinds(connection)
    peaks = ", ".join(f"{name} {kind}" for name, kind in DEVICE_PEAK_TYPES.items())
    connection.execute(f"CREATE TABLE {DEVICE_PEAK} ({peaks})")
    for spec in catalog.tables.values():
        if not spec.is_on_demand:
            connection.execute(spec.empty_table())
    required = {name: views.keys() & reads(name) for name in views}
    for name in TopologicalSorter(required).static_order():
        connection.execute(f"CREATE VIEW {name} AS\n{views[name].sql}")


def dependencies(names: Iterable[str]) -> frozenset[str]:
    """Return the tables, views, steps, and analyses among names.

    A function is replaced by the relations that it reads. Names with parentheses are calls of
    analyses, for which macros are created.
    """
    functions = load_catalog().functions
    return frozenset(
        _STEP_OF_TABLE.get(name, name)
        for name in _closure(names, lambda name: name in functions)
        if _is_created_here(_STEP_OF_TABLE.get(name, name))
    )


def _is_created_here(name: str) -> bool:
    catalog = load_catalog()
    return (
        name in catalog.tables
        or name in catalog.views
        or name in _IN_PYTHON
        or name == _THREAD
        or name.endswith(_CALL)
        or is_relation(name)
    )


def _reads(name: str) -> Sequence[str]:
    return reads(name.removesuffix(_CALL))


def _closure(names: Iterable[str], is_passed: Callable[[str], bool]) -> list[str]:
    """Return names, and recursively all names that their SQL files read.

    Only names for which `is_passed` is true are followed.
    """
    result: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in result:
            continue
        result[name] = None
        if is_passed(name):
            waiting += _reads(name)
    return list(result)


def depends_on(name: str, tables: Collection[str]) -> bool:
    """Return whether an analysis reads any of these tables, directly or via other relations."""
    return not {*_closure(_reads(name), lambda _: True)}.isdisjoint(tables)


def ensure(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Create relations that do not exist yet."""
    Relations(connection).make(names)


def ensure_named(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Create the tables and analyses that a statement reads or calls.

    If the store lacks their input, DuckDB reports it when it runs the statement.
    """
    with contextlib.suppress(duckdb.CatalogException):
        ensure(connection, (name for name in names_in(text) if not _needs_values(name)))


def _needs_values(name: str) -> bool:
    spec = load_catalog().analyses.get(name)
    return spec is not None and spec.needs_values


def is_relation(name: str) -> bool:
    """Return whether a statement can read an analysis by its name, like a table."""
    return name in load_catalog().analyses and name not in _INGESTED


def has_rows_of(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Return whether the rows of an analysis with default parameters are stored."""
    session = session_of(connection)
    return is_relation(name) and (name in session.row_counts or name in session.provided)


def has_no_input(connection: duckdb.DuckDBPyConnection, spec: Spec) -> bool:
    """Return whether a relation has no rows because its input has none.

    Its SQL is then skipped, because planning takes most of the time for small traces.
    """
    if not spec.input:
        return False
    table, _, condition = spec.input.partition(" ")
    count = session_of(connection).row_counts.get(table)
    is_filtered = condition.startswith("WHERE ") and "UNION" not in condition
    if count is not None and (not condition or (count == 0 and is_filtered)):
        return count == 0
    return not connection.execute(f"SELECT 1 FROM {spec.input} LIMIT 1").fetchall()


class Relations:
    """The relations of one store, created on demand.

    For small traces, two relations are created concurrently, because planning takes most of the
    time and DuckDB plans a statement on one thread. For large traces, each step can use all memory.

    Args:
        connection: connection to a store that is open or being built.
        text_bytes: approximate size of the JSON text of the traces, if the store is being built.
        steps: additional steps by name, without dependencies.
        is_bounded: whether steps must keep the memory limit, as in one of several processes.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        text_bytes: int | None = None,
        steps: Mapping[str, Step] | None = None,
        *,
        is_bounded: bool = False,
    ) -> None:
        self._connection = connection
        self._text_bytes = text_bytes
        self._in_python = _IN_PYTHON | {name: (step, ()) for name, step in (steps or {}).items()}
        self._is_bounded = is_bounded or text_bytes is None

    def make_store(self, analyses: Iterable[str] = ()) -> None:
        """Create the relations that every store has, and store the rows of the given analyses."""
        self._make([*self._of_stores(), *analyses], frozenset(analyses))

    def make(self, names: Iterable[str]) -> None:
        """Create relations that do not exist yet."""
        self._make(names, frozenset())

    def answer(self, names: Iterable[str]) -> dict[str, Answer]:
        """Create relations, but return the rows of analyses that no relation reads.

        Returning rows is faster than storing them first. Raises the errors of :meth:`make`.
        """
        return self._make(names, frozenset(), is_asked=True)

    def forget(self, tables: Collection[str]) -> None:
        """Drop in-memory relations that depend on these tables, because the rows have changed."""
        catalog = load_catalog()
        session = session_of(self._connection)
        on_demand = [name for name, spec in catalog.tables.items() if spec.is_on_demand]
        for name in (*catalog.analyses, *on_demand):
            exists = name in session.row_counts or name in session.provided
            if exists and name not in tables and depends_on(name, tables):
                self._connection.execute(f"DROP TABLE IF EXISTS {SESSION}.main.{name}")
                session.row_counts.pop(name, None)
                session.provided.pop(name, None)

    def fill(self, name: str, values: Sequence[Sequence[object]]) -> None:
        """Fill an on-demand table with the given rows instead of the rows of its SQL."""
        table = load_catalog().tables[name]
        place = f"{SESSION}.main.{name}"
        types = {column.name: column.type for column in table.columns}
        self._connection.execute(f"DROP TABLE IF EXISTS {place}")
        self._connection.execute(table.empty_table(place))
        self._connection.execute(f"INSERT INTO {place} {select_rows(types, values)}")
        session_of(self._connection).row_counts[name] = len(values)
        self.forget([name])

    def _of_stores(self) -> list[str]:
        catalog = load_catalog()
        tables = [name for name, spec in catalog.tables.items() if not spec.is_on_demand]
        return [*tables, *catalog.views, *(self._in_python.keys() - _IN_SESSION)]

    def _make(
        self, names: Iterable[str], stored: Collection[str], *, is_asked: bool = False
    ) -> dict[str, Answer]:
        session = session_of(self._connection)
        with session.lock:
            graph = self._graph(names, session)
            if not graph:
                return {}
            requested = {*load_catalog().analyses} & graph.keys() if is_asked else set[str]()
            requested -= session.provided.keys()
            making = _Making(
                self, session, frozenset(stored), frozenset(requested.difference(*graph.values()))
            )
            try:
                making.make(graph)
            except BaseException as error:
                if duckdb.OutOfMemoryException in (type(error), type(error.__cause__)):
                    making.drop()
                raise
            finally:
                session.row_counts.update(making.new)
            if (
                self._text_bytes is not None
                and not session.is_complete
                and session.row_counts.keys() >= {*self._of_stores()}
            ):
                session.is_complete = True
                for table in _OF_STEPS:
                    self._connection.execute(f"DROP TABLE IF EXISTS {SCRATCH}.{table}")
            return making.answers

    def _graph(self, names: Iterable[str], session: Session) -> dict[str, frozenset[str]]:
        """Return the relations to create, each with the relations that must exist before it."""
        graph: dict[str, frozenset[str]] = {}
        waiting = [*dependencies(names)]
        # Every step reads events after the implausible ones have been excluded.
        first = frozenset[str]() if session.is_complete else frozenset((IMPLAUSIBLE,))
        while waiting:
            name = waiting.pop()
            if name in graph or not self._must_create(name, session):
                continue
            if name in session.provided:
                required = frozenset[str]()
            elif name in self._in_python:
                required = frozenset(self._in_python[name][1]) | (first - {name})
            else:
                required = dependencies((*_reads(name), *_AFTER.get(name, ()))) | first
            required = frozenset(one for one in required if self._must_create(one, session))
            graph[name] = required
            waiting += required
        return graph

    def _must_create(self, name: str, session: Session) -> bool:
        if name in session.row_counts:
            return False
        catalog = load_catalog()
        if name in self._in_python:
            return name in _IN_SESSION or not session.is_complete
        if name in catalog.tables:
            return not session.is_complete or catalog.tables[name].is_on_demand
        if name in catalog.views:
            return not session.is_complete
        return name.endswith(_CALL) or is_relation(name)


class _Making:
    """One pass that creates relations. `new` maps each to its row count, None if unknown."""

    def __init__(
        self,
        relations: Relations,
        session: Session,
        stored: frozenset[str],
        asked: frozenset[str],
    ) -> None:
        self._relations = relations
        self._connection = relations._connection
        self._session = session
        self._stored = stored
        self._requested = asked
        self.answers: dict[str, Answer] = {}
        self.new: dict[str, int | None] = {}

    def make(self, graph: Mapping[str, frozenset[str]]) -> None:
        """Create relations in the order of their dependencies."""
        if not graph:
            return
        text_bytes = self._relations._text_bytes
        # The user's statements run only after a store is complete.
        is_building = text_bytes is not None and not self._session.is_complete
        if not is_building and _is_in_transaction(self._connection):
            # Other connections cannot see relations created in a transaction. They may be rolled
            # back, so they are not recorded as existing.
            for name in TopologicalSorter(graph).static_order():
                self._make_one(self._connection, name)
            return
        is_limited = not self._relations._is_bounded
        if is_limited:
            set_first_limit(self._connection, text_bytes or 0)
        try:
            self._make(graph, 2 if (text_bytes or 0) <= SMALL_SOURCE_BYTES else 1)
        finally:
            if is_limited:
                set_query_limit(self._connection)

    def _make(self, graph: Mapping[str, frozenset[str]], workers: int) -> None:
        sorter = TopologicalSorter(graph)
        sorter.prepare()
        heights = _heights(graph)
        workers = min(workers, len(graph))
        everyone = [cursor_of(self._connection) for _ in range(workers)]
        cursors = list(everyone)
        alone: list[str] = []
        specs = {name: _spec_of(name) for name in graph}
        # First create relations with the longest chain of dependents, then those with the longest
        # SQL, which is usually slowest.
        rank = {name: (heights[name], len(spec.sql) if spec else 0) for name, spec in specs.items()}

        def make(name: str, *, is_alone: bool) -> str | None:
            cursor = cursors.pop()
            try:
                count = self._make_one(cursor, name)
            except duckdb.OutOfMemoryException as error:
                if is_alone or workers == 1:
                    _explain(name, error)
                    raise
                return None
            finally:
                cursors.append(cursor)
            if name not in self.answers:
                self.new[name] = count
                self._session.row_counts[name] = count
            return name

        with ThreadPoolExecutor(workers, thread_name_prefix="tracekit-make") as pool:
            ready: list[str] = []
            running: dict[Future[str | None], str] = {}
            try:
                while sorter.is_active():
                    ready += sorter.get_ready()
                    ready.sort(key=rank.__getitem__, reverse=True)
                    while ready and len(running) < workers:
                        name = ready.pop(0)
                        running[pool.submit(make, name, is_alone=False)] = name
                    if not running:
                        # Retry a step that ran out of memory, without running another step
                        # concurrently.
                        name = alone.pop(0)
                        running[pool.submit(make, name, is_alone=True)] = name
                    # Use a short timeout, so that Python handles Ctrl-C in between.
                    finished, _ = wait(running, timeout=0.05, return_when=FIRST_COMPLETED)
                    for future in finished:
                        name = running.pop(future)
                        if future.result() is None:
                            alone.append(name)
                        else:
                            sorter.done(name)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                started = [one for one in running if not one.cancelled()]
                while wait(started, timeout=0.05).not_done:
                    # Interrupt repeatedly, because an interrupt between two statements is lost.
                    for cursor in everyone:
                        cursor.interrupt()
                raise
        for cursor in everyone:
            cursor.close()

    def drop(self) -> None:
        """Drop the relations created in memory, because the set is incomplete."""
        for name in [*self.new]:
            spec = _spec_of(name)
            if (
                spec is not None
                and name not in self._stored
                and (spec.kind == "analysis" or spec.is_on_demand)
            ):
                self._connection.execute(f"DROP TABLE {SESSION}.main.{name}")
                del self.new[name], self._session.row_counts[name]

    def _make_one(self, cursor: duckdb.DuckDBPyConnection, name: str) -> int | None:
        """Create a relation or run a step, and return the number of its rows if known."""
        relations = self._relations
        text_bytes = relations._text_bytes or 0
        in_python = relations._in_python.get(name)
        spec = _spec_of(name)
        counts: list[int | None] = [None]

        def step() -> None:
            if name in self._session.provided:
                statement = self._session.provided[name]
                cursor.execute(f"CREATE TABLE IF NOT EXISTS {SESSION}.main.{name} AS {statement}")
            elif in_python is not None:
                in_python[0](cursor)
            elif name.endswith(_CALL):
                analysis = load_catalog().analysis(name.removesuffix(_CALL))
                cursor.execute(macro_of_analysis(analysis, f"{SESSION}.main."))
            else:
                assert spec is not None
                counts[0] = self._create(cursor, spec)

        try:
            if relations._is_bounded:
                step()
            elif name in SWEEPS and text_bytes > SMALL_SOURCE_BYTES:
                # Each thread of DuckDB uses memory to sort the rows for the native code. For 1 GB
                # of text, two threads need 560 MB; one thread needs 380 MB and takes 0.4 s longer.
                cursor.execute("SET threads = 1")
                with_memory_limit(cursor, 0, step)
                set_first_limit(cursor, text_bytes)
                cursor.execute("RESET threads")
            else:
                with_higher_limit(cursor, text_bytes, step)
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, UnicodeDecodeError) as error:
            _explain(name, error)
            raise
        return counts[0]

    def _create(self, cursor: duckdb.DuckDBPyConnection, spec: Spec) -> int | None:
        is_of_store = spec.name in self._stored or not (
            spec.kind == "analysis" or spec.is_on_demand
        )
        place = spec.name if is_of_store else f"{SESSION}.main.{spec.name}"
        if spec.kind == "view":
            return None
        exists = is_of_store and spec.kind == "table"
        if has_no_input(cursor, spec):
            if not exists:
                cursor.execute(spec.empty_table(place))
            return 0
        if spec.name in self._requested:
            execute_own(cursor, with_values(spec, bind(spec, {})))
            self.answers[spec.name] = Answer(columns_of(cursor), cursor.fetchall())
            return None
        if spec.name in SWEPT_TABLES:
            create_swept(cursor, place, SWEPT_TABLES[spec.name], spec.sql)
            return None
        if spec.name in SWEEPS:
            return sweep_table(cursor, spec)
        text = with_values(spec, bind(spec, {})) if spec.kind == "analysis" else spec.sql
        # Another transaction may have created the relation in this session.
        begin = f"INSERT INTO {place}" if exists else f"CREATE TABLE IF NOT EXISTS {place} AS"
        execute_own(cursor, f"{begin}\n{text}")
        rows = cursor.fetchall()
        return rows[0][0] if rows else None


def _is_in_transaction(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the connection is in an explicit transaction."""
    one, other = (connection.execute("SELECT txid_current()").fetchall() for _ in range(2))
    return one == other


def _explain(name: str, error: duckdb.Error | UnicodeDecodeError) -> None:
    """Raise a clear error if the store caused the failure of an analysis; otherwise, return."""
    blamed = store_error(name, error) if name in load_catalog().analyses else None
    if blamed is not None:
        raise blamed from error


def _spec_of(name: str) -> Spec | None:
    catalog = load_catalog()
    for specs in (catalog.tables, catalog.views, catalog.analyses):
        if name in specs:
            return specs[name]
    return None


def _heights(graph: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return the length of the longest chain of dependents of each relation."""
    heights = dict.fromkeys(graph, 0)
    for name in reversed(list(TopologicalSorter(graph).static_order())):
        for required in graph[name]:
            heights[required] = max(heights[required], heights[name] + 1)
    return heights
