"""Shards of a dataset that is being made: what a unit of work left, kept so that a rerun finds it.

A shard is a zip archive below ``shards/``: ``shard.json``, and the small tables and the rows of the
analyses as Parquet files. It is written behind the files of the large tables that it names: a shard
that is there is whole.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tracekit.dataset.files import File, is_there
from tracekit.storage import Location

FOLDER = "shards"
_DESCRIPTION = "shard.json"
_SMALL = re.compile(r"(?:tables|analyses)/[a-z0-9_]+")
_FILE = re.compile(r"tables/[a-z0-9_]+/[0-9a-z-]+\.parquet")
_MAX_SMALL_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class ShardTrace:
    """A trace of a shard: its id, how its location is shown, and what changes when it does."""

    trace_id: int
    shown: str
    identity: str | None


@dataclass(frozen=True, slots=True)
class Description:
    """What a shard says of itself.

    `recipe` is a digest of what decides what is derived; `files` are those of the large tables, by
    table.
    """

    recipe: str
    traces: tuple[ShardTrace, ...]
    files: dict[str, File]


# Created here: two threads that create the first decoder of a class crash the process.
_decoder = msgspec.json.Decoder(Description)


def key_of(recipe: str, traces: Sequence[ShardTrace]) -> str:
    """Return the name of a shard: its first trace, and a digest of what decides what is in it."""
    text = msgspec.json.encode((recipe, traces))
    return f"{traces[0].trace_id:06d}-{hashlib.sha256(text).hexdigest()[:16]}"


def write_shard(
    dataset: Location, key: str, description: Description, small: Mapping[str, bytes]
) -> None:
    """Write a shard; its files of large tables are there."""
    text = io.BytesIO()
    with zipfile.ZipFile(text, "w") as archive:
        contents = {_DESCRIPTION: msgspec.json.encode(description)}
        contents |= {f"{name}.parquet": data for name, data in small.items()}
        for name, data in contents.items():
            # No timestamp, so that equal shards have equal bytes.
            archive.writestr(zipfile.ZipInfo(name), data)
    dataset.join(FOLDER, f"{key}.zip").write_bytes(text.getvalue())


def read_shards(
    dataset: Location, recipe: str, traces: Mapping[int, ShardTrace]
) -> list[tuple[Description, dict[str, bytes]]]:
    """Return the shards that lie in a dataset and can be taken over, with their small files.

    Those are of these traces as they are now, of the same recipe, no two of one trace, and their
    files are there with matching checksums. Others are passed over.
    """
    found: list[tuple[Description, dict[str, bytes]]] = []
    taken: set[int] = set()
    for place in dataset.join(FOLDER).entries():
        if place.suffix != ".zip":
            continue
        try:
            description, small = _read(place)
        except (OSError, zipfile.BadZipFile, msgspec.MsgspecError, ValueError, KeyError):
            continue
        ids = {trace.trace_id for trace in description.traces}
        is_ours = description.recipe == recipe and not ids & taken
        if (
            is_ours
            and all(
                trace.identity is not None and traces.get(trace.trace_id) == trace
                for trace in description.traces
            )
            and all(is_there(dataset, file) for file in description.files.values())
        ):
            taken |= ids
            found.append((description, small))
    return found


def _read(place: Location) -> tuple[Description, dict[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(place.read_bytes(_MAX_SMALL_BYTES))) as archive:
        if sum(info.file_size for info in archive.infolist()) > _MAX_SMALL_BYTES:
            raise ValueError("too large for a shard")
        description = _decoder.decode(archive.read(_DESCRIPTION))
        for name, file in description.files.items():
            if not _FILE.fullmatch(file.name) or file.name.split("/")[1] != name:
                raise ValueError("a file name that no dataset has")
        small = {}
        for name in archive.namelist():
            if name != _DESCRIPTION:
                plain = name.removesuffix(".parquet")
                if not _SMALL.fullmatch(plain):
                    raise ValueError("a name that no dataset has")
                small[plain] = archive.read(name)
    return description, small
