"""Makes the relations of a store: derived tables, views, functions, and analyses by their name.

Each is a SQL file under ``queries/``, or a step in Python; the headers say what requires what,
which gives the order and what can be made at the same time. Tables that every store of traces has
are made with it. The others (``Made: when asked for``), the functions that only some analyses call,
and analyses that a statement reads like a table, with their default parameters, are made when
something first requires them. These lie in a database in memory that all connections to a store
see, and go with the last of them: a store is read by many processes and changed by none.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

import duckdb

from tracekit.analysis import context_walk, replayed_ops, stretch_alignment
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.device_peaks import DEVICE_PEAK, create_device_peaks
from tracekit.analysis.device_rules import (
    DEVICE_MARK,
    create_device_marks,
    create_unrecorded_marks,
)
from tracekit.analysis.graph_sweeps import TABLES as SWEPT_TABLES
from tracekit.analysis.graph_sweeps import create_swept
from tracekit.analysis.header import SQL_TOKEN
from tracekit.analysis.params import ParamValue, bind, default_of
from tracekit.analysis.plausibility import IMPLAUSIBLE, judge_records
from tracekit.analysis.query_errors import store_error
from tracekit.analysis.rules import (
    ROLE_CALL,
    RULED_RANGE,
    RULED_WORK,
    create_rule_tables,
    role_macros,
    rule_ranges,
    rule_work,
)
from tracekit.analysis.spec import Spec
from tracekit.analysis.sweeps import sweep_table
from tracekit.database import (
    FUNCTIONS,
    SCRATCH,
    SESSION,
    SMALL_SOURCE_BYTES,
    STORE,
    add_session,
    create_run_tables,
    cursor_of,
    execute_own,
    set_first_limit,
    set_limit_of_questions,
    with_more_room,
)
from tracekit.schema import TABLES
from tracekit.sql_text import literal, quote, rows, select_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

Step = Callable[["duckdb.DuckDBPyConnection"], None]
"""What makes or fills a table."""

GIVEN = "given"
"""The table of the session with the statements that read rows which a dataset has of analyses."""

_IN_PYTHON: dict[str, tuple[Step, tuple[str, ...]]] = {
    context_walk.WALK: (context_walk.walk_contexts, context_walk.REQUIRES),
    stretch_alignment.ALIGNMENT: (stretch_alignment.align_stretches, stretch_alignment.REQUIRES),
    replayed_ops.REPLAYED_OPS: (replayed_ops.add_replayed_ops, replayed_ops.REQUIRES),
    RULED_WORK: (rule_work, ("device_work",)),
    RULED_RANGE: (rule_ranges, (DEVICE_MARK,)),
    DEVICE_PEAK: (create_device_peaks, ()),
    DEVICE_MARK: (create_device_marks, ()),
    IMPLAUSIBLE: (judge_records, ()),
}
"""The steps in Python, and what each requires besides what was ingested."""

_OF_STEPS = (
    *context_walk.TABLES,
    *(stretch_alignment.TABLE, RULED_WORK, RULED_RANGE),
)
"""The tables of the database ``scratch`` that steps leave to others."""

_INGESTED = frozenset(table.name for table in TABLES)
"""Tables, after some of which analyses are named: these are no relations, but are called."""

_CREATE = re.compile(r"^CREATE OR REPLACE MACRO\s+(?P<name>\w+)", re.MULTILINE)
_NAMED = re.compile(
    r"(?:\b(?:from|join|describe|summarize|table)\s+(?:temp\.)?|,\s*|\w\(\s*')"
    r"\"?(?P<name>[a-z_]+)"
)
"""What a statement may read: after FROM and its like, in a list, or as a function's argument."""

_READ_FROM = re.compile(r"\b(?:from|join|describe|summarize)\s+\"?(?P<name>[a-z_]\w*)")
"""An analysis is read there alone: its name may be that of a column, too."""

_WITH = re.compile(r"\b(?P<name>[a-z_]\w*)\s+as\s+(?:(?:not\s+)?materialized\s*)?\(")
"""What a statement names itself."""

