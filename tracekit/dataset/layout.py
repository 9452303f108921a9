"""Files of a dataset.

A dataset is a folder ``NAME.tracekit``:

- ``manifest.json``: the list of its contents. It is written last; a folder without it is not a
  dataset.
- ``tables/<table>/<shard>.parquet``: a large table. Each file has the rows of the ranks of one
  shard, sorted by trace and time.
- ``tables/<table>/all-….parquet``: a small table with the rows of all ranks.
- ``analyses/<analysis>/all-….parquet``: the result of an analysis with its default parameters. For
  scope ``trace``, it has the rows of all ranks in the order of the analysis, with ``trace_id`` as
  the first column. For scope ``run``, only analyses that the breakdown needs are stored, without
  this column.
- ``shards/<shard>.zip``: the small tables and analysis rows of one shard. They are removed when the
  dataset is complete.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from tracekit.storage import Location

MANIFEST_NAME = "manifest.json"
SUFFIX = ".tracekit"

FORMAT = "tracekit dataset"
FORMAT_VERSION = 3

_AT_ONCE_BYTES = 1 << 20

SMALL_TABLES = (
    "trace",
    "device",
    "process_group",
    "thread",
    "accelerator",
    "collective_events",
    "device_peak",
    "device_process",
    "device_steps",
    "device_windows",
    "event_kind",
    "kernel_class",
    "range_marker",
    "recording",
    "step_ranges",
    "trace_traits",
    "unrecorded_run",
    "unrecorded_step",
)
"""Tables with few rows per rank, which analyses of scope ``run`` read. Each is stored in one
file."""

LARGE_TABLES = (
    "record",
    "rejected",
    "implausible",
    "repaired",
    "unpaired",
    "attribution",
    "captured_call",
    "collective_copy",
    "compiled_events",
    "compiled_regions",
    "cpu_work",
    "device_events",
    "device_mark",
    "generating_launch",
    "host_waits",
    "idle_gap",
    "kernel_annotation",
    "kernel_order",
    "launch",
    "launch_call",
    "launch_link",
    "module",
    "adjacent_launches",
    "repeated_launches",
    "replayed_event",
    "serving_step_ranges",
    "serving_step_work",
    "launch_context",
    "thread_waits",
)
"""Tables that usually have many rows per rank. They are stored in one file per shard."""

WITHOUT_TRACE = {"kernel_class": ("category", "name"), "range_marker": ("category", "name")}
"""Tables keyed by name instead of by trace. A shard has the names in its traces."""

BY_TIME = {"record": "trace_id, ts_ns, event_id"}
"""Sort order of tables that must be sorted. Others are in order of trace, device, and time."""

WRITTEN_AS = "FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2"


class File(Struct, frozen=True):
    """One Parquet file of a dataset: its name in the dataset, size, and checksum.

    In a manifest, `shard` is an index into its `shards`, or None for a file of all traces.
    """

    name: str
    size_bytes: int
    sha256: str
    row_count: int
    shard: int | None = None


def put_file(dataset: Location, folder: str, key: str, source: Path, row_count: int) -> File:
    """Write a local Parquet file to a dataset under a name derived from its content.

    Concurrent writers cannot mix files: different content has a different name.
    """
    with source.open("rb") as stream:
        sha256 = digest_of(stream)
    name = f"{folder}/{key}-{sha256[:16]}.parquet"
    dataset.join(name).upload(source)
    return File(name, source.stat().st_size, sha256, row_count)


def is_intact(dataset: Location, file: File) -> bool:
    """Read a file of a dataset, and return whether it exists and has the expected content."""
    try:
        place = dataset.join(file.name)
        if place.size_bytes() != file.size_bytes:
            return False
        with place.open() as stream:
            return digest_of(stream) == file.sha256
    except OSError:
        return False


def digest_of(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := stream.read(_AT_ONCE_BYTES):
        digest.update(block)
    return digest.hexdigest()
