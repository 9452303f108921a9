"""A URL as a location: an object of a store, or a file of a web server."""

from __future__ import annotations

import errno
import hashlib
import io
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from tracekit.storage import url as urls
from tracekit.storage.failures import BrokenOffError, is_missing
from tracekit.storage.filesystems import filesystem
from tracekit.storage.location import SMALL_FILE_BYTES, Location
from tracekit.storage.patterns import as_regex, has_magic, literal_start, natural
from tracekit.storage.ranges import RangeStream
from tracekit.storage.requests import attempt, deadline, finish
from tracekit.storage.url import WEB, Url
from tracekit.storage.web import WebStream, links, look_at, read_range

T = TypeVar("T")

PART_BYTES = 8 << 20
"""A part of an upload; a store takes ten thousand of them."""

_MOST_PARTS = 9_000
_BUFFER_BYTES = 1 << 20
# What the file systems call it. A listing and a look at one object may give its time differently.
_TAGS = ("ETag", "etag", "generation", "md5Hash", "LastModified", "last_modified", "updated")


class _Info(NamedTuple):
    """What a store or server says of a file or folder."""

    is_folder: bool
    size_bytes: int | None
    identity: str | None
    is_page: bool = False


def _info(said: Mapping[str, Any]) -> _Info:
    tag = next((str(said[name]).strip('"') for name in _TAGS if said.get(name)), None)
    size = said.get("size")
    return _Info(
        said["type"] == "directory",
        None if size is None else int(size),
        None if tag is None else f"{size} {tag}",
        str(said.get("mimetype")).startswith("text/html"),
    )


_FOLDER = _Info(True, None, None)


