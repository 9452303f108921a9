"""Says everything that is wrong with a SQL file of the user's, before anybody rests a figure on it.

The header is read to its end, the SQL is bound to a store with nothing in it, and where a trace is
given it is run: its invariants and keys must hold for every row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.header import SQL_TOKEN, read_header, split_header
from tracekit.analysis.interruptible import interruptible
from tracekit.analysis.params import ParamValue, default_of
from tracekit.analysis.query_folders import Library, OwnFile, read_text, taken_names
from tracekit.analysis.relations import is_relation, with_values
from tracekit.analysis.run import columns_of
from tracekit.analysis.spec import Spec, columns_of_spec, dangling_sql, wrong_key
from tracekit.analysis.store_catalogue import empty_store
from tracekit.analysis.user_queries import (
    lay,
    own_cursor,
    own_error,
    select_of,
    without_comments,
)
from tracekit.errors import TracekitError

_LINE = re.compile(r"^LINE (\d+): (.*)$", re.MULTILINE)
_COLUMN = re.compile(r"(?P<name>[a-z][a-z0-9_]*)\s")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: where in the file, whether it is right, and what was found."""

    line: int | None
    check: str
    is_right: bool
    finding: str
    hint: str | None = None


def check_file(
    path: Path, library: Library, connection: duckdb.DuckDBPyConnection | None = None
) -> list[Finding]:
    """Check one file.

    Without a connection to the store of a trace it is run on none. `library` are the user's other
    files, which it may require.

    Returns:
        What was looked at, in the order in which it matters: the header, what it requires, the SQL,
        the columns, and on a trace its rows.

    Raises:
        QueryError: the file cannot be read at all.
    """
    text = read_text(path)
    spec, problems = read_header(text, path.stem, str(path), path.parent.name)
    found = [Finding(p.line, "header", False, p.reason, p.hint) for p in problems]
    taken = taken_names().get(spec.name)
    if taken is not None:
        what = f"{taken} of tracekit's own has the name {spec.name}"
        found.append(Finding(None, "name", False, what, "give the file another name"))
    elif not problems:
        found.append(Finding(None, "header", True, f"{spec.kind}: {spec.question}"))
    known = Library({**library.files, spec.name: OwnFile(spec, "given")}, library.refused)
    with empty_store() as empty:
        relations = _relations_of(empty)
        for other in library.files.values():
            if other.spec.kind in ("table", "view"):
                relations[other.spec.name] = columns_of_spec(other.spec)
        check = _Check(spec, known, relations, _lines_of(text))
        found += check.requires()
        # An error in what the header declares would only be told again by what follows.
        if all(finding.is_right or finding.check == "name" for finding in found):
            ran = check.run(empty, is_trace=False)
            if connection is not None and all(finding.is_right for finding in ran):
                ran = check.run(connection, is_trace=True)
            found += ran
    return found


