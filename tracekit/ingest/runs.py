"""Loads run folders into the tables `run`, `run_repeat`, `request`, `request_step`, `benchmark`.

An unreadable `run.json` becomes a row with outcome `unreadable` and the reason. The traces next to
it can still be read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from tracekit import manifest
from tracekit.errors import TraceError
from tracekit.ingest.formats.counter_files import load_counters
from tracekit.ingest.json_lines import BENCHMARKS, REQUESTS, UnreadableFileError, load_lines
from tracekit.ingest.sources import BENCHMARKS_NAME, COUNTERS_NAME, REQUESTS_NAME
from tracekit.ingest.trace_readers import Progress
from tracekit.manifest import Manifest
from tracekit.schema import RUN_TABLES
from tracekit.sql_text import quote
from tracekit.storage import Place, contains_file

if TYPE_CHECKING:
    import duckdb

UNREADABLE = "unreadable"

_LINES = ((REQUESTS_NAME, REQUESTS), (BENCHMARKS_NAME, BENCHMARKS))
"""JSON Lines files of a run folder, with their formats. Table `run` has a column with the line
count of each."""

_MAX_NOTES, _MAX_TEXT = 100, 10_000
"""Maximum number of notes of a run, and maximum length of a string from a manifest."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_COLUMNS = {table.name: table.columns for table in RUN_TABLES}

Row = dict[str, Any]


def load_runs(
    connection: duckdb.DuckDBPyConnection,
    folders: Sequence[Place],
    work_folder: Path,
    progress: Callable[[Progress], None] | None = None,
    *,
    needs_one: bool = False,
) -> list[str]:
    """Load runs and return the run id of each folder. Fragments of one job share a run id.

    With `needs_one`, raise an error if all manifests are unreadable.
    """
    ids: dict[Place, str] = {}
    used: dict[str, int] = {}
    errors: list[TraceError] = []
    for run in _merged_runs(folders):
        folder = run.folders[0]
        repeats: list[Row] = []
        try:
            result = run.joined()
            row, repeats = _run_row(result), _repeat_rows(result)
        except TraceError as error:
            errors.append(error)
            row = {"run_id": folder.name, "outcome": UNREADABLE, "reason": error.message}
        mended = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", row["run_id"])
        if mended != row["run_id"]:
            row["notes"] = [
                *row.get("notes", ()),
                "run_id contained half of a surrogate pair, replaced by U+FFFD",
            ]
        run_id = row["run_id"] = _unique(mended, used)
        ids |= dict.fromkeys(run.folders, run_id)
        row |= {"path": str(folder), "folder_name": folder.name}
        row["missing_trace_count"] = run.missing_trace_count()
        row["rejected_count"] = 0
        for name, kind in _LINES:
            count, rejected_count, problem = 0, 0, None
            if contains_file(folder, name):
                # Load a file completely or not at all: part of it would give a wrong request rate.
                connection.begin()
                try:
                    count, rejected_count = load_lines(
                        connection, folder / name, kind, run_id, work_folder, progress
                    )
                except UnreadableFileError as error:
                    connection.rollback()
                    problem = f"{name} cannot be read: {error}"
                else:
                    connection.commit()
            row[f"{kind.what}_count"] = count
            row["rejected_count"] += rejected_count
            if problem:
                row["notes"] = [*row.get("notes", ()), problem]
        for one in run.folders:
            if contains_file(one, COUNTERS_NAME):
                try:
                    load_counters(connection, one / COUNTERS_NAME, work_folder, one)
                except TraceError as error:
                    row["notes"] = [*row.get("notes", ()), error.message]
        _insert(connection, "run", [row])
        _insert(connection, "run_repeat", [{**repeat, "run_id": run_id} for repeat in repeats])
    if needs_one and len(errors) == len(set(ids.values())):
        raise errors[0]
    return [ids[folder] for folder in folders]


class _Run(Struct):
    """One run, with its folder, or with the folders of all fragments of a job."""

    folders: list[Place]
    fragments: list[Manifest]
    error: TraceError | None = None

    def joined(self) -> Manifest:
        if self.error is not None:
            raise self.error
        return (
            self.fragments[0]
            if len(self.fragments) == 1
            else manifest.join_fragments(self.fragments)
        )

    def missing_trace_count(self) -> int:
        """Return the number of traces that the manifest lists but that do not exist."""
        return sum(
            not _contains_file(folder, name)
            for folder, fragment in zip(self.folders, self.fragments, strict=False)
            for name in fragment.traces
        )


