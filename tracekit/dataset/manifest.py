"""Manifest of a dataset: the list of its files and missing traces, written last.

It is JSON; docs/scale.md describes the format. Datasets are untrusted: the file names in a manifest
are checked before any file is opened.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct, field

from tracekit.dataset.layout import FORMAT, FORMAT_VERSION, MANIFEST_NAME, File
from tracekit.errors import StoreError
from tracekit.schema import SCHEMA_VERSION
from tracekit.small_files import parse_json, read_small
from tracekit.storage import Location
from tracekit.units import MB

_MAX_BYTES = 256 * MB
_NAME = re.compile(r"(?:tables|analyses)/[a-z0-9_]+/[0-9a-z-]+\.parquet")


class TraceEntry(Struct, frozen=True):
    trace_id: int
    location: str
    identity: str | None
    rank: int | None = None


class Missing(Struct, frozen=True):
    trace_id: int
    location: str
    reason: str
    hint: str | None = None


class Manifest(Struct, frozen=True):
    """Content of a dataset.

    `shards` has the trace ids of each shard. `rules` is the text of the user's rules file.
    `made_by` is a digest of the code and SQL that created the rows.
    """

    recipe: str
    tracekit_version: str
    traces: list[TraceEntry]
    missing: list[Missing]
    shards: list[list[int]]
    tables: dict[str, list[File]]
    analyses: dict[str, File]
    runs: list[str] = field(default_factory=list)
    rules: str | None = None
    has_requests: bool = False
    has_benchmarks: bool = False
    made_by: str = ""
    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    schema_version: int = SCHEMA_VERSION

    @property
    def files(self) -> list[File]:
        return [file for files in self.tables.values() for file in files] + [
            *self.analyses.values()
        ]

    def encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


def read_manifest(dataset: Location) -> Manifest | None:
    place = dataset.join(MANIFEST_NAME)
    try:
        data = read_small(place, _MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(
            f"{dataset.shown}: the dataset cannot be opened: {error.strerror or error}"
        ) from error
    hint = "create it again: tracekit ingest RANKS -o NAME.tracekit"
    try:
        head = parse_json(data)
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise StoreError(f"{place.shown}: not the manifest of a dataset", hint=hint)
        versions = head.get("format_version"), head.get("schema_version")
        if versions != (FORMAT_VERSION, SCHEMA_VERSION):
            raise StoreError(
                f"{dataset.shown}: the dataset has version {versions[0]} with schema "
                f"{versions[1]}, but this tracekit reads {FORMAT_VERSION} with {SCHEMA_VERSION}",
                hint=hint,
            )
        manifest = msgspec.convert(head, Manifest)
    except ValueError as error:
        raise StoreError(
            f"{place.shown}: not the manifest of a dataset: {error}", hint=hint
        ) from error
    for kind, listed in (
        *(("tables/" + name, file) for name, files in manifest.tables.items() for file in files),
        *(("analyses/" + name, file) for name, file in manifest.analyses.items()),
    ):
        if not _NAME.fullmatch(listed.name) or not listed.name.startswith(f"{kind}/"):
            raise StoreError(
                f"{place.shown}: not the manifest of a dataset: {listed.name!r} is not a "
                "file name of a dataset",
                hint=hint,
            )
    return manifest
