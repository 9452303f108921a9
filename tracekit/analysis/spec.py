"""What the header of a SQL file says, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["analysis", "view", "table", "function"]
Scope = Literal["trace", "run", "runs"]


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of an analysis, bound as `$name`.

    `default` is the text after `=` as written in the header without quotes: None means that the
    parameter is required, `NULL` that it may be left unset. `choices` is empty when every value of
    the type is allowed.
    """

    name: str
    type: str
    default: str | None
    meaning: str
    choices: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        """Whether a value has to be given."""
        return self.default is None


@dataclass(frozen=True, slots=True)
class Key:
    """What a column joins: rows of a table, by the pairs of own and other column.

    Columns `trace_id` and `run_id` that both have belong to the join too: an event_id is that of
    one trace.
    """

    table: str
    pairs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """The key as the reference shows it."""
        others = [other for _, other in self.pairs]
        if len(others) == 1:
            return f"{self.table}.{others[0]}"
        return f"{self.table}({', '.join(others)})"


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One declared column: its name (which states the unit), its DuckDB type and what it means.

    `key` says which table it joins, if it is there to join one.
    """

    name: str
    type: str
    meaning: str
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """One SQL file: an analysis, a view, a derived table, or functions.

    `question` is the first line of the header, which names the rows, and `description` the rest of
    its first paragraph. Only an analysis has a `scope`. A table that `is_on_demand` is no part of a
    store: it is created when something first reads it. Without a row of `input`, which is what may
    stand after FROM, a relation has none.
    `keep` are the columns that a screen too narrow for all keeps longest, the most telling first.
    `invariants` are SQL conditions over the columns that hold for every row. `empty` are reasons
    why there is no row, each with the relation whose lack of rows it tells, or with none. `sql` is
    the whole text of the file, header included. `subject` is the folder that it lies in, as
    `kernels`. A private file helps others, and may change with any version. Of the parameters in
    `needs`, one at least has to be given.
    """

    name: str
    path: str
    question: str
    description: str
    kind: Kind
    scope: Scope | None
    params: tuple[Param, ...]
    columns: tuple[ColumnSpec, ...]
    invariants: tuple[str, ...]
    notes: tuple[str, ...]
    sql: str
    empty: tuple[tuple[str, str], ...] = ()
    subject: str = ""
    is_private: bool = False
    needs: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    input: str = ""
    is_on_demand: bool = False

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the declared columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def needs_values(self) -> bool:
        """Whether it cannot be asked with its defaults alone."""
        return bool(self.needs) or any(param.is_required for param in self.params)

    def empty_table(self, place: str = "") -> str:
        """Return the SQL that makes the table without a row, under its own name or another."""
        columns = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        return f"CREATE TABLE IF NOT EXISTS {place or self.name} ({columns})"
