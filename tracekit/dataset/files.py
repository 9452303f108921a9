"""Parquet files of a dataset, named by their content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tracekit.storage import Location

_AT_ONCE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class File:
    """One Parquet file of a dataset: its name within the dataset, size, and checksum."""

    name: str
    size_bytes: int
    sha256: str
    row_count: int


def put_file(dataset: Location, folder: str, key: str, source: Path, row_count: int) -> File:
    """Write a local Parquet file to a dataset under a name derived from its content.

    Concurrent writers cannot mix files: different content has a different name.
    """
    with source.open("rb") as stream:
        sha256 = digest_of(stream)
    name = f"{folder}/{key}-{sha256[:16]}.parquet"
    dataset.join(name).upload(source)
    return File(name, source.stat().st_size, sha256, row_count)


def is_there(dataset: Location, file: File) -> bool:
    """Whether a dataset has a file with the right content; reads it."""
    try:
        place = dataset.join(file.name)
        if place.size_bytes() != file.size_bytes:
            return False
        with place.open() as stream:
            return digest_of(stream) == file.sha256
    except OSError:
        return False


def digest_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of a stream, in hexadecimal digits."""
    digest = hashlib.sha256()
    while block := stream.read(_AT_ONCE_BYTES):
        digest.update(block)
    return digest.hexdigest()