class RemoteLocation(Location):
    """A file or folder behind a URL."""

    __slots__ = ("_held", "_info", "_is_listed", "_url")

    def __init__(self, url: Url, info: _Info | None = None) -> None:
        self._url = url
        self._info = info
        self._is_listed = info is not None
        self._held: dict[str, bool] | None = None

    @classmethod
    def parse(cls, text: str) -> RemoteLocation:
        """Return the location of a URL.

        Raises:
            UsageError: see :meth:`Location.of`.
        """
        return cls(urls.parse(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteLocation) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    @property
    def shown(self) -> str:
        return self._url.shown

    @property
    def url(self) -> str:
        """The whole URL, secrets included: to open it, never to show or keep it."""
        return self._url.text

    @property
    def has_query(self) -> bool:
        return bool(self._url.query)

    @property
    def name(self) -> str:
        return self._url.key.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> RemoteLocation:
        folder, slash, _ = self._url.key.rstrip("/").rpartition("/")
        if self._is_web:
            folder += slash
        return RemoteLocation(self._url._replace(key=folder, query=""))

    def join(self, *names: str) -> RemoteLocation:
        parts = [self._url.key.rstrip("/"), *(name.strip("/") for name in names)]
        key = "/".join(part for part in parts if part)
        return RemoteLocation(self._url._replace(key=key, query=""))

    @property
    def _is_web(self) -> bool:
        return self._url.scheme in WEB

    @property
    def _path(self) -> str:
        """What the file system of fsspec calls it."""
        return cast(str, self._fs._strip_protocol(self._url.text))

    @property
    def _fs(self) -> Any:
        return filesystem(self._url)

    def _attempt(self, request: Callable[[Any], T]) -> T:
        return attempt(lambda: request(self._fs), self._url)

    # What is there

    def _ask(self) -> _Info | None:
        """Ask what is there now: None if there is nothing."""

        def ask(fs: Any) -> _Info | None:
            try:
                return _info(look_at(fs, self._url) if self._is_web else fs.info(self._path))
            except Exception as error:
                if is_missing(error):
                    return None
                raise

        return self._attempt(ask)

    def _known(self) -> _Info:
        """Return what is known of the file, or ask.

        Raises:
            FileNotFoundError: there is no file.
        """
        if self._info is None or self._info.size_bytes is None:
            self._info = self._ask()
        if self._info is None or self._info.is_folder:
            raise FileNotFoundError(errno.ENOENT, "no such file", self.shown)
        return self._info

    def _now(self) -> _Info | None:
        if not self._is_listed:
            self._info = self._ask()
        return self._info

    def exists(self) -> bool:
        return self._ask() is not None

    def is_file(self) -> bool:
        if self._is_web and self.is_dir():
            return False
        info = self._now()
        return info is not None and not info.is_folder

    def is_dir(self) -> bool:
        if self._is_web:
            return not self._url.key or self._url.key.endswith("/")
        info = self._now()
        return info is not None and info.is_folder

    def holds(self, name: str) -> bool:
        if self._is_web:
            held = self._held = self._held or {}
            if name not in held:
                held[name] = bool(self.name or self.is_dir()) and self._is_there(name)
            return held[name]
        if self._held is None:
            self._held = {place.name: place.is_file() for place in self.entries()}
        return self._held.get(name, False)

    def _is_there(self, name: str) -> bool:
        info = self.join(name)._ask()
        return info is not None and not info.is_page

    def size_bytes(self) -> int | None:
        return self._known().size_bytes

    def identity(self) -> str | None:
        identity, meaning = self._known().identity, urls.meaning_of(self._url.query)
        if identity is None or not meaning:
            return identity
        # The query may choose among files, whose tags need not differ.
        return f"{identity} {hashlib.sha256(meaning.encode()).hexdigest()}"

    def entries(self) -> list[Location]:
        def ask(fs: Any) -> list[Mapping[str, Any]]:
            fs.invalidate_cache()
            try:
                if self._is_web:
                    return links(fs, self._url)
                return cast(list[Mapping[str, Any]], fs.ls(self._path, detail=True))
            except Exception as error:
                if is_missing(error):
                    return []
                raise

        return self._sorted([self._listed(info) for info in self._attempt(ask)])

    def files(self) -> list[Location]:
        if self._is_web:
            inside = self.entries()
            return [file for at in inside for file in (at.files() if at.is_dir() else [at])]
        return self._sorted(self._found(""))

    def _found(self, prefix: str) -> list[RemoteLocation]:
        """Return every file below whose path goes on with a prefix."""

        def ask(fs: Any) -> Mapping[str, Mapping[str, Any]]:
            fs.invalidate_cache()
            options = {"prefix": prefix} if prefix else {}
            return cast(
                Mapping[str, Mapping[str, Any]], fs.find(self._path, detail=True, **options)
            )

        return [
            self._listed(info) for info in self._attempt(ask).values() if info["type"] == "file"
        ]

    def _listed(self, info: Mapping[str, Any]) -> RemoteLocation:
        name = str(info["name"])
        if self._is_web:
            url = urls.parse(name)
            kind = "directory" if url.key.endswith("/") else "file"
            return RemoteLocation(url, _info({**info, "type": kind}))
        # The bucket comes first.
        key = name.partition("/")[2]
        return RemoteLocation(self._url._replace(key=key.rstrip("/"), query=""), _info(info))

    def _sorted(self, found: list[RemoteLocation]) -> list[Location]:
        inside = [place for place in found if place != self]
        return [*sorted(inside, key=lambda place: natural(place._url.key))]

    def glob(self) -> list[Location]:
        if self._url.query:
            return []
        parts = self._url.key.strip("/").split("/")
        fixed = 0
        while fixed < len(parts) and not has_magic(parts[fixed]):
            fixed += 1
        if fixed == len(parts):
            return []
        key = "/".join(parts[:fixed]) + ("/" if self._is_web and fixed else "")
        folder = RemoteLocation(self._url._replace(key=key, query=""))
        rest = parts[fixed:]
        if len(rest) == 1 and rest[0] != "**":
            pattern = as_regex(rest)
            return [place for place in folder.entries() if pattern.fullmatch(place.name)]
        if self._is_web:
            return self._level_by_level(folder, rest)
        return folder._below(rest)

    def _below(self, parts: list[str]) -> list[Location]:
        """Return the files and folders at any depth that a pattern means, from one long listing."""
        pattern = as_regex(parts)
        begin = len(self._url.key) + 1 if self._url.key else 0
        matches: dict[RemoteLocation, None] = {}
        for file in self._found(literal_start(parts[0])):
            inside = file._url.key[begin:].split("/")
            for depth in range(1, len(inside)):
                if pattern.fullmatch("/".join(inside[:depth])):
                    key = "/".join([*filter(None, [self._url.key]), *inside[:depth]])
                    folder = RemoteLocation(self._url._replace(key=key), _FOLDER)
                    matches[folder] = None
            if pattern.fullmatch("/".join(inside)):
                matches[file] = None
        return self._sorted([*matches])

    def _level_by_level(self, folder: RemoteLocation, parts: list[str]) -> list[Location]:
        places: list[Location] = [folder]
        for number, part in enumerate(parts):
            pattern = as_regex([part])
            is_last = number == len(parts) - 1
            places = [
                inside
                for place in places
                if place.is_dir()
                for inside in place.entries()
                if pattern.fullmatch(inside.name) and (is_last or inside.is_dir())
            ]
        return places

    # Reading

    def open(self, start: int = 0) -> BinaryIO:
        raw: io.RawIOBase
        if self._is_web:
            raw = WebStream(attempt(lambda: self._fs, self._url), self._url, start)
        else:
            size_bytes, identity = self.size_bytes() or 0, self._known().identity
            until = deadline()

            def check() -> None:
                info = self._ask()
                if info is None or info.identity != identity:
                    raise OSError(errno.EIO, "changed while it was read", self.shown)

            raw = RangeStream(
                lambda start, end: self._whole_range(start, end, until), size_bytes, start, check
            )
        return cast(BinaryIO, io.BufferedReader(raw, _BUFFER_BYTES))

    def _whole_range(self, start: int, end: int, until: float) -> bytes:
        def ask(fs: Any) -> bytes:
            work = fs._cat_file(self._path, start=start, end=end)
            piece = cast(bytes, finish(fs, work, until, self._url, start))
            if len(piece) != end - start:
                raise BrokenOffError("ends too early")
            return piece

        return self._attempt(ask)

    def read_range(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        if self._is_web:
            return self._attempt(lambda fs: read_range(fs, self._url, start, end))
        end = min(end, self.size_bytes() or 0)
        return self._whole_range(start, end, deadline()) if start < end else b""

    def read_exactly(self, start: int, end: int) -> bytes:
        if self._is_web or start >= end:
            return super().read_exactly(start, end)
        # In one request: how long the file is need not be asked.
        return self._whole_range(start, end, deadline())

    def read_bytes(self, most_bytes: int = SMALL_FILE_BYTES) -> bytes:
        if self._is_web:
            return super().read_bytes(most_bytes)
        # In one request, as it is now: a manifest may be written anew at any time.
        if (self.size_bytes() or 0) > most_bytes:
            raise self._too_long(most_bytes)
        until = deadline()
        data = self._attempt(
            lambda fs: cast(bytes, finish(fs, fs._cat_file(self._path), until, self._url))
        )
        if len(data) > most_bytes:
            raise self._too_long(most_bytes)
        return data

    # Writing

    def _check_writable(self) -> None:
        if self._is_web:
            raise OSError(errno.EROFS, "a web server is only read from", self.shown)
        self._info, self._is_listed = None, False

    def write_bytes(self, data: bytes) -> None:
        self._check_writable()
        self._attempt(lambda fs: fs.pipe_file(self._path, data))

    def write_new(self, data: bytes) -> None:
        self._check_writable()
        try:
            self._attempt(lambda fs: fs.pipe_file(self._path, data, mode="create"))
        except FileExistsError:
            if self.size_bytes() != len(data) or self.read_bytes(len(data)) != data:
                raise

    def upload(self, source: Path) -> None:
        self._check_writable()
        size_bytes = source.stat().st_size
        options: dict[str, object] = {}
        if self._url.scheme in ("s3", "s3a"):
            part_bytes = max(PART_BYTES, math.ceil(size_bytes / _MOST_PARTS))
            options = {"chunksize": part_bytes, "max_concurrency": 2}
        elif self._url.scheme in ("gs", "gcs"):
            options = {"chunksize": PART_BYTES}
        self._attempt(lambda fs: fs.put_file(str(source), self._path, **options))

    def delete(self) -> None:
        self._remove(lambda fs: fs.rm_file(self._path))

    def delete_tree(self) -> None:
        def remove(fs: Any) -> None:
            fs.invalidate_cache()
            fs.rm(self._path, recursive=True)

        self._remove(remove)

    def _remove(self, request: Callable[[Any], None]) -> None:
        self._check_writable()

        def remove(fs: Any) -> None:
            try:
                request(fs)
            except Exception as error:
                if not is_missing(error):
                    raise

        self._attempt(remove)