def _merged_runs(folders: Sequence[Place]) -> list[_Run]:
    runs: list[_Run] = []
    of_job: dict[str, _Run] = {}
    for folder in folders:
        try:
            run = manifest.read(folder)
        except TraceError as error:
            runs.append(_Run([folder], [], error))
            continue
        known = of_job.get(run.job_id or "")
        if known is not None and manifest.are_fragments([*known.fragments, run]):
            known.folders.append(folder)
            known.fragments.append(run)
            continue
        runs.append(_Run([folder], [run]))
        if run.job_id is not None:
            of_job.setdefault(run.job_id, runs[-1])
    return runs


def _contains_file(folder: Place, name: str) -> bool:
    try:
        return contains_file(folder, name)
    except OSError:
        # For example, the name is too long.
        return False


def _unique(run_id: str, used: dict[str, int]) -> str:
    name = run_id
    while name in used:
        used[run_id] += 1
        name = f"{run_id}#{used[run_id]}"
    used[name] = 1
    return name


def _run_row(run: Manifest) -> Row:
    members = {name: getattr(run, name) for name in run.__struct_fields__}
    model, load = members.pop("model"), members.pop("load")
    overhead, steps = members.pop("overhead"), members.pop("steps")
    del members["repeats"], members["parallel"], members["environment"]
    members["manifest_version"] = members.pop("schema_version")
    members = {name: _cut(value) for name, value in members.items()}
    members["notes"] = [*map(_cut, run.notes[:_MAX_NOTES])]
    if len(run.notes) > _MAX_NOTES:
        members["notes"].append(f"{len(run.notes) - _MAX_NOTES:,} more notes are omitted")
    row: Row = members | asdict(run.parallel) | asdict(run.environment)
    for name, value in asdict(steps).items():
        row[name if name == "repeat_count" else name.replace("_count", "_step_count")] = value
    if model is not None:
        row["model"] = model.name
        row["model_config"] = model.config
        for name in ("model_class", "parameter_count", "trainable_parameter_count", "layer_count"):
            row[name] = getattr(model, name)
    if overhead is not None:
        row |= asdict(overhead)
    if load is not None:
        row |= {f"load_{name}": value for name, value in asdict(load).items()}
    memory = [asdict(rank) for rank in run.peak_memory]
    row["peak_memory"] = memory
    row["ranks"] = [asdict(rank) for rank in run.ranks]
    for name in ("device_allocated_bytes", "device_reserved_bytes", "host_bytes"):
        values = [rank[name] for rank in memory if rank[name] is not None]
        row[f"peak_{name}"] = max(values, default=None)
    _check("run", row)
    return row


def _cut(value: Any) -> Any:
    return value[:_MAX_TEXT] if isinstance(value, str) else value


def _repeat_rows(run: Manifest) -> list[Row]:
    repeats = [{"repeat": number, **asdict(repeat)} for number, repeat in enumerate(run.repeats)]
    for repeat in repeats:
        _check("run_repeat", repeat)
    return repeats


def _check(table: str, row: Mapping[str, Any]) -> None:
    bits = {"INTEGER": 32, "BIGINT": 64}
    for column in _COLUMNS[table]:
        value = row.get(column.name)
        width = bits.get(column.type.removesuffix("[]"))
        for number in value if isinstance(value, list) else [value]:
            if width and number is not None and not -(1 << width - 1) <= number < 1 << width - 1:
                raise TraceError(
                    f"the manifest is not valid: {column.name} is {number!s:.40}, out of range"
                )


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: list[Row]) -> None:
    """Insert rows; missing columns are NULL.

    The rows are passed as one JSON text, which supports lists and objects.
    """
    if not rows:
        return
    columns = _COLUMNS[table]
    structure: dict[str, object] = {
        column.name: [column.type[:-2]] if column.type.endswith("[]") else column.type
        for column in columns
    }
    records = [
        {
            column.name: _finite(row.get(column.name))
            if column.type == "JSON"
            else row.get(column.name)
            for column in columns
        }
        for row in rows
    ]
    text = quote(json.dumps(records, ensure_ascii=False))
    connection.execute(
        f"INSERT INTO {table} BY NAME SELECT r.* FROM (SELECT unnest(from_json_strict("
        f"{text}, {quote(json.dumps([structure]))})) AS r)"
    )


def _finite(value: Any) -> Any:
    """Replace NaN and Infinity, which JSON does not allow, with None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value
