"""What `tracekit bench` measured, as its files tell it: points, each with the run that it is of.

A run of microbenchmarks leaves `benchmarks.jsonl` in its folder, one JSON object a line, one line a
measured point: what was done, on which device, and how long one call took. The cache keeps those
points of it that make a ceiling, as one JSON object (`tracekit.analysis.remembered_ceilings`).
Only times are read here; what they are as rates is said by `queries/bench/bench_rates.sql`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from tracekit.analysis.ceilings import BENCHMARKS_NAME
from tracekit.errors import UsageError
from tracekit.storage import Location, Place
from tracekit.units import MB

REMEMBERED_VERSION = 1
"""Of the form in which the cache keeps points."""

MAX_FILE_BYTES = 64 * MB
"""A larger file is no result of microbenchmarks."""

_Small = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Time = Annotated[float, msgspec.Meta(ge=0)]


class Point(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One point: the members of a line that a ceiling is made of, and its run.

    One that was not measured has an `outcome` other than `ok`, and may lack a device. `median_ns`
    is the time of one call, ns. `run_name` is the name of the run's folder, `measured_at` its date
    (ISO 8601, UTC), `node_count` its machines.
    """

    family: _Name
    op: _Name
    outcome: _Name
    device: _Name | None = None
    device_name: _Name | None = None
    unit_count: _Small | None = None
    thread_count: _Small | None = None
    dtype: _Name | None = None
    m: _Count | None = None
    n: _Count | None = None
    k: _Count | None = None
    batch: _Count | None = None
    memory: _Name | None = None
    message_bytes: _Count | None = None
    group_size: _Small | None = None
    backend: _Name | None = None
    median_ns: _Time | None = None
    run_name: str | None = None
    run_path: str | None = None
    measured_at: str | None = None
    node_count: _Small | None = None


class Remembered(msgspec.Struct, kw_only=True):
    """What the cache keeps of one device."""

    schema_version: int
    device_name: str
    points: list[Point]


class Points(NamedTuple):
    """The points of a file, and how many of its lines are none."""

    points: list[Point]
    unreadable_count: int


class _Parallel(msgspec.Struct):
    node_count: int | None = None


class _Run(msgspec.Struct):
    created_at: str | None = None
    parallel: _Parallel | None = None


# Made here: two threads that make the first decoder of a class at once end the process.
_remembered_file = msgspec.json.Decoder(Remembered)
_point = msgspec.json.Decoder(Point)
_manifest = msgspec.json.Decoder(_Run)


def read_points(given: Place) -> Points:
    """Read what was measured.

    Args:
        given: a run folder, its `benchmarks.jsonl`, or a file of the cache.

    Raises:
        UsageError: there is no such file, it cannot be read, or nothing in it is a measured point.
    """
    try:
        path = given / BENCHMARKS_NAME if given.is_dir() else given
        if path != given and not path.exists():
            raise UsageError(
                f"{given}: there is no {BENCHMARKS_NAME} in this folder",
                hint="give the folder of a run of tracekit bench",
            )
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: is no file")
        data = Location.of(path).read_bytes(MAX_FILE_BYTES)
    except OSError as error:
        raise UsageError(
            f"{given}: the ceilings cannot be read: {error.strerror or error}"
        ) from error
    found = _remembered(data) or _lines(data, path)
    if not found.points:
        raise UsageError(
            f"{path}: nothing in it is a point that tracekit bench measured",
            hint=f"give the folder of a run of tracekit bench, or its {BENCHMARKS_NAME}",
        )
    return found


def _remembered(data: bytes) -> Points | None:
    """Return the points of a file of the cache; None if it is none."""
    try:
        found = _remembered_file.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return Points(found.points, 0) if found.schema_version == REMEMBERED_VERSION else None


def _lines(data: bytes, path: Place) -> Points:
    points: list[Point] = []
    unreadable_count = 0
    run = _run_of(path)
    folder = path.parent.resolve() if isinstance(path, Path) else path.parent
    # What a line says of its run is not believed: that is what the manifest is for.
    members = {
        "run_name": folder.name or None,
        "run_path": str(folder),
        "measured_at": _utc(run.created_at),
        "node_count": run.parallel.node_count if run.parallel is not None else None,
    }
    for line in data.removeprefix(b"\xef\xbb\xbf").splitlines():
        if not line.strip():
            continue
        try:
            point = _point.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            unreadable_count += 1
        else:
            points.append(msgspec.structs.replace(point, **members))
    return Points(points, unreadable_count)


def _run_of(path: Place) -> _Run:
    """Return what the manifest beside a file says, if it can be read: a copied file has none."""
    from tracekit.manifest import FILE_NAME

    try:
        return _manifest.decode(Location.of(path.parent / FILE_NAME).read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Run()


def _utc(text: str | None) -> str | None:
    """Return a date as ISO 8601 in UTC, so that texts compare as dates do; None if it is none."""
    try:
        when = datetime.fromisoformat(text or "")
        when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return when.astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        return None