class _Check:
    def __init__(
        self,
        spec: Spec,
        library: Library,
        relations: dict[str, Mapping[str, str]],
        lines: Mapping[str, int],
    ) -> None:
        self._spec = spec
        self._library = library
        self._relations = relations
        self._lines = lines

    def requires(self) -> list[Finding]:
        """Look whether all that the header requires is there, and all that is read required."""
        spec, found = self._spec, []
        catalog = load_catalog()
        line = self._lines.get("Requires")
        known = {
            *(*catalog.functions, *catalog.tables, *filter(is_relation, catalog.analyses)),
            *(f"{name}()" for name in catalog.analyses),
            *(*self._relations, *self._library.files),
        }
        for name in spec.requires:
            if name in known:
                continue
            refused = [file for file in self._library.refused if file.name == name]
            if refused:
                found.append(self._wrong("requires", f"{name}: {refused[0].reason}", line))
            else:
                found.append(
                    self._wrong("requires", f"there is no table, function or analysis {name}", line)
                )
        sql = without_comments(spec.sql)
        read = set(re.findall(r"\b(?:from|join)\s+(\w+)", sql, re.IGNORECASE))
        called = {name for name in re.findall(r"\b(\w+)\s*\(", sql) if name in catalog.functions}
        local = set(re.findall(r"\b(\w+)\s+AS\s+(?:(?:NOT\s+)?MATERIALIZED\s*)?\(", sql, re.I))
        made = {
            *(*catalog.tables, *catalog.views),
            *self._library.files,
        } - {spec.name}
        for name in sorted(((read & made) - local | called) - {*spec.requires}):
            hint = f"Requires: {', '.join([*spec.requires, name])}"
            found.append(self._wrong("requires", f"{name} is read and not required", line, hint))
        if not found and spec.requires:
            found.append(Finding(line, "requires", True, ", ".join(spec.requires)))
        return found

    def run(self, connection: duckdb.DuckDBPyConnection, *, is_trace: bool) -> list[Finding]:
        """Run the file on a store, and look at what it gives."""
        try:
            with own_cursor(
                connection, self._library, self._library.files[self._spec.name]
            ) as cursor:
                return interruptible(cursor, lambda: self._run(cursor, is_trace=is_trace))
        except TracekitError as error:
            text = error.message.removeprefix(f"{self._spec.path}: ")
            return [self._wrong("SQL", text, None, error.hint)]

    def _run(self, cursor: duckdb.DuckDBPyConnection, *, is_trace: bool) -> list[Finding]:
        spec = self._spec
        if spec.kind == "function":
            # What a function says is bound where it is called.
            cursor.execute("ROLLBACK")
            lay(cursor, spec)
            count = len(cursor.extract_statements(spec.sql))
            return [Finding(None, "SQL", True, f"{count} function{'s' if count != 1 else ''}")]
        statement = with_values(spec, _values(spec)) if spec.kind == "analysis" else spec.sql
        try:
            sql = select_of(cursor, spec, statement)
        except duckdb.Error as error:
            return [self._failed(cursor, error, first_line=1)]
        try:
            cursor.execute(f"FROM ({sql}\n) LIMIT 0")
            returned = [(column.name, column.type) for column in columns_of(cursor)]
            cursor.fetchall()
        except duckdb.Error as error:
            return [self._failed(cursor, error)]
        found = self._columns(returned)
        if all(finding.is_right for finding in found):
            found += self._rows(cursor, sql, is_trace=is_trace)
        return found

    def _failed(
        self, cursor: duckdb.DuckDBPyConnection, error: duckdb.Error, first_line: int | None = None
    ) -> Finding:
        at = _LINE.search(str(error))
        said = own_error(cursor, self._spec, error)
        text = said.message.removeprefix(f"{self._spec.path}: ")
        if at is None:
            return self._wrong("SQL", text, None, said.hint)
        # DuckDB counts from where the statement begins, and that stands below the header.
        line = int(at[1]) + (first_line or _first_line(self._spec.sql)) - 1
        hint = said.hint if said.hint and not said.hint.startswith("line ") else at[2].strip()
        return self._wrong("SQL", text, line, hint)

    def _columns(self, returned: list[tuple[str, str]]) -> list[Finding]:
        found = []
        given = dict(returned)
        declared = columns_of_spec(self._spec)
        for name, kind in declared.items():
            if name not in given:
                found.append(self._wrong("columns", f"{name} is declared and not returned", name))
            elif given[name] != kind:
                text = f"{name} is declared {kind} and returned {given[name]}"
                hint = f"declare it so, or write (…)::{kind} AS {name}"
                found.append(self._wrong("columns", text, name, hint))
        line = self._lines.get("Columns")
        for name, kind in returned:
            if name not in declared:
                hint = f"write below Columns: {name}  {kind}  its meaning"
                text = f"{name} {kind} is returned and not declared"
                found.append(self._wrong("columns", text, line, hint))
        if not found and [name for name, _ in returned] != list(declared):
            order = ", ".join(name for name, _ in returned)
            text = f"they are returned in another order: {order}"
            found.append(self._wrong("columns", text, line))
        for column in self._spec.columns:
            wrong = column.key and wrong_key(column, declared, self._relations)
            if wrong:
                found.append(self._wrong("keys", wrong, column.name))
        return found or [Finding(line, "columns", True, ", ".join(declared))]

    def _rows(
        self, cursor: duckdb.DuckDBPyConnection, sql: str, *, is_trace: bool
    ) -> list[Finding]:
        spec, found = self._spec, []
        relation = f"({sql}\n)"
        try:
            (count,) = cursor.execute(f"SELECT count(*) FROM {relation}").fetchone() or (0,)
        except duckdb.Error as error:
            return [self._failed(cursor, error)]
        if is_trace:
            found.append(Finding(None, "rows", True, f"{count:,}"))
        for number, invariant in enumerate(spec.invariants, start=1):
            line = self._lines.get(f"Invariant {number}")
            broken = f"({invariant}\n) IS DISTINCT FROM TRUE"
            query = (
                f"SELECT count(*) FILTER ({broken}), any_value(r) FILTER ({broken}) "
                f"FROM {relation} AS r"
            )
            try:
                broken_count, row = cursor.execute(query).fetchone() or (0, None)
            except duckdb.Error as error:
                reason = str(error).splitlines()[0]
                found.append(self._wrong("invariants", f"{invariant}: {reason}", line))
                cursor.execute("ROLLBACK")
                cursor.execute("BEGIN TRANSACTION READ ONLY")
                continue
            if broken_count:
                text = f"{invariant}: not so in {broken_count:,} of {count:,} rows"
                found.append(self._wrong("invariants", text, line, f"one of them: {row}"))
            elif is_trace:
                found.append(Finding(line, "invariants", True, invariant))
        declared = columns_of_spec(spec)
        for column in spec.columns:
            if column.key is None:
                continue
            other = self._relations[column.key.table]
            query = dangling_sql(relation, column, declared, other)
            (lost,) = cursor.execute(query).fetchone() or (0,)
            if lost:
                text = (
                    f"{column.name}: {lost:,} of {count:,} rows join no row of {column.key.table}"
                )
                found.append(self._wrong("keys", text, column.name))
            elif is_trace:
                found.append(
                    Finding(
                        self._lines.get(column.name), "keys", True, f"{column.name} → {column.key}"
                    )
                )
        return found

    def _wrong(
        self, check: str, text: str, where: str | int | None, hint: str | None = None
    ) -> Finding:
        line = self._lines.get(where) if isinstance(where, str) else where
        return Finding(line, check, False, text, hint)


