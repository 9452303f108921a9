"""Columns and rows that every query returns, without formatting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from tracekit.errors import UsageError

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

# Type names in polars, pyarrow, and pandas; "" if the library infers the type. The last name is for
# columns with NULLs: pandas converts int64 with None to float64, which loses nanoseconds.
_TYPES = {
    "BIGINT": ("Int64", "int64", "int64", "Int64"),
    "BOOLEAN": ("Boolean", "bool_", "bool", "boolean"),
    "DATE": ("Date", "date32", "", ""),
    "DOUBLE": ("Float64", "float64", "float64", "float64"),
    "FLOAT": ("Float32", "float32", "float32", "float32"),
    "HUGEINT": ("Int128", "", "", ""),
    "INTEGER": ("Int32", "int32", "int32", "Int32"),
    "JSON": ("String", "string", "", ""),
    "SMALLINT": ("Int16", "int16", "int16", "Int16"),
    "TIMESTAMP": ("Datetime", "", "", ""),
    "TINYINT": ("Int8", "int8", "int8", "Int8"),
    "UBIGINT": ("UInt64", "uint64", "uint64", "UInt64"),
    "UINTEGER": ("UInt32", "uint32", "uint32", "UInt32"),
    "USMALLINT": ("UInt16", "uint16", "uint16", "UInt16"),
    "UTINYINT": ("UInt8", "uint8", "uint8", "UInt8"),
    "VARCHAR": ("String", "string", "", ""),
}
_NO_TYPES = ("", "", "", "")


class Column(Struct, frozen=True):
    """A column: its name, with the unit as suffix, and its DuckDB type."""

    name: str
    type: str


def columns_of_text(text: str) -> tuple[Column, ...]:
    """Return columns from text as in CREATE TABLE: `run VARCHAR, step_count BIGINT`."""
    return tuple(Column(*one.split()) for one in text.split(","))


class Result(Struct, frozen=True):
    """A table: columns and rows of plain Python values, in the order of the query.

    Integers are exact, NULL is None, and JSON columns are text. Iterate over it to get the rows.

    Attributes:
        keep: columns that narrow screens omit last. The default comes from the analysis with the
        same name.
    """

    name: str
    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]
    keep: tuple[str, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """The unique names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> list[Any]:
        """Return the values of one column.

        Raises:
            UsageError: the column does not exist.
        """
        try:
            index = self.column_names.index(name)
        except ValueError:
            from tracekit.analysis.catalog import name_here

            here = name_here(name, "columns")
            hint = f"in tracekit: {here}. " if here else ""
            raise UsageError(
                f"{self.name} has no column {name!r}",
                hint=f"{hint}its columns: {', '.join(self.column_names)}",
            ) from None
        return [row[index] for row in self.rows]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dict per row, by column name."""
        names = self.column_names
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def to_polars(self) -> pl.DataFrame:
        """Return the result as a polars data frame with the same integer widths.

        Raises:
            UsageError: polars is not installed.
        """
        try:
            import polars as pl
        except ImportError:
            _refuse("polars")
        types = [(column.name, _TYPES.get(column.type, _NO_TYPES)[0]) for column in self.columns]
        schema = {name: getattr(pl, kind) if kind else None for name, kind in types}
        return pl.DataFrame(self.rows, schema=schema, orient="row", infer_schema_length=None)

    def to_pandas(self) -> pd.DataFrame:
        """Return the result as a pandas data frame; integers with NULLs become `Int64`.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            _refuse("pandas")
        frame = {}
        for index, column in enumerate(self.columns):
            values = [row[index] for row in self.rows]
            *_, plain, nullable = _TYPES.get(column.type, _NO_TYPES)
            dtype: Any = (nullable if None in values else plain) or "object"
            frame[column.name] = pd.Series(values, dtype=dtype)
        return pd.DataFrame(frame, columns=list(self.column_names))

    def to_arrow(self) -> pa.Table:
        """Return the result as an Arrow table.

        Raises:
            UsageError: pyarrow is not installed.
        """
        try:
            import pyarrow as pa
        except ImportError:
            _refuse("pyarrow")
        arrays = []
        for index, column in enumerate(self.columns):
            kind = _TYPES.get(column.type, _NO_TYPES)[1]
            values = [row[index] for row in self.rows]
            try:
                arrays.append(pa.array(values, type=getattr(pa, kind)() if kind else None))
            except OverflowError:  # Arrow infers no type for integers beyond 64 bits.
                arrays.append(pa.array(values, type=pa.decimal256(39)))
        return pa.Table.from_arrays(arrays, names=list(self.column_names))

    def _repr_html_(self) -> str:
        """Return the first rows as an HTML table, which notebooks display."""
        from tracekit import result_html

        return result_html(self)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __str__(self) -> str:
        """Return the first rows as the command line shows them."""
        from tracekit import result_text

        return result_text(self)

    def __repr__(self) -> str:
        return f"<Result {self.name}: {len(self.rows)} rows of {', '.join(self.column_names)}>"


def picked(result: Result, names: Iterable[str]) -> Result:
    """Return a result with the given columns, in the given order."""
    places = [result.column_names.index(name) for name in names]
    return replace(
        result,
        columns=tuple(result.columns[place] for place in places),
        rows=[tuple(row[place] for place in places) for row in result.rows],
    )


class ShownAsTable:
    """Base class of objects that are displayed as one line, and in notebooks as an HTML table.

    Attributes:
        shown: columns that notebooks show; all if empty.
    """

    __slots__ = ()
    shown: ClassVar[tuple[str, ...]] = ()

    def as_result(self) -> Result:
        """Return the object as a table."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        result = self.as_result()
        return (picked(result, self.shown) if self.shown else result)._repr_html_()

    def __repr__(self) -> str:
        changes = ", ".join(getattr(self, "changes", ()))
        return f"<{type(self).__name__}: {changes or f'{len(self.as_result())} rows'}>"


class RowStream(Struct, frozen=True):
    """A table whose rows are computed while they are read. It can be read only once."""

    name: str
    columns: tuple[Column, ...]
    rows: Iterator[tuple[Any, ...]]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The distinct names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def first(self, count: int) -> tuple[Result, bool]:
        """Return the first rows as a result, and whether there are more."""
        rows = list(islice(self.rows, count + 1))
        return Result(self.name, self.columns, rows[:count]), len(rows) > count


def _refuse(library: str) -> NoReturn:
    raise UsageError(
        f"{library} is not installed", hint="install it with: pip install '.[frames]'"
    ) from None


def columns_of(connection: duckdb.DuckDBPyConnection) -> tuple[Column, ...]:
    """Return the columns of the open result; repeated names get a number."""
    columns: list[Column] = []
    used_names: set[str] = set()
    for name, type_name, *_ in connection.description or ():
        unique, number = name, 0
        while unique in used_names:
            number += 1
            unique = f"{name}_{number}"
        used_names.add(unique)
        columns.append(Column(unique, str(type_name)))
    return tuple(columns)
