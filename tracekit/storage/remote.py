"""URLs as locations: files in an object store or on a web server, accessed with obstore."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from tracekit.storage import url as urls
from tracekit.storage.location import SMALL_FILE_BYTES, Location, natural
from tracekit.storage.stores import is_missing, request
from tracekit.storage.stream import RemoteStream, Response, without_start
from tracekit.storage.url import WEB, Url

PART_BYTES = 8 << 20
"""Size of an upload part; object stores accept ten thousand parts."""

MAX_PARTS_AT_ONCE = 2

_MAX_PARTS = 9_000
_BUFFER_BYTES = _CHUNK_BYTES = 1 << 20
# Messages of obstore's errors.
_BEYOND_END = re.compile(r"status code: 416|source: StartTooLarge")
_WITHOUT_RANGES = re.compile(r"source: (?:RangeNotSupported|NotPartial)")


class _Info(NamedTuple):
    is_folder: bool
    size_bytes: int | None = None
    identity: str | None = None
    is_page: bool = False


_FOLDER = _Info(True)


def _info(meta: Mapping[str, Any]) -> _Info:
    modified_s = meta["last_modified"].timestamp()
    tag = (meta["e_tag"] or "").strip('"') or (f"{modified_s:.0f}" if modified_s else "")
    return _Info(False, meta["size"], f"{meta['size']} {tag}" if tag else None)


class RemoteLocation(Location):
    __slots__ = ("_info", "_is_listed", "_names", "_url")

    def __init__(self, url: Url, info: _Info | None = None) -> None:
        self._url = url
        self._info = info
        self._is_listed = info is not None
        self._names: dict[str, bool] | None = None

    @classmethod
    def parse(cls, text: str) -> RemoteLocation:
        return cls(urls.parse(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteLocation) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    @property
    def shown(self) -> str:
        return self._url.shown

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
        """Path for obstore: relative to the bucket, or empty for a web server.

        The client of a web server has the complete URL.
        """
        return "" if self._is_web else self._url.key.strip("/")

    # Existence and content

    def _ask(self) -> _Info | None:
        """Request the current metadata; return None if nothing exists."""
        return request(self._url, self._look_at_web if self._is_web else self._look_at_store)

    def _look_at_store(self, store: Any) -> _Info | None:
        if self._path:
            try:
                return _info(store.head(self._path))
            except Exception as error:
                if not is_missing(error):
                    raise
        try:
            return _FOLDER if any(store.list(self._path, chunk_size=1)) else None
        except Exception as error:
            if is_missing(error):
                return None
            raise

    def _look_at_web(self, store: Any) -> _Info | None:
        try:
            # Request the first byte, because signed URLs often allow only GET.
            response = self._get(store, 0, 1)
        except Exception as error:
            if is_missing(error):
                return None
            raise
        response.close()
        is_page = response.content_type.startswith("text/html")
        return _Info(False, response.size_bytes, response.identity, is_page)

    def _known(self) -> _Info:
        """Return the metadata of the file, and request it if it is unknown."""
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
            known = self._names = self._names or {}
            if name not in known:
                known[name] = bool(self.name or self.is_dir()) and self._has_file(name)
            return known[name]
        if self._names is None:
            self._names = {place.name: place.is_file() for place in self.entries()}
        return self._names.get(name, False)

    def _has_file(self, name: str) -> bool:
        info = self.join(name)._ask()
        return info is not None and not info.is_page

    def size_bytes(self) -> int | None:
        return self._known().size_bytes

    def identity(self) -> str | None:
        identity, meaning = self._known().identity, urls.meaning_of(self._url.query)
        if identity is None or not meaning:
            return identity
        # Several queries may select different files with the same tag.
        return f"{identity} {hashlib.sha256(meaning.encode()).hexdigest()}"

    def entries(self) -> list[Location]:
        if self._is_web:
            return self._sorted(self._links())

        def ask(store: Any) -> list[RemoteLocation]:
            listing = store.list_with_delimiter(self._path)
            folders = [self._listed(path, _FOLDER) for path in listing["common_prefixes"]]
            return [
                *folders,
                *(self._listed(meta["path"], _info(meta)) for meta in listing["objects"]),
            ]

        try:
            return self._sorted(request(self._url, ask))
        except FileNotFoundError:
            return []

    def _links(self) -> list[RemoteLocation]:
        from tracekit.storage.web import links

        try:
            with self._stream(0) as stream:
                linked = [urls.parse(link) for link in links(self._url, stream)]
        except FileNotFoundError:
            return []
        return [
            RemoteLocation(url, _FOLDER if url.key.endswith("/") else _Info(False))
            for url in linked
        ]

    def _files(self) -> list[RemoteLocation]:
        if self._is_web:
            links = self._links()
            return [file for at in links for file in (at._files() if at.is_dir() else [at])]

        def ask(store: Any) -> list[RemoteLocation]:
            pages = store.list(self._path, chunk_size=1000)
            return [self._listed(meta["path"], _info(meta)) for page in pages for meta in page]

        return request(self._url, ask)

    def _listed(self, path: str, info: _Info) -> RemoteLocation:
        return RemoteLocation(self._url._replace(key=path, query=""), info)

    def _sorted(self, linked: list[RemoteLocation]) -> list[Location]:
        inside = [place for place in linked if place != self]
        return [*sorted(inside, key=lambda place: natural(place._url.key))]

    def glob(self) -> list[Location]:
        parts = self._url.key.strip("/").split("/")
        fixed = next((n for n, part in enumerate(parts) if has_magic(part)), None)
        if fixed is None or self._url.query:
            return []
        key = "/".join(parts[:fixed]) + ("/" if self._is_web and fixed else "")
        folder = RemoteLocation(self._url._replace(key=key))
        if "**" in parts:
            return folder._below(parts[fixed:])
        places: list[Location] = [folder]
        for number, part in enumerate(parts[fixed:], fixed + 1):
            places = [
                inside
                for place in places
                for inside in place.entries()
                if fnmatchcase(inside.name, part) and (number == len(parts) or inside.is_dir())
            ]
        return places

    def _below(self, pattern: Sequence[str]) -> list[Location]:
        """Return the matching files and folders at any depth, from one listing."""
        begin = len(self._url.key.strip("/").split("/")) if self._url.key else 0
        matches: dict[RemoteLocation, None] = {}
        for file in self._files():
            parts = file._url.key.split("/")
            for end in range(begin + 1, len(parts)):
                if _matches(parts[begin:end], pattern):
                    matches[self._listed("/".join(parts[:end]), _FOLDER)] = None
            if _matches(parts[begin:], pattern):
                matches[file] = None
        return self._sorted([*matches])

    # Reading

    def _get(self, store: Any, start: int, end: int | None = None) -> Response:
        """Request the bytes from `start` up to `end`, or to the end of the file."""
        span: Any = None
        if end is not None:
            span = (start, end)
        elif start:
            span = {"offset": start}
        try:
            try:
                result = store.get(self._path, options=span and {"range": span})
            except Exception as error:
                is_beyond = bool(_BEYOND_END.search(str(error)))
                if start and is_beyond:
                    return Response(iter(()), None, None, "")
                if not is_beyond and not _WITHOUT_RANGES.search(str(error)):
                    raise
                # The server does not support ranges, or the file is empty.
                result = store.get(self._path)
        except Exception as error:
            if self._is_web and "MissingContentLength" in str(error):
                from tracekit.storage.web import get

                return get(self._url, start)
            raise
        content_type = str(result.attributes.get("Content-Type", ""))
        chunks = iter(result.stream(min_chunk_size=_CHUNK_BYTES))
        info = _info(result.meta)
        return Response(
            without_start(chunks, start - result.range[0]),
            *(info.size_bytes, info.identity, content_type),
        )

    def _stream(self, start: int, end: int | None = None) -> RemoteStream:
        def connect(at: int) -> Response:
            return request(self._url, lambda store: self._get(store, at, end))

        return RemoteStream(self._url, start, connect)

    def open(self, start: int = 0) -> BinaryIO:
        stream, known = self._stream(start), self._info
        identity = stream.response.identity
        if not self._is_web and known is not None and identity not in (None, known.identity):
            raise OSError(errno.EIO, "changed while being read", self.shown)
        return cast(BinaryIO, io.BufferedReader(stream, _BUFFER_BYTES))

    def read_range(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        with io.BufferedReader(self._stream(start, end)) as reader:
            return reader.read(end - start)

    def read_bytes(self, most_bytes: int = SMALL_FILE_BYTES) -> bytes:
        # Ignore metadata from a listing, because a manifest may have been replaced.
        with io.BufferedReader(self._stream(0)) as reader:
            data = reader.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise self._too_long(most_bytes)
        return data

    # Writing

    def _write(self, ask: Callable[[Any], object]) -> None:
        if self._is_web:
            raise OSError(errno.EROFS, "a web server is read-only", self.shown)
        self._info, self._is_listed = None, False
        request(self._url, ask)

    def write_bytes(self, data: bytes) -> None:
        self._write(lambda store: store.put(self._path, data))

    def write_new(self, data: bytes) -> None:
        try:
            self._write(
                lambda store: store.put(self._path, data, mode="create", use_multipart=False)
            )
        except FileExistsError:
            if self.size_bytes() != len(data) or self.read_bytes(len(data)) != data:
                raise

    def upload(self, source: Path) -> None:
        part_bytes = max(PART_BYTES, math.ceil(source.stat().st_size / _MAX_PARTS))
        self._write(
            lambda store: store.put(
                self._path, source, chunk_size=part_bytes, max_concurrency=MAX_PARTS_AT_ONCE
            )
        )

    def delete(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._write(lambda store: store.delete(self._path))

    def delete_tree(self) -> None:
        def remove(store: Any) -> None:
            for page in store.list(self._path, chunk_size=1000):
                store.delete([meta["path"] for meta in page])

        with contextlib.suppress(FileNotFoundError):
            self._write(remove)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the parts of a path match; ``**`` matches any number of them."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[n:], pattern[1:]) for n in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
