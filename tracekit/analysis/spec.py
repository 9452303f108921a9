"""What the header of a SQL file says, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["analysis", "view", "table", "macro"]
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
class Reduced:
    """An analysis whose rows another one reduces, with the parameters that it is asked with.

    The rows are a table of its name with ``_rows`` behind it. A value ``$name`` is that of the
    parameter `name` of the analysis that reduces.
    """

    analysis: str
    params: tuple[tuple[str, str], ...] = ()

    @property
    def table(self) -> str:
        """The name of the table that holds the rows."""
        return f"{self.analysis}_rows"


@dataclass(frozen=True, slots=True)
class Spec:
    """One SQL file: an analysis, a view, a derived table or a macro file.

    `question` is the first line of the header, `description` the rest of its first paragraph. Only
    an analysis has a `scope`, and only one of scope `run` has analyses that it `reduces`.
    `keep` are the columns that a screen too narrow for all keeps longest, the most telling first.
    `invariants` are SQL conditions over the columns that hold for every row. `sql` is the whole
    text of the file, header included. `subject` is the folder that it lies in, as `kernels`. A
    private file helps others, and may change with any version. Of the parameters in `needs`, one at
    least has to be given.
    """

    name: str
    path: str
    question: str
    description: str
    kind: Kind
    scope: Scope | None
    requires: tuple[str, ...]
    params: tuple[Param, ...]
    columns: tuple[ColumnSpec, ...]
    invariants: tuple[str, ...]
    notes: tuple[str, ...]
    sql: str
    subject: str = ""
    is_private: bool = False
    needs: tuple[str, ...] = ()
    reduces: tuple[Reduced, ...] = ()
    keep: tuple[str, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the declared columns, in order."""
        return tuple(column.name for column in self.columns)