_CALLED = re.compile(r"\b(?P<name>[a-z_]\w*)\s*\(")
_CALLED_AS_TABLE = re.compile(r"(?:\b(?:from|join)|,)\s*(?P<name>[a-z_]\w*)\s*\(")
_LOCK = RLock()
_FUNCTION_LOCK = RLock()


def with_values(spec: Spec, values: Mapping[str, ParamValue]) -> str:
    """Return the SQL with every `$name` replaced by its value, cast to its declared type.

    Comments, texts and quoted names are stepped over as wholes, so only a parameter is replaced.
    """
    types = {param.name: param.type for param in spec.params}

    def replacement(match: re.Match[str]) -> str:
        name = match["param"]
        if name is None:
            return match.group()
        return f"CAST({literal(values[name])} AS {types[name]})"

    return SQL_TOKEN.sub(replacement, spec.sql) if types else spec.sql


def prepare(connection: duckdb.DuckDBPyConnection, rules: Path | None = None) -> None:
    """Create what depends on no trace: the tables of runs and rules, the functions of every store.

    Raises:
        UsageError: the rules file is not valid.
    """
    create_run_tables(connection)
    create_rule_tables(connection, rules)
    create_unrecorded_marks(connection)
    for name in functions_of_stores():
        execute_own(connection, load_catalog().functions[name].sql)
    connection.execute(f"INSERT INTO {SESSION}.main.relation VALUES ({quote(FUNCTIONS)})")


@cache
def functions_of_stores() -> tuple[str, ...]:
    """Return the functions that every store of traces has, each after those that it requires.

    They are those of its views, which other programs may read, and of its tables that most traces
    have rows of.
    """
    catalog = load_catalog()
    usual = ("attribution", "idle_gap", "launch_link", "surroundings")
    made = [spec for name, spec in catalog.tables.items() if not spec.input or name in usual]
    return functions_of([*(one for one in made if not one.is_on_demand), *catalog.views.values()])


def functions_of(specs: Iterable[Spec], made: Collection[str] = ()) -> tuple[str, ...]:
    """Return the functions that SQL files call, each after those that it requires itself.

    Those that are made, and what they call, are left out.
    """
    functions = load_catalog().functions
    found: dict[str, None] = {}

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name in made:
                continue
            if name in functions and name not in found:
                add(functions[name].requires)
                if ROLE_CALL in functions[name].sql:
                    found.setdefault(ROLE_CALL)
                found[name] = None
            elif name.endswith("()") and name not in found:
                add(load_catalog().analysis(name[:-2]).requires)
                found[name] = None

    for spec in specs:
        add(spec.requires)
        if ROLE_CALL in spec.sql:
            found.setdefault(ROLE_CALL)
    return tuple(found)


def dependencies(names: Iterable[str], made: Collection[str] = ()) -> frozenset[str]:
    """Return the tables, views and analyses that names lead to, through functions not yet made."""
    catalog = load_catalog()
    found: set[str] = set()
    seen: set[str] = set(made)
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in catalog.functions:
            waiting += catalog.functions[name].requires
        elif name.endswith("()"):
            waiting += catalog.analysis(name[:-2]).requires
        else:
            found.add(name)
    return frozenset(found)


