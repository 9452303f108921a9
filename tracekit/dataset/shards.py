"""Shards of an incomplete dataset: saved results of units of work, for resuming an ingest.

A shard is a zip archive in ``shards/`` with ``shard.json``, and with the small tables and analysis
rows as Parquet files. It is written after the files of its large tables, so every shard is
complete.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from tracekit.dataset.layout import File, is_intact
from tracekit.dataset.manifest import TraceEntry
from tracekit.storage import Location

FOLDER = "shards"
_DESCRIPTION = "shard.json"
_SMALL = re.compile(r"(?:tables|analyses)/[a-z0-9_]+")
_FILE = re.compile(r"tables/[a-z0-9_]+/[0-9a-z-]+\.parquet")
_MAX_SMALL_BYTES = 1 << 30


class Description(Struct, frozen=True):
    """Content of a shard; `files` are the files of the large tables."""

    recipe: str
    traces: tuple[TraceEntry, ...]
    files: dict[str, File]


# Created at import: two threads that concurrently create the first decoder of a class crash the
# process.
_decoder = msgspec.json.Decoder(Description)


def key_of(recipe: str, traces: Sequence[TraceEntry]) -> str:
    text = msgspec.json.encode((recipe, traces))
    return f"{traces[0].trace_id:06d}-{hashlib.sha256(text).hexdigest()[:16]}"


def write_shard(
    dataset: Location, key: str, description: Description, small: Mapping[str, bytes]
) -> None:
    """Write a shard; the files of its large tables must exist."""
    text = io.BytesIO()
    with zipfile.ZipFile(text, "w") as archive:
        contents = {_DESCRIPTION: msgspec.json.encode(description)}
        contents |= {f"{name}.parquet": data for name, data in small.items()}
        for name, data in contents.items():
            # Omit the timestamp, so that equal shards have equal bytes.
            archive.writestr(zipfile.ZipInfo(name), data)
    dataset.join(FOLDER, f"{key}.zip").write_bytes(text.getvalue())


def read_shards(
    dataset: Location, recipe: str, traces: Mapping[int, TraceEntry]
) -> list[tuple[Description, dict[str, bytes]]]:
    """Return the usable shards of a dataset, with their small files.

    A usable shard has the same recipe, only these traces in their current version, and files with
    matching checksums. No two returned shards share a trace.
    """
    results: list[tuple[Description, dict[str, bytes]]] = []
    covered: set[int] = set()
    for place in dataset.join(FOLDER).entries():
        if place.suffix != ".zip":
            continue
        try:
            description, small = _read(place)
        except (OSError, zipfile.BadZipFile, msgspec.MsgspecError, ValueError, KeyError):
            continue
        ids = {trace.trace_id for trace in description.traces}
        is_ours = description.recipe == recipe and not ids & covered
        if (
            is_ours
            and all(
                trace.identity is not None and traces.get(trace.trace_id) == trace
                for trace in description.traces
            )
            and all(is_intact(dataset, file) for file in description.files.values())
        ):
            covered |= ids
            results.append((description, small))
    return results


def _read(place: Location) -> tuple[Description, dict[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(place.read_bytes(_MAX_SMALL_BYTES))) as archive:
        if sum(info.file_size for info in archive.infolist()) > _MAX_SMALL_BYTES:
            raise ValueError("too large for a shard")
        description = _decoder.decode(archive.read(_DESCRIPTION))
        for name, file in description.files.items():
            if not _FILE.fullmatch(file.name) or file.name.split("/")[1] != name:
                raise ValueError("a file name that datasets do not use")
        small = {}
        for name in archive.namelist():
            if name != _DESCRIPTION:
                plain = name.removesuffix(".parquet")
                if not _SMALL.fullmatch(plain):
                    raise ValueError("a name that datasets do not use")
                small[plain] = archive.read(name)
    return description, small
