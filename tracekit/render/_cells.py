"""The cells of a result as text for people: unit in the header, nothing untrusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracekit.render._json_text import json_text
from tracekit.render._text import printable
from tracekit.units import (
    NS_PER_MS,
    format_pct,
    format_scaled,
    ms_decimals,
    size_step,
    stem_of,
    unit_of,
)

if TYPE_CHECKING:
    from tracekit.analysis.result import Column, Result

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column as text; numbers are set to the right and never shortened."""

    header: str
    cells: list[str]
    is_number: bool


def text_columns(result: Result, *, units: bool) -> list[TextColumn]:
    """Return the columns of a result as text.

    Args:
        result: the rows.
        units: turn `_ns` into ms, `_bytes` into the size unit that suits the column, `_pct` into %,
            and say so in the header. Without it every value is shown as it is.
    """
    return [
        _column(column, [row[index] for row in result.rows], units)
        for index, column in enumerate(result.columns)
    ]


def _column(column: Column, values: Sequence[Any], units: bool) -> TextColumn:
    numbers = [value for value in values if _is_number(value)]
    is_number = _is_numeric(column.type)
    if not (units and is_number):
        return TextColumn(
            printable(column.name), [plain_text(value) for value in values], is_number
        )
    header, number_text = _number_format(column.name, numbers)
    cells = [number_text(value) if _is_number(value) else NOTHING for value in values]
    return TextColumn(printable(header), cells, True)


def _number_format(name: str, numbers: Sequence[Any]) -> tuple[str, Callable[[Any], str]]:
    """Return the header and the number format that the unit of a column asks for."""
    unit, stem = unit_of(name), stem_of(name)
    largest = max((abs(number) for number in numbers), default=0)
    if unit == "ns":
        decimals = ms_decimals(numbers)
        return f"{stem} ms".strip(), lambda value: format_scaled(value, NS_PER_MS, decimals)
    if unit in ("bytes", "bytes_per_s"):
        factor, size = size_step(largest)
        decimals = 0 if factor == 1 else 3
        suffix = "/s" if unit == "bytes_per_s" else ""
        return (
            f"{stem} {size}{suffix}".strip(),
            lambda value: format_scaled(value, factor, decimals),
        )
    if unit == "pct":
        return f"{stem} %".strip(), format_pct
    if unit in ("count", "per_s"):
        return name, _grouped
    return name, _rounded


def plain_text(value: Any) -> str:
    """Return one value as it is, printable, NULL as a dash."""
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