def depends_on(name: str, tables: Collection[str]) -> bool:
    """Whether an analysis reads any of these tables, itself or through others."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for one in dependencies([waiting.pop()]) - seen:
            if one in tables:
                return True
            seen.add(one)
            spec = _spec_of(one)
            waiting += spec.requires if spec is not None else ()
    return False


def ensure(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> frozenset[str]:
    """Make relations and functions that a store has not yet; return all that are made.

    Raises:
        duckdb.Error: one cannot be made.
    """
    return Relations(connection).make(names)


def ensure_named(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Make what a statement names: tables, functions, and analyses, read or called.

    Where a store lacks what they are made of, DuckDB says so of a statement that does read them.
    """
    catalog = load_catalog()
    lower = text.lower()
    called = dict.fromkeys(_CALLED.findall(lower))
    called_as_table = frozenset(_CALLED_AS_TABLE.findall(lower))
    read = frozenset(_READ_FROM.findall(lower)) - frozenset(_WITH.findall(lower))
    wanted: list[str] = []
    for name in dict.fromkeys([*_NAMED.findall(lower), *called]):
        analysis = catalog.analyses.get(name)
        if name in called:
            wanted += [file for file in (_files_by_function().get(name),) if file]
            if name in called_as_table and analysis is not None and analysis.scope == "trace":
                wanted.append(f"{name}()")
        elif name in catalog.tables or (
            name in read
            and analysis is not None
            and is_relation(name)
            and not analysis.needs_values
        ):
            wanted.append(name)
    with contextlib.suppress(duckdb.CatalogException):
        ensure(connection, wanted)


@cache
def _files_by_function() -> dict[str, str]:
    """Return the file of every function; a file may hold several, none of its own name."""
    return {
        match["name"]: name
        for name, spec in load_catalog().functions.items()
        for match in _CREATE.finditer(spec.sql)
    }


def is_relation(name: str) -> bool:
    """Whether an analysis can be read like a table of its name."""
    return name in load_catalog().analyses and name not in _INGESTED