def _relations_of(connection: duckdb.DuckDBPyConnection) -> dict[str, Mapping[str, str]]:
    """Return the columns of every table and view of a store."""
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE NOT internal AND database_name = current_database()"
    ).fetchall():
        found.setdefault(table, {})[column] = kind
    on_demand = {
        table.name: {column.name: column.type for column in table.columns}
        for table in load_catalog().tables.values()
        if table.is_on_demand
    }
    return {**on_demand, **found}


def _values(spec: Spec) -> dict[str, ParamValue]:
    """Return the default of every parameter; NULL for one that has none."""
    return {param.name: None if param.is_required else default_of(param) for param in spec.params}


def _lines_of(text: str) -> dict[str, int]:
    """Return the lines at which the fields of a header stand, and its columns by their names."""
    found: dict[str, int] = {}
    invariants, is_columns = 0, False
    for line in split_header(text)[0]:
        name, colon, _ = line.text.partition(":")
        if colon and name.isalpha():
            is_columns = name == "Columns"
            invariants += name == "Invariant"
            found.setdefault(
                f"Invariant {invariants}" if name == "Invariant" else name, line.number
            )
        elif is_columns and (match := _COLUMN.match(line.text.strip())):
            found.setdefault(match["name"], line.number)
    return found


def _first_line(sql: str) -> int:
    """Return the line at which the statement begins, behind comments."""
    body = SQL_TOKEN.sub(
        lambda match: (
            re.sub(r"[^\n]", " ", match.group())
            if match.group().startswith(("--", "/*"))
            else match.group()
        ),
        sql,
    )
    return sql.count("\n", 0, len(body) - len(body.lstrip())) + 1
