"""Local paths as locations."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from tracekit.storage.location import Location, natural
from tracekit.storage.temp_dirs import atomic_path

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalLocation(Location):
    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalLocation) and self._path == other._path

    def __hash__(self) -> int:
        return hash(self._path)

    def __fspath__(self) -> str:
        return str(self._path)

    @property
    def shown(self) -> str:
        return str(self._path)

    @property
    def local_path(self) -> Path:
        return self._path

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def parent(self) -> LocalLocation:
        return LocalLocation(self._path.parent)

    def join(self, *names: str) -> LocalLocation:
        return LocalLocation(self._path.joinpath(*names))

    def exists(self) -> bool:
        return self._path.exists()

    def is_file(self) -> bool:
        return self._path.is_file()

    def is_dir(self) -> bool:
        return self._path.is_dir()

    def holds(self, name: str) -> bool:
        return (self._path / name).is_file()

    def size_bytes(self) -> int:
        return self._path.stat().st_size

    def identity(self) -> str:
        status = self._path.stat()
        return f"{status.st_size} {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}"

    def entries(self) -> list[Location]:
        try:
            inside = sorted(self._path.iterdir(), key=lambda path: natural(path.name))
        except FileNotFoundError:
            return []
        return [LocalLocation(path) for path in inside]

    def glob(self) -> list[Location]:
        anchor = Path(self._path.anchor)
        pattern = self._path.relative_to(anchor) if self._path.is_absolute() else self._path
        try:
            result = sorted(anchor.glob(str(pattern)), key=lambda path: natural(path.as_posix()))
        except (ValueError, NotImplementedError):
            return []
        return [LocalLocation(path) for path in result]

    def open(self, start: int = 0) -> BinaryIO:
        file = self._path.open("rb")
        if start:
            file.seek(start)
        return file

    def read_range(self, start: int, end: int) -> bytes:
        with self.open(start) as file:
            return file.read(max(0, end - start))

    def write_bytes(self, data: bytes) -> None:
        self._write(lambda building: building.write_bytes(data))

    def write_new(self, data: bytes) -> None:
        self._write(lambda building: building.write_bytes(data), _link_new)

    def upload(self, source: Path) -> None:
        self._write(lambda building: shutil.copyfile(source, building))

    def _write(
        self,
        write: Callable[[Path], object],
        move: Callable[[Path, Path], object] = os.replace,
    ) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with atomic_path(self._path, move) as building:
                write(building)
        except OSError as error:
            # Replace the temporary name in the error with the final path.
            raise type(error)(error.errno, error.strerror, str(self._path)) from None

    def delete(self) -> None:
        self._path.unlink(missing_ok=True)

    def delete_tree(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._path)


def _link_new(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Some file systems lack hard links. Create the file exclusively, and then write it.
        with target.open("xb") as file:
            file.write(source.read_bytes())