def has_rows_of(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Whether the rows of an analysis with its default parameters are there to be read."""
    return is_relation(name) and not Relations(connection).made().isdisjoint(
        (name, f"{GIVEN}.{name}")
    )


def has_no_input(connection: duckdb.DuckDBPyConnection, spec: Spec) -> bool:
    """Whether a relation has no row because there is nothing of what it is made of.

    Most of the time of a small trace is planning, and this need not be planned then.
    """
    if not spec.input:
        return False
    return not connection.execute(f"SELECT 1 FROM {spec.input} LIMIT 1").fetchall()


def give_rows(connection: duckdb.DuckDBPyConnection, statements: Mapping[str, str]) -> None:
    """Have the rows of analyses read by these statements, where something asks for them."""
    connection.execute(f"CREATE TABLE {SESSION}.main.{GIVEN} (name VARCHAR, statement VARCHAR)")
    if statements:
        connection.execute(
            f"INSERT INTO {SESSION}.main.{GIVEN} VALUES {rows([*statements.items()])}"
        )
        given = rows([(f"{GIVEN}.{name}",) for name in statements])
        connection.execute(f"INSERT INTO {SESSION}.main.relation VALUES {given}")


class Relations:
    """The relations of one store, made as they are needed.

    For small traces two are made at a time: planning is most of their time, and DuckDB plans a
    statement on one thread. For large ones a step has all the memory.

    Args:
        connection: to a store that is open, or that is being built, as :func:`prepare` left it.
        text_bytes: of one that is being built, how much JSON text the traces have, roughly.
        steps: further steps by the name under which SQL files require them; they require nothing.
        is_bounded: the memory limit is that of a unit of work: no step may raise it.
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

    def made(self) -> frozenset[str]:
        """Return the names of what is made, or given by a dataset: ``given.NAME``."""
        try:
            found = self._connection.execute(f"FROM {SESSION}.main.relation").fetchall()
        except duckdb.CatalogException:
            add_session(self._connection, (STORE, FUNCTIONS))
            return frozenset((STORE, FUNCTIONS))
        return frozenset(name for (name,) in found)

    def make_store(self, analyses: Iterable[str] = ()) -> None:
        """Make what every store of traces has, and the rows of these analyses into it."""
        self._make([*self._of_stores(), *analyses], frozenset(analyses))

    def make(self, names: Iterable[str]) -> frozenset[str]:
        """Make what is not there yet; return the names of all that is made.

        Raises:
            duckdb.Error: one cannot be made.
            StoreError: an analysis cannot be made for want of room, or the store is damaged.
        """
        return self._make(names, frozenset())

    def forget(self, tables: Collection[str]) -> None:
        """Drop what was made of these tables in memory, or given: it has other rows now."""
        catalog = load_catalog()
        made = self.made()
        on_demand = [name for name, spec in catalog.tables.items() if spec.is_on_demand]
        for name in (*catalog.analyses, *on_demand):
            names = made & {name, f"{GIVEN}.{name}"}
            if names and name not in tables and depends_on(name, tables):
                self._connection.execute(f"DROP TABLE IF EXISTS {SESSION}.main.{name}")
                listed = ", ".join(map(quote, names))
                self._connection.execute(
                    f"DELETE FROM {SESSION}.main.relation WHERE name IN ({listed})"
                )

    def give(self, name: str, values: Sequence[Sequence[object]]) -> None:
        """Fill a table that is made when asked for with these rows, in place of its SQL."""
        table = load_catalog().tables[name]
        place = f"{SESSION}.main.{name}"
        types = {column.name: column.type for column in table.columns}
        self._connection.execute(f"DROP TABLE IF EXISTS {place}")
        self._connection.execute(table.empty_table(place))
        self._connection.execute(f"INSERT INTO {place} {select_rows(types, values)}")
        if name not in self.made():
            self._connection.execute(f"INSERT INTO {SESSION}.main.relation VALUES ({quote(name)})")
        self.forget([name])

    def _of_stores(self) -> list[str]:
        catalog = load_catalog()
        tables = [name for name, spec in catalog.tables.items() if not spec.is_on_demand]
        return [*tables, *catalog.views, *self._in_python]

    def _make(self, names: Iterable[str], stored: Collection[str]) -> frozenset[str]:
        names = tuple(names)
        with _LOCK:
            before = self.made()
            functions = [*self._functions(names, before)]
            graph = self._graph(names, before)
            if not functions and not graph:
                return before
            making = _Making(self, before, frozenset(stored))
            try:
                making.make(graph)
                making.provide(self._connection, functions)
            except BaseException as error:
                if duckdb.OutOfMemoryException in (type(error), type(error.__cause__)):
                    making.drop()
                raise
            finally:
                if making.new:
                    values = rows([(name,) for name in making.new])
                    self._connection.execute(f"INSERT INTO {SESSION}.main.relation VALUES {values}")
            made = before.union(making.new)
            if (
                self._text_bytes is not None
                and STORE not in made
                and made.issuperset(self._of_stores())
            ):
                self._connection.execute(
                    f"INSERT INTO {SESSION}.main.relation VALUES ({quote(STORE)})"
                )
                for table in _OF_STEPS:
                    self._connection.execute(f"DROP TABLE {SCRATCH}.{table}")
            return made

    def _functions(self, names: Iterable[str], made: frozenset[str]) -> Iterator[str]:
        functions = load_catalog().functions
        for name in names:
            if name in made or not (name in functions or name.endswith("()")):
                continue
            spec = functions.get(name) or load_catalog().analysis(name[:-2])
            yield from functions_of([spec], made)
            yield name

    def _graph(self, names: Iterable[str], made: frozenset[str]) -> dict[str, frozenset[str]]:
        """Return what is to be made, of each what must be made before it."""
        graph: dict[str, frozenset[str]] = {}
        waiting = [*dependencies(names, made)]
        # What every step reads of the events is what is left of them.
        first = frozenset() if STORE in made else frozenset((IMPLAUSIBLE,))
        while waiting:
            name = waiting.pop()
            if name in graph or not self._is_to_be_made(name, made):
                continue
            if f"{GIVEN}.{name}" in made:
                required = frozenset[str]()
            elif name in self._in_python:
                required = frozenset(self._in_python[name][1]) | (first - {name})
            else:
                spec = _spec_of(name)
                required = (dependencies(spec.requires, made) if spec else frozenset[str]()) | first
            required = frozenset(one for one in required if self._is_to_be_made(one, made))
            graph[name] = required
            waiting += required
        return graph

    def _is_to_be_made(self, name: str, made: frozenset[str]) -> bool:
        if name in made:
            return False
        spec = load_catalog().tables.get(name)
        if name in self._in_python or name in load_catalog().views or spec is not None:
            return STORE not in made or (spec is not None and spec.is_on_demand)
        return is_relation(name)


class _Making:
    """One time that relations are made; `new` are the names of what was."""

    def __init__(self, relations: Relations, made: frozenset[str], stored: frozenset[str]) -> None:
        self._relations = relations
        self._connection = relations._connection
        self._made = made
        self._stored = stored
        self.new: list[str] = []

    def make(self, graph: Mapping[str, frozenset[str]]) -> None:
        """Make relations, each after what it requires."""
        if not graph:
            return
        if _is_in_transaction(self._connection):
            # It sees what other connections make no more than they see what it makes.
            for name in TopologicalSorter(graph).static_order():
                self._make_one(self._connection, name)
                self.new.append(name)
            return
        text_bytes = self._relations._text_bytes
        is_limited = not self._relations._is_bounded
        if is_limited:
            set_first_limit(self._connection, text_bytes or 0)
        try:
            self._make(graph, 2 if (text_bytes or 0) <= SMALL_SOURCE_BYTES else 1)
        finally:
            if is_limited:
                set_limit_of_questions(self._connection)

    def _make(self, graph: Mapping[str, frozenset[str]], workers: int) -> None:
        sorter = TopologicalSorter(graph)
        sorter.prepare()
        heights = _heights(graph)
        workers = min(workers, len(graph))
        everyone = [cursor_of(self._connection) for _ in range(workers)]
        cursors = list(everyone)
        alone: list[str] = []

        def rank(name: str) -> tuple[int, int]:
            spec = _spec_of(name)
            return heights[name], len(spec.sql) if spec else 0

        def make(name: str, *, is_alone: bool) -> str | None:
            cursor = cursors.pop()
            try:
                self._make_one(cursor, name)
            except duckdb.OutOfMemoryException as error:
                if is_alone or workers == 1:
                    _explain(name, error)
                    raise
                return None
            finally:
                cursors.append(cursor)
            return name

        with ThreadPoolExecutor(workers, thread_name_prefix="tracekit-make") as pool:
            ready: list[str] = []
            running: dict[Future[str | None], str] = {}
            try:
                while sorter.is_active():
                    # What most others wait for, one after the other, goes first; then what takes
                    # longest: long SQL, mostly.
                    ready = sorted([*ready, *sorter.get_ready()], key=rank, reverse=True)
                    while ready and len(running) < workers:
                        name = ready.pop(0)
                        running[pool.submit(make, name, is_alone=False)] = name
                    if not running:
                        # What found no room next to another has all of it now.
                        name = alone.pop(0)
                        running[pool.submit(make, name, is_alone=True)] = name
                    # In short turns: Python looks for a Ctrl-C after each.
                    finished, _ = wait(running, timeout=0.05, return_when=FIRST_COMPLETED)
                    for future in finished:
                        name = running.pop(future)
                        if future.result() is None:
                            alone.append(name)
                        else:
                            self.new.append(name)
                            sorter.done(name)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                # One that was not begun yet never counts as done.
                running = {one: name for one, name in running.items() if not one.cancelled()}
                while wait(running, timeout=0.05).not_done:
                    # Again and again: an interrupt that comes between two statements is lost.
                    for cursor in everyone:
                        cursor.interrupt()
                for future, name in running.items():
                    if not future.exception() and future.result() is not None:
                        self.new.append(name)
                raise
        for cursor in everyone:
            cursor.close()

    def drop(self) -> None:
        """Drop what was made in memory: it is of no use without the rest, and takes room."""
        for name in [*self.new]:
            spec = _spec_of(name)
            if (
                spec is not None
                and name not in self._stored
                and (spec.kind == "analysis" or spec.is_on_demand)
            ):
                self._connection.execute(f"DROP TABLE {SESSION}.main.{name}")
                self.new.remove(name)

    def _make_one(self, cursor: duckdb.DuckDBPyConnection, name: str) -> None:
        relations = self._relations
        in_python = relations._in_python.get(name)
        spec = _spec_of(name)

        def step() -> None:
            if f"{GIVEN}.{name}" in self._made:
                [(statement,)] = cursor.execute(
                    f"SELECT statement FROM {SESSION}.main.{GIVEN} WHERE name = {quote(name)}"
                ).fetchall()
                cursor.execute(f"CREATE TABLE {SESSION}.main.{name} AS {statement}")
            elif in_python is not None:
                in_python[0](cursor)
            else:
                assert spec is not None
                self._create(cursor, spec)

        try:
            if relations._is_bounded:
                step()
            else:
                with_more_room(cursor, relations._text_bytes or 0, step)
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, UnicodeDecodeError) as error:
            _explain(name, error)
            raise

    def _create(self, cursor: duckdb.DuckDBPyConnection, spec: Spec) -> None:
        is_of_store = spec.name in self._stored or not (
            spec.kind == "analysis" or spec.is_on_demand
        )
        place = spec.name if is_of_store else f"{SESSION}.main.{spec.name}"
        if has_no_input(cursor, spec):
            cursor.execute(spec.empty_table(place))
        elif spec.name in SWEPT_TABLES:
            self.provide(cursor, functions_of([spec], self._made))
            create_swept(cursor, place, SWEPT_TABLES[spec.name], spec.sql)
        elif not sweep_table(cursor, spec):
            self.provide(cursor, functions_of([spec], self._made))
            text = with_values(spec, bind(spec, {})) if spec.kind == "analysis" else spec.sql
            what = "VIEW" if spec.kind == "view" else "TABLE"
            execute_own(cursor, f"CREATE {what} {place} AS\n{text}")

    def provide(self, connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
        """Create functions that are not there."""
        with _FUNCTION_LOCK:
            for name in names:
                if name in self._made or name in self.new:
                    continue
                if FUNCTIONS in self._made and name in functions_of_stores():
                    continue
                if name == ROLE_CALL:
                    connection.execute(_in_session(role_macros(connection)))
                elif name.endswith("()"):
                    connection.execute(_function_of_analysis(load_catalog().analysis(name[:-2])))
                else:
                    execute_own(connection, _in_session(load_catalog().functions[name].sql))
                self.new.append(name)


def _is_in_transaction(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether a transaction has been begun: else each statement has one of its own."""
    one, other = (connection.execute("SELECT txid_current()").fetchall() for _ in range(2))
    return one == other


def _in_session(sql: str) -> str:
    return _CREATE.sub(rf"CREATE OR REPLACE MACRO {SESSION}.main.\g<name>", sql)


def _explain(name: str, error: duckdb.Error | UnicodeDecodeError) -> None:
    """Raise what is to be said where an analysis cannot be made: of others, who asked says it."""
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
    """Return how many steps at least must follow each one, one after the other."""
    heights = dict.fromkeys(graph, 0)
    for name in reversed(list(TopologicalSorter(graph).static_order())):
        for required in graph[name]:
            heights[required] = max(heights[required], heights[name] + 1)
    return heights


def _function_of_analysis(spec: Spec) -> str:
    """Return what makes an analysis a function; ``limit`` of its header is ``p_limit`` of that.

    Columns have the names of parameters, and some of these are words of SQL.
    """

    def replaced(match: re.Match[str]) -> str:
        param = params.get(match["param"])
        return match[0] if param is None else f"CAST(p_{param.name} AS {param.type})"

    params = {param.name: param for param in spec.params}
    takes = ", ".join(
        f"p_{name}" + ("" if param.default is None else f" := {literal(default_of(param))}")
        for name, param in params.items()
    )
    body = SQL_TOKEN.sub(replaced, spec.sql)
    return f"CREATE OR REPLACE MACRO {SESSION}.main.{spec.name}({takes}) AS TABLE (\n{body}\n)"
