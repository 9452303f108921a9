"""JSON for programs: all rows in exact base units, one row per line.

A query is a list of objects; a breakdown is an object with such a list per analysis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from tracekit.analysis.result import Result
from tracekit.render._json_text import json_text


def render(data: Result | Mapping[str, Result], stream: TextIO, **_: bool) -> None:
    """Write a result or a breakdown as JSON."""
    # Encodings other than UTF cannot represent all characters, so escape characters outside ASCII.
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
