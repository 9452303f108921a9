"""Where ceilings are looked for, and their table; what they are is loaded only if there are any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis.device_peaks import DEVICE_CEILING
from tracekit.analysis.relations import fill_session_table
from tracekit.database import ceilings_dir
from tracekit.storage import Place, lies_in

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.ceilings import Ceiling

GIVEN = "given"
RUN_FOLDER = "run folder"
CACHE = "cache"

BENCHMARKS_NAME = "benchmarks.jsonl"
"""The file in a run folder that holds what was measured."""


class Sources:
    """Where ceilings are looked for.

    Raises:
        UsageError: what was given cannot be read, or nothing was measured in it.
    """

    def __init__(self, given: Path | None = None, folders: Sequence[Place] = ()) -> None:
        self._folders = tuple(folders)
        self._in_folders: list[Ceiling] | None = None
        self._recalled: dict[str, list[Ceiling]] = {}
        self._given: list[Ceiling] | None = None
        if given is not None:
            from tracekit.analysis.ceilings import given_ceilings

            self._given = given_ceilings(given)

    def are_empty(self) -> bool:
        """Whether there is nothing in any of them, for no device."""
        return (
            self._given is None
            and not any(result_in(folder) for folder in self._folders)
            and not (ceilings_dir().is_dir() and any(ceilings_dir().glob("*.json")))
        )

    def of(self, name: str | None) -> Iterator[tuple[str, list[Ceiling]]]:
        """Yield what there is for a device of a name: where it is from, and the ceilings."""
        from tracekit.analysis.ceilings import ceilings_in, recalled_ceilings

        if self._given is not None:
            yield GIVEN, self._given
            return
        if self._in_folders is None:
            self._in_folders = ceilings_in(self._folders)
        yield RUN_FOLDER, self._in_folders
        if name is not None:
            if name not in self._recalled:
                self._recalled[name] = recalled_ceilings(name)
            yield CACHE, self._recalled[name]


def result_in(folder: Place) -> Place | None:
    """Return what was measured in a run, if there is such a file."""
    try:
        return folder / BENCHMARKS_NAME if lies_in(folder, BENCHMARKS_NAME) else None
    except OSError:
        return None


def lay(connection: duckdb.DuckDBPyConnection, sources: Sources) -> None:
    """Fill table `device_ceiling` for the traces of a store.

    Raises:
        StoreError: the store is damaged.
    """
    rows: list[tuple[object, ...]] = []
    if not sources.are_empty():
        from tracekit.analysis.ceilings import find, places

        rows = [row for place in places(connection) for row in find(place, sources)]
    fill_session_table(connection, DEVICE_CEILING, rows)
