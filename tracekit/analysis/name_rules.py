"""Applies the rules for names to the names of traces, and remembers what they said.

Compiling the patterns of all rules takes longer than anything else that a small trace costs, and a
process that reads many traces meets most names again. So what the rules say of a name is kept for
as long as the process lives; a trace of very many names has them tried inside DuckDB.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracekit.database import SCRATCH, execute
from tracekit.database.engine import duckdb as engine
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    import duckdb

_MOST_NAMES = 5_000
"""Up to so many names of a store are fetched."""

_LONGEST_NAME = 1_000
"""If none of them has more characters than that."""

_MOST_NAMES_KEPT = 20_000
_MOST_SELECTS_KEPT = 8

Name = tuple[str | None, str | None]
"""A category and a name, as in the file."""

Answer = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class NameRules:
    """The rules of one kind, as SQL.

    Attributes:
        table: the table of what they say, in the database ``scratch``: ``category``, ``name`` and
            the answers.
        names: SELECT of ``applies_to``, ``category`` and ``name``: the distinct names of a store.
        answers: what the rules say of a name: column to DuckDB type.
        selects: by value of ``applies_to``, a SELECT of ``category``, ``name`` and the answers from
            a relation ``given`` with ``category`` and ``name``.
    """

    table: str
    names: str
    answers: Mapping[str, str]
    selects: Mapping[str, str]

    def apply(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Fill the table with what the rules say of the names of a store."""
        execute(
            connection,
            f"SELECT applies_to, category, left(name, {_LONGEST_NAME + 1}) "
            f"FROM ({self.names}) LIMIT {_MOST_NAMES + 1}",
        )
        found = connection.fetchall()
        is_much = len(found) > _MOST_NAMES or any(
            name is not None and len(name) > _LONGEST_NAME for _, _, name in found
        )
        rows = self._over_all_names() if is_much else self._over(connection, found)
        connection.execute(f"CREATE OR REPLACE TABLE {SCRATCH}.{self.table} AS {rows}")

    def _over(
        self, connection: duckdb.DuckDBPyConnection, found: Sequence[tuple[str, str | None, str]]
    ) -> str:
        names: dict[str, list[Name]] = {}
        for applies_to, category, name in found:
            names.setdefault(applies_to, []).append((category, name))
        columns = {"category": "VARCHAR", "name": "VARCHAR"} | dict(self.answers)
        rows = [
            (*name, *answer)
            for applies_to, some in names.items()
            for name, answer in zip(
                some, _answers(connection, self.selects[applies_to], some), strict=True
            )
        ]
        return select_rows(columns, rows)

    def _over_all_names(self) -> str:
        parts = (
            "FROM (WITH given AS (SELECT category, name FROM found "
            f"WHERE applies_to = {quote(applies_to)}) {select})"
            for applies_to, select in self.selects.items()
        )
        return f"WITH found AS MATERIALIZED ({self.names}) {' UNION ALL '.join(parts)}"


@dataclass(slots=True)
class _Known:
    """What one SELECT said so far; `label` is what it is prepared as, once it is."""

    label: str
    answers: dict[Name, Answer] = field(default_factory=dict)
    is_prepared: bool = False


class _Memory:
    """What all SELECTs said so far; the lock is for whoever looks at it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, _Known] = {}
        self._connection: duckdb.DuckDBPyConnection | None = None

    def forget(self) -> None:
        self.known.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def connection(self) -> duckdb.DuckDBPyConnection:
        """Return the connection of the prepared statements.

        It has no tables: what does not read any stays planned.
        """
        if self._connection is None:
            self._connection = engine.connect()
            self._connection.execute("SET threads = 1")
        return self._connection


_memory = _Memory()
_of_parents: list[_Memory] = []


def _begin_anew() -> None:
    """Leave what a forked process was born with: another thread may have been using it."""
    global _memory
    # Let go of, its database would be closed, for which its threads are missing.
    _of_parents.append(_memory)
    _memory = _Memory()


os.register_at_fork(after_in_child=_begin_anew)


def _answers(
    connection: duckdb.DuckDBPyConnection, select: str, names: Sequence[Name]
) -> list[Answer]:
    """Return what a SELECT says of names, in their order."""
    with _memory.lock:
        is_first = select not in _memory.known
        if is_first and len(_memory.known) >= _MOST_SELECTS_KEPT:
            _memory.forget()
        known = _memory.known.setdefault(select, _Known(f"answers_{len(_memory.known)}"))
        if len(known.answers) > _MOST_NAMES_KEPT:
            known.answers.clear()
        new = [name for name in names if name not in known.answers]
        found: list[tuple[object, ...]] = []
        if new and is_first:
            # A process that reads one trace asks once.
            found = connection.execute(_over_lists(select, *_as_lists(new))).fetchall()
        elif new:
            planned = _memory.connection()
            if not known.is_prepared:
                planned.execute(f"PREPARE {known.label} AS {_over_lists(select, '$1', '$2')}")
                known.is_prepared = True
            lists = ", ".join(_as_lists(new))
            found = planned.execute(f"EXECUTE {known.label}({lists})").fetchall()
        for category, name, *answer in found:
            known.answers[(category, name)] = tuple(answer)  # type: ignore[index]
        return [known.answers[name] for name in names]


def _as_lists(names: Sequence[Name]) -> tuple[str, str]:
    """Return categories and names, each as a SQL literal of a JSON list."""
    categories, texts = zip(*names, strict=True)
    return quote(json.dumps(categories)), quote(json.dumps(texts))


def _over_lists(select: str, categories: str, names: str) -> str:
    """Return a SELECT over names that are given as JSON lists."""
    return f"""WITH given AS (
            SELECT unnest(from_json({categories}, '["VARCHAR"]')) AS category,
                unnest(from_json({names}, '["VARCHAR"]')) AS name
        ) {select}"""
