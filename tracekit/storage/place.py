"""Where a source lies, for what knows local paths as `Path` and everything else as `Location`."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from tracekit.storage.location import Location

Place: TypeAlias = Path | Location
"""A path of this machine, or a location behind a URL; both know name, parent, ``/``, is_file()."""


def place_of(given: str | Place) -> Place:
    """Return a local path as `Path`, and a URL as its location.

    Raises:
        UsageError: a URL of a kind that is not read, or with credentials where those are not
            looked for.
    """
    location = Location.of(given)
    return location.local_path or location


def lies_in(folder: Place, name: str) -> bool:
    """Tell whether a file of a name lies directly in a folder.

    Behind a URL the answer is remembered, and no where nothing may be looked at: access to one file
    need not be access to what lies beside it.
    """
    if isinstance(folder, Path):
        return (folder / name).is_file()
    try:
        return folder.holds(name)
    except PermissionError:
        return False


def has_query(place: Place) -> bool:
    """Tell whether a URL has a query, such as a signature, which holds for it alone."""
    return not isinstance(place, Path) and place.has_query
