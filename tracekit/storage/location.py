"""Common interface of local paths and URLs.

Both behave like a local file system: failures raise an `OSError` whose `filename` is the location
without secrets and whose `strerror` is the reason. Names shared with `pathlib.Path` have the same
meaning.
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
"""Maximum size of files other than traces, such as `run.json`. Parsed content takes up to twenty
times the memory of the text."""


class Location(ABC):
    """A file or folder, which may not exist. Create one with :meth:`of`.

    A location has no connection and can be pickled; locations of the same path or URL are equal.
    ``str()``, ``repr()``, and errors show a URL without secrets.
    """

    __slots__ = ()

    @staticmethod
    def of(given: str | Path | Location) -> Location:
        from tracekit.storage.local import LocalLocation

        if isinstance(given, Location):
            return given
        if isinstance(given, str):
            if is_url(given):
                # Imported only for URLs, because the import is as slow as a small command.
                from tracekit.storage.remote import RemoteLocation

                return RemoteLocation.parse(given)
            given = Path(local_part(given))
        return LocalLocation(given)

    # Names

    @property
    @abstractmethod
    def shown(self) -> str:
        """The path, or the URL without user, password, query, and signature."""

    @property
    def has_query(self) -> bool:
        return False

    @property
    def local_path(self) -> Path | None:
        """The local path; None for a URL."""
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of the path."""

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    @property
    @abstractmethod
    def parent(self) -> Location:
        """The parent folder, without the query of a URL."""

    @abstractmethod
    def join(self, *names: str) -> Location:
        """Return the location below this folder with these names, which may contain slashes."""

    def __truediv__(self, name: str) -> Location:
        return self.join(name)

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"Location({self.shown!r})"

    # Existence and content

    @abstractmethod
    def exists(self) -> bool:
        """Return whether a file or folder exists. The result is not cached."""

    @abstractmethod
    def is_file(self) -> bool:
        """Return whether the location is a file."""

    @abstractmethod
    def is_dir(self) -> bool:
        """Return whether the location is a folder; in an object store, whether it has objects.

        On a web server, the URL of a folder ends in a slash.
        """

    @abstractmethod
    def size_bytes(self) -> int | None:
        """Return the size of the file in bytes, or None if a web server does not report it.

        A size that is known from a listing is not requested again.
        """

    @abstractmethod
    def identity(self) -> str | None:
        """Return a value that changes whenever the content of the file does; None if unknown.

        It consists of the size and etag of an object, or of the size, inode, and times of a local
        file. A value that is known from a listing is not requested again.
        """

    @abstractmethod
    def holds(self, name: str) -> bool:
        """Return whether this folder directly contains a file of this name.

        For URLs, results are cached: all names in the folder of an object store, or each name on a
        web server. An HTML page is not treated as a file.
        """

    @abstractmethod
    def entries(self) -> list[Location]:
        """Return the files and folders directly in this folder, in natural order.

        The list is empty if the folder does not exist. The sizes and identities of the files are
        known from the listing.
        """

    @abstractmethod
    def glob(self) -> list[Location]:
        """Return the matches of this location as a pattern, in natural order.

        ``*``, ``?``, and ``[…]`` match parts of a name; ``**`` matches any number of folders.
        """

    # Reading

    @abstractmethod
    def open(self, start: int = 0) -> BinaryIO:
        """Open the file for reading once from front to back.

        A file at a URL is read in one response, which is resumed with a range request after a
        failure. If such a file changes while it is read, an error is raised. A few blocks are in
        memory, and nothing is written to disk.
        """

    @abstractmethod
    def read_range(self, start: int, end: int) -> bytes:
        """Return the bytes from offset `start` up to `end`, or fewer if the file ends earlier."""

    def read_exactly(self, start: int, end: int) -> bytes:
        """Return the bytes from offset `start` up to `end`; raise if the file ends earlier."""
        piece = self.read_range(start, end)
        if len(piece) != max(0, end - start):
            raise OSError(errno.EIO, "unexpected end of file", self.shown)
        return piece

    def read_bytes(self, most_bytes: int = SMALL_FILE_BYTES) -> bytes:
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
        """Write or replace a file atomically; create its folders."""

    @abstractmethod
    def write_new(self, data: bytes) -> None:
        """Create a file, or raise FileExistsError. Of several concurrent writers, one succeeds.

        In an object store, the response to an earlier attempt may be lost, so an existing file with
        the same bytes counts as success. Concurrent writers must therefore write different bytes.
        """

    @abstractmethod
    def upload(self, source: Path) -> None:
        """Write or replace a file with the content of a local file, in parts if it is large."""

    @abstractmethod
    def delete(self) -> None:
        """Remove the file, if it exists."""

    @abstractmethod
    def delete_tree(self) -> None:
        """Remove the folder with its content, if it exists."""


def natural(text: str) -> tuple[tuple[object, ...], ...]:
    """Return the sort key for natural order, which puts rank10 after rank9 in every path part."""
    return tuple(
        # Digits are at every second position, so text and numbers are never compared.
        tuple(
            # Python converts at most 4,300 digits.
            int(piece[:1000]) if place % 2 else piece
            for place, piece in enumerate(re.split(r"(\d+)", part))
        )
        for part in text.split("/")
    )


Place: TypeAlias = Path | Location
"""A local path or a URL location; both have name, parent, ``/``, and is_file()."""


def place_of(given: str | Place) -> Place:
    """Return a local path as `Path`, and a URL as its location."""
    location = Location.of(given)
    return location.local_path or location


def contains_file(folder: Place, name: str) -> bool:
    """Return whether a folder directly contains a file of a name.

    For URLs, the result is cached, and False if access to the folder is denied: it may differ from
    access to a file.
    """
    if isinstance(folder, Path):
        return (folder / name).is_file()
    try:
        return folder.holds(name)
    except PermissionError:
        return False
