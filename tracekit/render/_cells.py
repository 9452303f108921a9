"""Formats the cells of a result as safe text, with the unit in the column header."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

from tracekit.analysis.result import Column, Result
from tracekit.render._text import cell_width, printable
from tracekit.render.json import json_text
from tracekit.units import (
    NS_PER_MS,
    Unit,
    format_duration,
    format_least,
    format_pct,
    format_scaled,
    ms_decimals,
    scale_step,
    short_decimals,
    stem_of,
    unit_of,
)

NOTHING = "–"


_DECIMALS = 3
_SMALLEST = 100
"""Minimum ratio of a column's smallest nonzero value to its last displayed decimal, for a common
unit. Below, each cell has its own unit."""


class TextColumn(Struct, frozen=True, dict=True):
    """One column as text. Numbers are right-aligned and never truncated.

    `source` is the name of the column; `name` is the name without the unit suffix.
    """

    source: str
    name: str
    cells: list[str]
    is_number: bool
    unit: str = ""

    @property
    def header(self) -> str:
        """The header: name and unit."""
        return f"{self.name} {self.unit}".strip()

    @cached_property
    def width(self) -> int:
        """The width of the widest cell, in terminal cells."""
        return max(map(cell_width, self.cells), default=0)

    def labeled(self, cell: str) -> str:
        """Return a cell as text with the name and unit of its column."""
        return f"{self.name or self.source} {cell} {self.unit}".strip()


def text_columns(result: Result, *, units: bool) -> list[TextColumn]:
    """Return the columns of a result as text.

    Args:
        result: the rows.
        units: scale numbers by the unit suffix of their column, and show the unit in the header. If
            the numbers of a column differ too much for a common unit, each cell has its own unit. A
            column `value` next to a column `unit` is shown in these units, without the column
            `unit`. False shows every value unscaled.
    """
    names = result.column_names
    columns = [[row[index] for row in result.rows] for index in range(len(names))]
    shown = [
        _column(column, values, units)
        for column, values in zip(result.columns, columns, strict=True)
    ]
    if units and {"value", "unit"} <= set(names):
        value, unit = names.index("value"), names.index("unit")
        pairs = zip(columns[value], columns[unit], strict=True)
        shown[value] = TextColumn("value", "value", [_of_unit(*pair) for pair in pairs], True)
        del shown[unit]
    return shown


def _column(column: Column, values: Sequence[Any], units: bool) -> TextColumn:
    numbers = [value for value in values if _is_number(value)]
    is_number = _is_numeric(column.type)
    if not (units and is_number):
        if units and column.name == "file":
            values = _from_here(values)
        cells = [
            ", ".join(map(plain_text, value)) or NOTHING
            if units and isinstance(value, (list, tuple))
            else plain_text(value)
            for value in values
        ]
        return TextColumn(column.name, printable(column.name), cells, is_number)
    name, unit, number_text = _number_format(column.name, numbers, ms_decimals)
    cells = [number_text(value) if _is_number(value) else NOTHING for value in values]
    return TextColumn(column.name, printable(name), cells, True, unit)


def _from_here(files: Sequence[Any]) -> list[Any]:
    """Return file names, relative to the current folder if they are in it."""
    try:
        here = f"{Path.cwd()}{os.sep}"
    except OSError:
        return list(files)
    return [file.removeprefix(here) if isinstance(file, str) else file for file in files]


def figure_column(
    name: str, values: Sequence[Any], title: str, alike: Sequence[Any] | None = None
) -> TextColumn:
    """Return a column of a section, with one unit and about three significant digits.

    `alike` are the numbers that share decimals; the default is `values`.
    """
    numbers = [value for value in (values if alike is None else alike) if _is_number(value)]
    _, unit, number_text = _number_format(name, numbers, short_decimals)
    cells = [number_text(value) if _is_number(value) else plain_text(value) for value in values]
    is_number = all(value is None or _is_number(value) for value in values)
    # Some titles contain the unit: `% of window`.
    return TextColumn(name, title, cells, is_number, "" if "%" in title or not numbers else unit)


def _number_format(
    name: str, numbers: Sequence[Any], decimals_of: Callable[[Sequence[Any]], int]
) -> tuple[str, str, Callable[[Any], str]]:
    """Return the displayed name, unit, and number format of a column."""
    unit, stem = unit_of(name), stem_of(name)
    if unit is None:
        return name, "", _rounded
    if unit == "ns":
        decimals = decimals_of(numbers)
        if decimals_of is short_decimals:
            return stem, "ms", lambda value: format_least(value, decimals)
        return stem, "ms", lambda value: format_scaled(value, NS_PER_MS, decimals)
    if unit == "pct":
        return stem, "%", format_pct
    sizes = [abs(number) for number in numbers if number]
    step = scale_step(unit, max(sizes, default=0))
    if step is None:
        return name, "", _grouped
    factor, shown = step
    if factor > 1 and decimals_of is short_decimals:
        lower_factor, lower = scale_step(unit, max(sizes) / 1000) or step
        if lower_factor <= min(sizes) < factor / 10 and max(sizes) < 100 * factor:
            factor, shown = lower_factor, lower
        is_short = max(sizes) >= 10 * factor and not factor / 100 <= min(sizes) < factor / 10
        decimals = 0 if factor == 1 else 1 if is_short else 2
        return stem, shown, lambda value: format_least(value, decimals, factor)
    decimals = 0 if factor == 1 else _DECIMALS
    if sizes and min(sizes) * 10**decimals < _SMALLEST * factor and factor > 1:
        return stem or name, "", lambda value: _scaled(unit, value)
    return stem, shown, lambda value: format_scaled(value, factor, decimals)


def _scaled(unit: Unit, value: Any) -> str:
    """Return an amount with its own unit; 0 has none."""
    if not value:
        return "0"
    factor, name = scale_step(unit, value) or (1, "")
    return f"{format_scaled(value, factor, 0 if factor == 1 else _DECIMALS)} {name}".strip()


def _of_unit(value: Any, unit: Any) -> str:
    """Return a value in the unit that another column names."""
    if not _is_number(value):
        return plain_text(value)
    if unit == "ns":
        return format_duration(value)
    if unit == "pct":
        return f"{format_pct(value)} %"
    if unit == "bytes":
        return _scaled("bytes", value)
    return _grouped(int(value) if float(value).is_integer() else value)


def plain_text(value: Any) -> str:
    """Return one value as printable text, or a dash for NULL."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list, tuple)):
        return json_text(value)
    if isinstance(value, bytes):
        return value.hex()
    return printable(str(value))


def _rounded(value: int | float | Decimal) -> str:
    if not isinstance(value, float):
        return str(value)
    return str(int(value)) if value.is_integer() else f"{value:.6g}"


def _grouped(value: int | float | Decimal) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def _is_numeric(type_name: str) -> bool:
    return type_name.startswith("DECIMAL") or type_name in {
        "BIGINT",
        "DOUBLE",
        "FLOAT",
        "HUGEINT",
        "INTEGER",
        "SMALLINT",
        "TINYINT",
        "UBIGINT",
        "UHUGEINT",
        "UINTEGER",
        "USMALLINT",
        "UTINYINT",
    }
