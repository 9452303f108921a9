"""Write a result to stdout."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.errors import StoreError
from tracekit.render import renderer

if TYPE_CHECKING:
    from tracekit.analysis.result import Result


def emit(
    data: Result | Mapping[str, Result],
    format_name: str,
    *,
    full: bool = False,
    units: bool = True,
) -> None:
    """Render data to stdout.

    Args:
        data: one result, or a breakdown (analysis name to result).
        format_name: one of `tracekit.render.formats()`.
        full: show every row of a breakdown.
        units: show ns and bytes in readable units where the format is for people.

    Raises:
        StoreError: stdout cannot take it, for example on a full disk.
    """
    try:
        renderer(format_name)(data, sys.stdout, full=full, units=units)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"stdout: {error.strerror or error}") from error
