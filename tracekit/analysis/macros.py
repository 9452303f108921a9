"""Macros where they are needed, and only there: creating one costs milliseconds.

A store of traces has the macros of its tables and views. Those that only an analysis uses are made
on the connection that runs it, and are gone with it; so are all that an analysis of runs uses: a
store of runs alone has none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial

import duckdb

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.interruptible import interruptible
from tracekit.analysis.rules import ROLE_CALL, role_macros
from tracekit.analysis.session_tables import DATABASE
from tracekit.analysis.spec import Spec
from tracekit.database import execute_own

ONLY_IF = {
    "cpu_work": "SELECT 1 FROM accelerator WHERE accelerator = 'cpu' OR NOT is_recorded LIMIT 1",
    "compiled_regions": "SELECT 1 FROM event WHERE starts_with(name, 'Torch-Compiled Region') "
    "OR name IN ('CompiledFunction', 'CompiledFunctionBackward') LIMIT 1",
    "compiled_events": "SELECT 1 FROM compiled_regions LIMIT 1",
    "collective_events": "SELECT 1 FROM device_events WHERE kind = 'comm' LIMIT 1",
    # Work of a device, or nothing that tells of one: nothing is missing.
    "unrecorded_run": "SELECT 1 FROM event_kind GROUP BY trace_id "
    "HAVING NOT coalesce(bool_or(is_device_work(category)), FALSE) "
    "AND (bool_or(is_launch_call(category) OR has_special) "
    "OR trace_id IN (SELECT trace_id FROM device) "
    "OR trace_id IN (SELECT trace_id FROM device_mark WHERE role = 'launch') "
    "OR trace_id IN (SELECT trace_id FROM device_process) "
    "OR trace_id IN (SELECT trace_id FROM implausible WHERE is_work)) LIMIT 1",
    # A lock, or nodes of autograd on another thread than their forward ops.
    "thread_waits": "SELECT 1 FROM host_waits WHERE kind = 'lock' UNION ALL "
    "SELECT 1 FROM event WHERE is_python_call(category) AND contains(name, 'run_backward') "
    "UNION ALL SELECT 1 FROM surroundings AS s INNER JOIN event AS e USING (trace_id, event_id) "
    "INNER JOIN event AS f ON s.trace_id = f.trace_id AND s.forward_op_id = f.event_id "
    "WHERE e.pid = f.pid AND e.tid <> f.tid LIMIT 1",
    "launch_call": "SELECT 1 FROM event_kind WHERE is_launch_call(category) LIMIT 1",
    "unrecorded_step": "SELECT 1 FROM launch_call WHERE is_missing AND is_kernel LIMIT 1",
    "captured_call": "SELECT 1 FROM launch WHERE contains(name, 'GraphLaunch') LIMIT 1",
    "replayed_event": "SELECT 1 FROM captured_call WHERE capture_id IS NOT NULL LIMIT 1",
    "neighbours": "SELECT 1 FROM trace_traits WHERE is_training LIMIT 1",
    "repetition": "SELECT 1 FROM launch_link WHERE launch_id IS NULL LIMIT 1",
    # The forms of ranges that tell a batch, less closely than the table itself looks.
    "serving_step_ranges": "SELECT 1 FROM event WHERE is_annotation(category) AND ("
    "name IN ('tk/phase/prefill', 'tk/phase/decode', 'tk/phase/mixed') "
    "OR starts_with(name, 'tk/batch/') OR starts_with(name, 'execute_') "
    "OR starts_with(name, 'step[') OR starts_with(name, 'engine_step ')) "
    "OR (category, name) IN (SELECT (category, name) FROM range_marker WHERE means = 'frame') "
    "LIMIT 1",
    "serving_step_work": "SELECT 1 FROM serving_step_ranges LIMIT 1",
    **dict.fromkeys(("attribution", "launch_link"), "SELECT 1 FROM device_events LIMIT 1"),
    "idle_gap": "SELECT 1 FROM device_gaps LIMIT 1",
    "memory_event": "SELECT 1 FROM memory LIMIT 1",
    "surroundings": "SELECT 1 FROM scratch.walked LIMIT 1",
    **dict.fromkeys(
        ("communication", "collectives", "overlap"),
        "SELECT 1 FROM collective_events LIMIT 1",
    ),
    "memcpy": "SELECT 1 FROM device_events WHERE kind = 'memcpy' OR class = 'memset' LIMIT 1",
    "steps": "SELECT 1 FROM step_ranges LIMIT 1",
    "unrecorded": "SELECT 1 FROM accelerator WHERE NOT is_recorded LIMIT 1",
}
"""Tables and analyses that are long to plan, and what must return a row for them to have one."""

_USUAL = frozenset(("attribution", "idle_gap", "launch_link", "surroundings"))
"""Those of them that most traces have rows of: every store has their macros."""

_KEPT = ("collective_matches",)
"""Macros that take no argument, and whose rows most analyses of runs read: see `rows_kept`."""

_OF_MODULES = ("role_work", "serving_section_work", "serving_task_time")
_KEPT_OF_TRACES = {
    **dict.fromkeys(("collective_matches", "launched_op_costs", "parallel_members"), ("", "")),
    **dict.fromkeys(_OF_MODULES, ("modules", "'module'")),
}
"""Macros whose rows several analyses of traces read: parameters, and what those give for them."""

_MOST_ROWS_KEPT = 150_000
"""How many device events traces may have at most, of which such rows are kept: 20 MB for each."""

_CREATE = re.compile(r"^CREATE OR REPLACE MACRO", re.MULTILINE)
_MADE = re.compile(rf"{_CREATE.pattern}\s+(?P<name>\w+)", re.MULTILINE)
_CALL = re.compile(r"\b(?P<name>[A-Za-z_]\w*)\s*\(")


def macros_of(specs: Iterable[Spec], kept: Collection[str] = ()) -> list[Spec]:
    """Return the macros that these require, each behind those that it requires itself.

    Those whose rows are `kept` require nothing.
    """
    macros = load_catalog().macros
    found: dict[str, Spec] = {}

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name in macros and name not in found:
                add(() if name in kept else macros[name].requires)
                found[name] = macros[name]

    for spec in specs:
        add(spec.requires)
    return list(found.values())


def macros_of_stores_in_order() -> list[Spec]:
    """Return the macros that every store has, each behind those that it requires."""
    catalog = load_catalog()
    made = [spec for name, spec in catalog.tables.items() if name not in ONLY_IF or name in _USUAL]
    return macros_of([*made, *catalog.views.values()])


@cache
def macros_of_stores() -> frozenset[str]:
    """Return the names of the macros that every store has."""
    return frozenset(spec.name for spec in macros_of_stores_in_order())


def is_of_nothing(connection: duckdb.DuckDBPyConnection, spec: Spec) -> bool:
    """Whether a table, or an analysis of tracekit's, has no row for want of what it is of."""
    catalog = load_catalog()
    if spec.name not in ONLY_IF or catalog.analyses.get(spec.name, spec) is not spec:
        return False
    return not connection.execute(ONLY_IF[spec.name]).fetchall()


