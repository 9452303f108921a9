"""JSON for programs: all rows in exact base units, one row per line.

A query is a list of objects; a breakdown is an object with such a list per analysis. Python's
encoder is not enough for rows: it writes NaN, which is not JSON, and cannot write a DECIMAL as a
number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TextIO

from tracekit.analysis.result import Result
from tracekit.render._text import is_unsafe


def render(data: Result | Mapping[str, Result], stream: TextIO, **_: bool) -> None:
    """Write a result or a breakdown as JSON."""
    # Other encodings than UTF cannot represent all characters, so escape non-ASCII ones.
    ascii_only = not (stream.encoding or "utf-8").lower().replace("_", "-").startswith("utf")
    if not isinstance(data, Mapping):
        _rows(data, stream, ascii_only)
        stream.write("\n")
        return
    stream.write("{")
    for position, (name, result) in enumerate(data.items()):
        stream.write(",\n" if position else "\n")
        stream.write(f"{json_text(name, ascii_only=ascii_only)}: ")
        _rows(result, stream, ascii_only)
    stream.write("\n}\n" if data else "}\n")


def _rows(result: Result, stream: TextIO, ascii_only: bool) -> None:
    keys = [json_text(name, ascii_only=ascii_only) for name in result.column_names]
    stream.write("[")
    is_empty = True
    for position, row in enumerate(result.rows):
        is_empty = False
        members = (
            f"{key}: {json_text(value, ascii_only=ascii_only)}"
            for key, value in zip(keys, row, strict=True)
        )
        stream.write(",\n " if position else "\n ")
        stream.write("{" + ", ".join(members) + "}")
    stream.write("]" if is_empty else "\n]")


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """Return a value of a result as JSON.

    Integers and decimals keep all digits, NaN and infinities become null, timestamps are ISO 8601
    text, blobs are hexadecimal text, and other types are converted to text. Control and
    bidirectional characters are escaped, so the output is also safe on a terminal.

    Args:
        value: a cell: None, bool, int, float, Decimal, str, bytes, date and time types, list, dict,
            …
        ascii_only: escape everything outside ASCII.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "null"
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else "null"
    if isinstance(value, Mapping):
        members = (
            f"{_string(_key(key), ascii_only)}: {json_text(item, ascii_only=ascii_only)}"
            for key, item in value.items()
        )
        return "{" + ", ".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(json_text(item, ascii_only=ascii_only) for item in value) + "]"
    return _string(_scalar(value), ascii_only)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else json_text(key)


def _scalar(value: Any) -> str:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)


def _string(text: str, ascii_only: bool) -> str:
    encoded = json.dumps(text, ensure_ascii=ascii_only)
    if encoded.isascii() and "\x7f" not in encoded:
        return encoded
    return "".join(
        _escaped(character) if is_unsafe(character) else character for character in encoded
    )


def _escaped(character: str) -> str:
    if character == "\x7f":
        return "\\u007f"
    return json.dumps(character, ensure_ascii=True)[1:-1]
