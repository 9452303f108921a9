"""A place where bytes lie: a path of this machine, or a URL.

Both are asked in the same words, and answer as a disk does: what fails raises an `OSError` whose
`filename` is how the place may be shown and whose `strerror` is the reason. Where the names are
those of `pathlib.Path`, they mean the same.
"""

from __future__ import annotations

import errno
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import BinaryIO, TypeAlias

from tracekit.storage.url import is_url, local_part
from tracekit.units import MB

SMALL_FILE_BYTES = 32 * MB
"""Maximum size of files other than traces, such as `run.json`: the text is kept in memory, and the
parsed content takes up to twenty times as much."""


class Location(ABC):
    """One place: a file, a folder, or what does not exist yet. Make one with :meth:`of`.

    It holds no connection, can be pickled and taken to another process, and two of the same place
    are equal. ``str()``, ``repr()`` and every error show a URL without its secrets.
    """

    __slots__ = ()

    @staticmethod
    def of(given: str | Path | Location) -> Location:
        """Return the location that a path or a URL means.

        Args:
            given: a path, a ``file://`` URL, or a URL of ``s3://``, ``gs://``, ``az://``,
                ``abfs://`` or ``https://``; a location is returned as it is.

        Raises:
            UsageError: a URL of a kind that is not read, or with credentials where those are not
                looked for.
        """
        from tracekit.storage.local import LocalLocation

        if isinstance(given, Location):
            return given
        if isinstance(given, str):
            if is_url(given):
                # Loaded for URLs alone: it takes as long as the rest of a small command.
                from tracekit.storage.remote import RemoteLocation

                return RemoteLocation.parse(given)
            given = Path(local_part(given))
        return LocalLocation(given)

    # What it is called

    @property
    @abstractmethod
    def shown(self) -> str:
        """The path, or the URL without user, password, query and signature."""

    @property
    def is_remote(self) -> bool:
        """Whether it lies behind a URL."""
        return self.local_path is None

    @property
    def has_query(self) -> bool:
        """Whether it is a URL with a query, such as a signature, which holds for it alone."""
        return False

    @property
    def local_path(self) -> Path | None:
        """The path of this machine; None of a URL."""
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of the path."""

    @property
    def suffix(self) -> str:
        """What the name ends in, with its dot: ``.gz``; empty if there is none."""
        return Path(self.name).suffix

    @property
    @abstractmethod
    def parent(self) -> Location:
        """The folder that it lies in. The query of a URL is not taken along."""

    @abstractmethod
    def join(self, *names: str) -> Location:
        """Return what lies below this folder under names, which may hold slashes."""

    def __truediv__(self, name: str) -> Location:
        return self.join(name)

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"Location({self.shown!r})"

    # What is there

    @abstractmethod
    def exists(self) -> bool:
        """Tell whether there is a file or a folder; asks again each time."""

    @abstractmethod
    def is_file(self) -> bool:
        """Tell whether there is a file."""

    @abstractmethod
    def is_dir(self) -> bool:
        """Tell whether it is a folder: in a store, whether anything lies below it.

        A folder of a web server is known by the slash at the end of its URL.
        """

    @abstractmethod
    def size_bytes(self) -> int | None:
        """Return the size of the file, bytes; None where a web server does not say.

        What came with a listing is not asked for again.
        """

    @abstractmethod
    def identity(self) -> str | None:
        """Return what changes whenever the content of the file does; None if nothing is known.

        Of an object it is its size and the store's own tag (etag), of a local file its size, inode
        and times. What came with a listing is not asked for again.
        """

    @abstractmethod
    def holds(self, name: str) -> bool:
        """Tell whether a file of this name lies directly in this folder.

        Behind a URL it is asked once for as long as this object lives: a store for the whole
        folder, a web server for each name, where a page of HTML is no such file.
        """

    @abstractmethod
    def entries(self) -> list[Location]:
        """Return what lies directly in this folder, files and folders, in natural order.

        Empty where there is no such folder. What is listed knows its size and identity.
        """

    @abstractmethod
    def files(self) -> list[Location]:
        """Return every file at any depth below this folder, in natural order.

        Of a store, that is one listing for each thousand files, however many folders there are.
        """

    @abstractmethod
    def glob(self) -> list[Location]:
        """Return what this location means as a pattern, in natural order; empty if nothing.

        ``*``, ``?`` and ``[…]`` stand for parts of a name, ``**`` for any number of folders.
        """

    # Reading

    @abstractmethod
    def open(self, start: int = 0) -> BinaryIO:
        """Open the file for reading once from front to back.

        From a store it comes in ranges, some ahead; from a web server in one response, which is
        taken up again by a range request where it breaks. A few blocks are in memory, whatever the
        size, and nothing on disk. What changed while being read is an error.
        """

    @abstractmethod
    def read_range(self, start: int, end: int) -> bytes:
        """Return the bytes from offset `start` to before `end`, fewer where the file ends first."""

    def read_exactly(self, start: int, end: int) -> bytes:
        """Return the bytes from offset `start` to before `end`; an error if it ends before."""
        piece = self.read_range(start, end)
        if len(piece) != max(0, end - start):
            raise OSError(errno.EIO, "unexpected end of file", self.shown)
        return piece

    def read_bytes(self, most_bytes: int = SMALL_FILE_BYTES) -> bytes:
        """Return the whole content of a small file."""
        with self.open() as file:
            data = file.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise self._too_long(most_bytes)
        return data

    def _too_long(self, most_bytes: int) -> OSError:
        reason = f"longer than {most_bytes:,} bytes, the limit for such a file"
        return OSError(errno.EFBIG, reason, self.shown)

    # Writing; a web server is read-only

    @abstractmethod
    def write_bytes(self, data: bytes) -> None:
        """Write a file, in place of one that is there; whole or not at all. Folders are made."""

    @abstractmethod
    def write_new(self, data: bytes) -> None:
        """Write a file, only if none is there: of several writers at once, one succeeds.

        In a store, a file that is there with these very bytes counts as written by this call, as an
        answer may have been lost: what shall tell two writers apart must differ.

        Raises:
            FileExistsError: there is one.
        """

    @abstractmethod
    def upload(self, source: Path) -> None:
        """Write what a local file holds, in place of a file that is there; in parts if large."""

    @abstractmethod
    def delete(self) -> None:
        """Remove the file; nothing happens if there is none."""

    @abstractmethod
    def delete_tree(self) -> None:
        """Remove the folder with all that lies below it; nothing happens if there is none."""


def natural(text: str) -> tuple[tuple[object, ...], ...]:
    """Sort rank10 after rank9, in every folder of a path."""
    return tuple(
        # What was split off is in every second place, so text never meets a number.
        tuple(
            # Python reads no more than 4,300 digits.
            int(piece[:1000]) if place % 2 else piece
            for place, piece in enumerate(re.split(r"(\d+)", part))
        )
        for part in text.split("/")
    )


Place: TypeAlias = Path | Location
"""A path of this machine, or a location behind a URL; both know name, parent, ``/``, is_file()."""


def place_of(given: str | Place) -> Place:
    """Return a local path as `Path`, and a URL as its location."""
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