def provide_macros(connection: duckdb.DuckDBPyConnection, spec: Spec) -> None:
    """Create the macros that an analysis or a table requires and that its store may not have."""
    if spec.scope == "runs":
        make_macros(connection, macros_of([spec]))
    else:
        kept = _rows_of_traces_kept(connection, spec)
        _provide(connection, macros_of([spec], kept), kept)


def provide_macros_in(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Create the macros that a statement calls, with all of the files that they lie in."""
    files = _files_by_macro()
    names = dict.fromkeys(match["name"].lower() for match in _CALL.finditer(text))
    called = list(dict.fromkeys(files[name] for name in names if name in files))
    specs = [load_catalog().macros[file] for file in called]
    _provide(connection, [*macros_of(specs), *specs])


@cache
def _files_by_macro() -> dict[str, str]:
    """Return the file of every macro; a file may hold several, none of its own name."""
    return {
        match["name"]: spec.name
        for spec in load_catalog().macros.values()
        for match in _MADE.finditer(spec.sql)
    }


def make_macros(
    connection: duckdb.DuckDBPyConnection, macros: Iterable[Spec], kept: Collection[str] = ()
) -> None:
    """Create macros on a connection, whose they are alone; of some the rows are `kept`."""
    for macro in macros:
        if macro.name in kept:
            takes, _ = _KEPT_OF_TRACES[macro.name]
            connection.execute(
                f"CREATE OR REPLACE TEMP MACRO {macro.name}({takes}) AS TABLE "
                f"FROM {_rows(macro.name)}",
            )
        elif macro.name in _KEPT and _are_kept(connection, macro.name):
            connection.execute(
                f"CREATE OR REPLACE TEMP MACRO {macro.name}() AS TABLE FROM {_rows(macro.name)}"
            )
        else:
            execute_own(connection, _CREATE.sub("CREATE OR REPLACE TEMP MACRO", macro.sql))


@contextmanager
def rows_kept(connection: duckdb.DuckDBPyConnection, specs: Iterable[Spec]) -> Iterator[None]:
    """Have what several analyses read made once, for all connections to the same store.

    Which collectives belong together takes longer to find out than what is asked of them.

    Nothing is made that only one of the analyses reads.
    """
    needed = [{macro.name for macro in macros_of([spec])} for spec in specs]
    macros = load_catalog().macros
    names = [name for name in _KEPT if sum(name in some for some in needed) > 1]
    try:
        for name in names:
            _provide(connection, [*macros_of([macros[name]]), macros[name]])
            connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {DATABASE}")
            statement = f"CREATE OR REPLACE TABLE {_rows(name)} AS FROM {name}()"
            interruptible(connection, partial(connection.execute, statement))
        yield
    finally:
        for name in names:
            connection.execute(f"DROP TABLE IF EXISTS {_rows(name)}")
            # Who asks for it on this connection later finds no table.
            make_macros(connection, [macros[name]])


def _rows_of_traces_kept(connection: duckdb.DuckDBPyConnection, spec: Spec) -> list[str]:
    """Return the macros that an analysis of tracekit's requires whose rows are kept, or are now.

    To make them is most of what such an analysis takes, and who asks for one asks for others. They
    are dropped with the last connection to the store.
    """
    catalog = load_catalog()
    if catalog.analyses.get(spec.name) is not spec:
        return []
    required = [one for one in macros_of([spec]) if one.name in _KEPT_OF_TRACES]
    missing = [macro for macro in required if not _are_kept(connection, macro.name)]
    if missing and not _are_few(connection):
        return []
    for macro in missing:
        _provide(connection, [*macros_of([macro]), macro])
        _, given = _KEPT_OF_TRACES[macro.name]
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {DATABASE}")
        try:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_rows(macro.name)} AS FROM {macro.name}({given})"
            )
        except (duckdb.TransactionException, duckdb.OutOfMemoryException):
            # Another connection is making it, or there is no room: the question needs less.
            return []
    return [macro.name for macro in required]


def _are_few(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the device events of a store are so few that what is told of each can be kept.

    Those of a dataset lie in files of their own, and are not.
    """
    found = connection.execute(
        "SELECT estimated_size FROM system.main.duckdb_tables() WHERE table_name = 'attribution' "
        "AND database_name = current_database() AND schema_name = 'main'"
    ).fetchone()
    return found is not None and found[0] <= _MOST_ROWS_KEPT


def _are_kept(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    try:
        connection.execute(f"FROM {_rows(name)} LIMIT 0")
    except duckdb.CatalogException:
        return False
    return True


def _rows(name: str) -> str:
    return f"{DATABASE}.main.{name}_kept"


def _provide(
    connection: duckdb.DuckDBPyConnection, macros: Iterable[Spec], kept: Collection[str] = ()
) -> None:
    made = [macro for macro in macros if macro.name not in macros_of_stores()]
    if any(ROLE_CALL in macro.sql for macro in made if macro.name not in kept):
        connection.execute(role_macros(connection))
    make_macros(connection, made, kept)
