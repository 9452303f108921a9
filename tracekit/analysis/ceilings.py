"""Where ceilings measured on devices are looked for, and how they come to the SQL of a trace.

Only the first place that has any for a device is used:

1. what the user gave (`--ceilings`), instead of all others;
2. `benchmarks.jsonl` in the run folder of the trace;
3. what is remembered in the cache, by the name of the device.

Most of the time there is nothing in any of them. So what reads, reduces and matches measurements is
loaded only where there is something.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis.session_tables import DEVICE_CEILING, lay_table
from tracekit.database import ceilings_dir
from tracekit.errors import UsageError
from tracekit.storage import Place, lies_in

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.bench_points import Point
    from tracekit.analysis.ceiling_rates import Ceiling

GIVEN = "given"
RUN_FOLDER = "run folder"
CACHE = "cache"

BENCHMARKS_NAME = "benchmarks.jsonl"
"""The file in a run folder that holds what was measured."""

_log = logging.getLogger("tracekit")


class Sources:
    """Where ceilings are looked for.

    Args:
        given: what the user named: a run folder, its `benchmarks.jsonl`, a file of the cache.
        folders: the run folders of the traces.

    Raises:
        UsageError: what was given cannot be read, or nothing was measured in it.
    """

    def __init__(self, given: Path | None = None, folders: Sequence[Place] = ()) -> None:
        self._folders = tuple(folders)
        self._in_folders: list[Ceiling] | None = None
        self._recalled: dict[str, list[Ceiling]] = {}
        self._given: list[Ceiling] | None = None
        if given is not None:
            from tracekit.analysis.bench_points import read_points
            from tracekit.analysis.ceiling_rates import ceilings_of

            found = read_points(given)
            if found.unreadable_count:
                _log.warning(
                    "%s: %s no measured points and left out",
                    given,
                    "1 line is"
                    if found.unreadable_count == 1
                    else f"{found.unreadable_count} lines are",
                )
            self._given = ceilings_of(found.points)
            if not self._given:
                raise UsageError(
                    f"{given}: nothing that was measured in it is a ceiling",
                    hint="products, copies and collectives are, if they succeeded",
                )

    def are_empty(self) -> bool:
        """Whether there is nothing in any of them, for no device."""
        return (
            self._given is None
            and not any(_result_in(folder) for folder in self._folders)
            and not (ceilings_dir().is_dir() and any(ceilings_dir().glob("*.json")))
        )

    def of(self, name: str | None) -> Iterator[tuple[str, list[Ceiling]]]:
        """Yield what there is for a device of a name: where it is from, and the ceilings."""
        if self._given is not None:
            yield GIVEN, self._given
            return
        from tracekit.analysis.ceiling_rates import ceilings_of

        if self._in_folders is None:
            self._in_folders = ceilings_of(
                [point for folder in self._folders for point in _in_folder(folder)]
            )
        yield RUN_FOLDER, self._in_folders
        if name is not None:
            if name not in self._recalled:
                self._recalled[name] = ceilings_of(_recalled(name))
            yield CACHE, self._recalled[name]


def _result_in(folder: Place) -> Place | None:
    """Return what was measured in a run, if there is such a file."""
    try:
        return folder / BENCHMARKS_NAME if lies_in(folder, BENCHMARKS_NAME) else None
    except OSError:
        return None


def _in_folder(folder: Place) -> list[Point]:
    from tracekit.analysis.bench_points import read_points

    path = _result_in(folder)
    try:
        return read_points(path).points if path is not None else []
    except UsageError as error:
        _log.warning("%s", error)
        return []


def _recalled(name: str) -> list[Point]:
    from tracekit.analysis.remembered_ceilings import recall

    try:
        return recall(name)
    except UsageError as error:
        _log.warning("%s; the next run of tracekit bench writes it anew", error)
        return []


def lay(connection: duckdb.DuckDBPyConnection, sources: Sources) -> None:
    """Fill table `device_ceiling` for the traces of a store.

    Args:
        connection: to the store; its tables of traces, devices and runs are filled.
        sources: where to look.

    Raises:
        StoreError: the store is damaged.
    """
    rows: list[tuple[object, ...]] = []
    if not sources.are_empty():
        from tracekit.analysis.ceiling_matching import find, places

        rows = [row for place in places(connection) for row in find(place, sources)]
    lay_table(connection, DEVICE_CEILING, rows)


def remember(run: Path) -> list[str]:
    """Keep what a run measured, for all traces of the same devices.

    Of each kind of ceiling the newest run counts; what it did not measure stays as it was.

    Args:
        run: a run folder of `tracekit bench`, or its `benchmarks.jsonl`.

    Returns:
        The names of the devices whose ceilings are kept now; none if nothing was measured that
        could be one.

    Raises:
        UsageError: there is nothing measured, or it cannot be read.
        StoreError: the cache folder cannot be written.
    """
    from tracekit.analysis import remembered_ceilings

    return remembered_ceilings.remember(run)
