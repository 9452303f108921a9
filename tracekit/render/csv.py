"""CSV for programs and spreadsheets: all rows in base units, quoted as in RFC 4180.

Lines end with LF (not CRLF), as in DuckDB and polars.

A query is a table with a header line. The tables of a breakdown have different columns, so a
breakdown is one table with the columns `analysis, row, column, value`.

NULL and NaN are empty. For safety, control characters except newline and tab are escaped. Text that
a spreadsheet would evaluate as a formula (it starts with `=`, `+`, `-`, `@`, or a tab, and is not a
number) gets a leading `'`, except in format csv_plain. JSON has the exact text.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TextIO

from tracekit.analysis.result import Result
from tracekit.render._text import printable
from tracekit.render.json import json_text

_FORMULA_STARTS = ("=", "+", "-", "@", "\t")


def render(
    data: Result | Mapping[str, Result],
    stream: TextIO,
    *,
    keeps_formulas: bool = False,
    **_: bool,
) -> None:
    """Write a result or a breakdown as CSV. ``keeps_formulas`` leaves formulas unchanged."""
    text = _printable if keeps_formulas else _text
    writer = csv.writer(stream, lineterminator="\n")
    if not isinstance(data, Mapping):
        writer.writerow([text(name) for name in data.column_names])
        for row in data.rows:
            writer.writerow([_cell(value, text) for value in row])
        return
    writer.writerow(["analysis", "row", "column", "value"])
    for analysis, result in data.items():
        for number, row in enumerate(result.rows):
            for name, value in zip(result.column_names, row, strict=True):
                writer.writerow([text(analysis), number, text(name), _cell(value, text)])


def _cell(value: Any, text: Callable[[str], str]) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, (Mapping, list, tuple)):
        return json_text(value)
    return text(str(value))


def _printable(text: str) -> str:
    return printable(text, keep="\n\t")


def _text(text: str) -> str:
    shown = _printable(text)
    return "'" + shown if shown.startswith(_FORMULA_STARTS) and not _is_number(shown) else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
