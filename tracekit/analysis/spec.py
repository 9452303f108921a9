"""The parsed header of an SQL file."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["analysis", "view", "table", "function"]
Scope = Literal["trace", "run", "runs"]


class Param(Struct, frozen=True):
    """One parameter of an analysis, bound as `$name`.

    `default` is the text after `=` in the header, without quotes. It is None for a required
    parameter, and `NULL` if the parameter may be unset. `choices` is empty if all values of the
    type are allowed.
    """

    name: str
    type: str
    default: str | None
    meaning: str
    choices: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        """Whether a value is required."""
        return self.default is None


class Key(Struct, frozen=True):
    """The join of a column: the other table, and pairs of columns in this and the other table.

    If both tables have columns `trace_id` or `run_id`, they are part of the join.
    """

    table: str
    pairs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """Return the key as shown in the reference manual."""
        others = [other for _, other in self.pairs]
        if len(others) == 1:
            return f"{self.table}.{others[0]}"
        return f"{self.table}({', '.join(others)})"


class ColumnSpec(Struct, frozen=True):
    """One declared column: name (with the unit as suffix), DuckDB type, and description.

    `key` is its join with another table, or None.
    """

    name: str
    type: str
    meaning: str
    key: Key | None = None


class Spec(Struct, frozen=True):
    """One SQL file: an analysis, a view, a derived table, or functions.

    Attributes:
        question: first line of the header, a noun phrase that names the rows.
        description: rest of its first paragraph.
        scope: input of an analysis; None for other kinds.
        is_on_demand: whether the table is created when a statement reads it, instead of with the
            store.
        input: the header line `Input`: a relation, with an optional condition. If it is empty, so
        is the result.
        keep: columns that narrow screens omit last, most important first.
        invariants: SQL conditions over the columns that are true for every row.
        empty: reasons for an empty result, each with the empty relation that causes it, or "".
        sql: complete text of the file, including the header.
        subject: name of its folder, such as `kernels`.
        needs: parameters of which at least one must be given.
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
        """Whether the analysis needs values for parameters."""
        return bool(self.needs) or any(param.is_required for param in self.params)

    def empty_table(self, place: str = "") -> str:
        """Return SQL that creates the empty table, under its own name or another."""
        columns = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        return f"CREATE TABLE IF NOT EXISTS {place or self.name} ({columns})"
