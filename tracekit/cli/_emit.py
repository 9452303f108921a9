"""Writes results to stdout."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

import click

from tracekit.errors import StoreError
from tracekit.render import renderer

if TYPE_CHECKING:
    from tracekit.analysis.result import Result, RowStream


MAX_ROWS = 1_000
"""Default maximum number of rows of a statement in a text table."""

STREAMED = frozenset({"csv", "csv_plain", "json"})
"""Formats that are written row by row."""


def emit_stream(
    stream: RowStream, format_name: str, limit: int | None, *, wide: bool = False
) -> None:
    """Write the rows of a statement to stdout, and a note on stderr if rows are omitted.

    Without a limit, text tables show :data:`MAX_ROWS` rows, and other formats all rows.
    """
    from tracekit.analysis.result import RowStream

    if format_name == "brief":
        from tracekit.render.brief import render_stream

        # This format writes the number of rows itself.
        render_stream(stream, sys.stdout, limit, wide=wide)
        return
    if format_name not in STREAMED:
        result, is_more = stream.first(limit or MAX_ROWS)
        emit(result, format_name, units=False, wide=wide)
    else:
        rows = iter(stream.rows)
        shown = rows if limit is None else islice(rows, limit)
        part = RowStream(stream.name, stream.columns, shown)
        emit(part, format_name, units=False)  # type: ignore[arg-type]
        is_more = limit is not None and next(rows, None) is not None
    if is_more:
        click.echo(f"only the first {limit or MAX_ROWS:,} rows are shown (--limit)", err=True)


def emit(
    data: Result | Mapping[str, Result],
    format_name: str,
    *,
    full: bool = False,
    units: bool = True,
    wide: bool = False,
) -> None:
    """Write results to stdout."""
    try:
        renderer(format_name)(data, sys.stdout, full=full, units=units, wide=wide)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"stdout: {error.strerror or error}") from error
