"""Where ceilings measured on devices are looked for, and how they come to the SQL of a trace.

Only the first place that has any for a device is used:

1. what the user gave (`--ceilings`), instead of all others;
2. `benchmarks.jsonl` in the run folder of the trace;
3. what is remembered in the cache, by the name of the device.

A run of microbenchmarks leaves `benchmarks.jsonl` in its folder, one JSON object a line, one line a
measured point: what was done, on which device, and how long one call took. The highest rates among
points are found by `queries/bench/bench_ceilings.sql`. The cache keeps those points of it that make
a ceiling, one file for each device. Those files are no cache of traces: only the device could say
them again. So they stay when the cache is cleared, unless that is asked for. What is measured later
takes the place of what was measured before, kind by kind: a ceiling says what the device does now,
with the driver, clocks and limits of power that it has now, and not what it once did.

Ceilings are of the very device that they were measured on. So the names must be the same; where
both sides tell a number of multiprocessors, these too, since a part of a device may go by the name
of the whole. On a CPU the rank must have had as many threads as the measurement: nothing is scaled,
as neither clocks nor memory are shared out by threads. Collectives need no threads of arithmetic,
but as many machines. A trace that does not name its device has only what the user gives for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import duckdb
import msgspec

from tracekit.analysis.ceiling_sources import BENCHMARKS_NAME, GIVEN, Sources, result_in
from tracekit.analysis.device_peaks import peak_of
from tracekit.analysis.relations import ensure
from tracekit.analysis.result import columns_of_text
from tracekit.analysis.run import run_sql
from tracekit.database import STORE, add_session, ceilings_dir, is_writable_by_all
from tracekit.errors import StoreError, UsageError
from tracekit.sql_text import select_rows
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

    It is in a run folder, in its `benchmarks.jsonl`, or in a file of the cache.

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


Kind = Literal["product", "memory", "copy", "collective"]

KINDS: tuple[Kind, ...] = ("product", "memory", "copy", "collective")
"""What a ceiling is of: products, a device's own memory, copies from and to it, collectives."""

_TYPES = {
    column.name: column.type
    for column in columns_of_text(
        "point_id BIGINT, family VARCHAR, op VARCHAR, device VARCHAR, device_name VARCHAR, "
        "outcome VARCHAR, unit_count INTEGER, thread_count INTEGER, dtype VARCHAR, m BIGINT, "
        "n BIGINT, k BIGINT, batch BIGINT, memory VARCHAR, message_bytes BIGINT, "
        "group_size INTEGER, backend VARCHAR, median_ns DOUBLE, run_name VARCHAR, "
        "measured_at VARCHAR"
    )
}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The highest rate of one kind that was measured on a device.

    `flop_per_s` is of products, `bytes_per_s` of memory (read and written) and copies (copied),
    `bus_bytes_per_s` of collectives. `thread_count` is None where it does not matter.
    """

    kind: Kind
    device_name: str
    is_cpu: bool
    unit_count: int | None
    thread_count: int | None
    dtype: str | None
    op: str | None
    memory: str | None
    backend: str | None
    group_size: int | None
    flop_per_s: float | None
    bytes_per_s: float | None
    bus_bytes_per_s: float | None
    point: Point

    @property
    def key(self) -> tuple[object, ...]:
        """What tells the ceilings of one device apart."""
        return (self.kind, self.dtype, self.op, self.memory, self.backend, self.group_size)

    @property
    def source(self) -> str:
        """Where it was measured, when, and by what: a text for people."""
        point = self.point
        of_run = [point.run_name, point.measured_at and point.measured_at[:10]]
        text = ", ".join(filter(None, of_run))
        return f"{text}: {_what(point)}" if text else _what(point)


def _what(point: Point) -> str:
    if point.family == "gemm":
        times = f"{point.batch} × " if (point.batch or 1) > 1 else ""
        return f"{times}{point.op} {point.m} × {point.n} × {point.k}"
    kind = f" {point.memory}" if point.memory else ""
    return f"{point.op}{kind}, {point.message_bytes or 0:,} bytes"


def ceilings_of(points: Sequence[Point]) -> list[Ceiling]:
    """Return the ceilings that points make, in a fixed order."""
    if not points:
        return []
    columns = [name for name in _TYPES if name != "point_id"]
    values = [
        (number, *(getattr(point, name) for name in columns)) for number, point in enumerate(points)
    ]
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        add_session(connection, [STORE])
        ensure(connection, ["bench_ceilings"])
        connection.execute(f"CREATE TEMP TABLE point AS {select_rows(_TYPES, values)}")
        rows = connection.execute("FROM bench_ceilings('point')").fetchall()
    return [Ceiling(*(*row[1:], points[row[0]])) for row in rows]


_MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class RememberedDevice:
    """One file of remembered ceilings; `source_path` is the run that was measured last."""

    path: Path
    device_name: str
    source_path: str
    size_bytes: int
    modified_s: float


def file_of(device_name: str) -> Path:
    """Return where the ceilings of a device are, or would be, by its name."""
    plain = device_name.strip().lower()
    # The digest tells names apart that look alike as file names.
    digest = hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:12]
    readable = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_MAX_NAME]
    return ceilings_dir() / f"{readable or 'device'}-{digest}.json"


def remember(run: Path) -> list[str]:
    """Keep what a run measured, for all traces of the same devices.

    Of each kind of ceiling the newest run counts; what it did not measure stays as it was.

    Args:
        run: a run folder of `tracekit bench`, or its `benchmarks.jsonl`.

    Returns:
        The names of the devices whose ceilings are kept now; none if nothing was measured that
        could be one.

    Raises:
        UsageError: there is nothing measured, or it cannot be read.
        StoreError: the cache folder cannot be written.
    """
    measured: dict[str, list[Point]] = {}
    for ceiling in ceilings_of(read_points(run).points):
        measured.setdefault(ceiling.device_name.strip(), []).append(ceiling.point)
    for name, points in measured.items():
        path = file_of(name)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(path.parent):
                _write(path, name, [*_known(path), *points])
        except OSError as error:
            raise StoreError(
                f"{path}: the ceilings cannot be kept: {error.strerror or error}",
                hint="set TRACEKIT_CACHE_DIR to a folder that can be written",
            ) from error
    return list(measured)


def recall(device_name: str) -> list[Point]:
    """Return the remembered points of a device by its name; none where any user could write them.

    Raises:
        UsageError: there is a file, and it cannot be read.
    """
    path = file_of(device_name)
    if not path.exists() or any(map(is_writable_by_all, path.parents[:2])):
        return []
    return read_points(path).points


def list_remembered() -> list[RememberedDevice]:
    """Return what is remembered, by the name of the device."""
    found = []
    for path in sorted(_files()):
        device_name, source_path = "?", "?"
        with contextlib.suppress(UsageError):
            points = read_points(path).points
            newest = max(points, key=lambda point: point.measured_at or "")
            device_name, source_path = newest.device_name or "?", newest.run_path or "?"
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append(
                RememberedDevice(path, device_name, source_path, status.st_size, status.st_mtime)
            )
    return found


def forget_all() -> int:
    """Remove all remembered ceilings; return of how many devices there were any.

    Raises:
        StoreError: a file cannot be removed.
    """
    files = _files()
    for path in files:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"{path}: cannot be removed: {error.strerror or error}",
                hint="may you write to its folder?",
            ) from error
    return len(files)


def _files() -> list[Path]:
    return list(ceilings_dir().glob("*.json")) if ceilings_dir().is_dir() else []


def _known(path: Path) -> list[Point]:
    """Return what a file holds; nothing if it cannot be read: it is written anew then."""
    try:
        return read_points(path).points if path.exists() else []
    except UsageError:
        return []


def _write(path: Path, name: str, points: list[Point]) -> None:
    """Replace a file by one with the points that make a ceiling, at once and as a whole."""
    kept = list(dict.fromkeys(ceiling.point for ceiling in ceilings_of(points)))
    found = Remembered(schema_version=REMEMBERED_VERSION, device_name=name, points=kept)
    text = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"
    number, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _locked(where: Path) -> Iterator[None]:
    """Let one process at a time read and replace files, where the system can."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    number = os.open(where / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


_log = logging.getLogger("tracekit")


def given_ceilings(given: Path) -> list[Ceiling]:
    """Return what a file that the user named says.

    Raises:
        UsageError: it cannot be read, or nothing was measured in it.
    """
    found = read_points(given)
    if found.unreadable_count:
        _log.warning(
            "%s: %s no measured points and left out",
            given,
            "1 line is" if found.unreadable_count == 1 else f"{found.unreadable_count} lines are",
        )
    ceilings = ceilings_of(found.points)
    if not ceilings:
        raise UsageError(
            f"{given}: nothing that was measured in it is a ceiling",
            hint="products, copies and collectives are, if they succeeded",
        )
    return ceilings


def ceilings_in(folders: Sequence[Place]) -> list[Ceiling]:
    """Return what was measured in run folders."""
    return ceilings_of([point for folder in folders for point in _in_folder(folder)])


def _in_folder(folder: Place) -> list[Point]:
    path = result_in(folder)
    try:
        return read_points(path).points if path is not None else []
    except UsageError as error:
        _log.warning("%s", error)
        return []


def recalled_ceilings(name: str) -> list[Ceiling]:
    """Return what is remembered of a device; a file that cannot be read says nothing."""
    try:
        return ceilings_of(recall(name))
    except UsageError as error:
        _log.warning("%s; the next run of tracekit bench writes it anew", error)
        return []


_MAX_NAMED = 3

# In a run of tracekit's own workloads nothing but this variable sets the threads of a rank.
_PLACES = """
SELECT
    a.trace_id,
    a.accelerator = 'cpu' AS is_cpu,
    d.device_id::VARCHAR AS device,
    nullif(trim(d.name), '') AS name,
    d.sm_count,
    list_distinct(r.devices) AS listed,
    nullif(trim(r.processor), '') AS processor,
    coalesce(
        r.thread_count,
        if(
            r.stage IN ('pretrain', 'finetune'),
            try_cast(r.variables ->> '$.OMP_NUM_THREADS' AS INTEGER),
            NULL
        )
    ) AS thread_count,
    r.node_count
FROM accelerator AS a
INNER JOIN trace AS t ON a.trace_id = t.trace_id
LEFT JOIN run AS r ON t.run_id = r.run_id
LEFT JOIN device AS d ON a.trace_id = d.trace_id AND a.accelerator <> 'cpu'
ORDER BY a.trace_id, d.device_id
"""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TracedDevice:
    """A device of a trace, as far as trace and manifest tell.

    `name` is None where neither does; `unit_count` are its multiprocessors, `thread_count` the host
    threads of the rank, `node_count` the machines of the run.
    """

    trace_id: int
    device: str
    name: str | None
    unit_count: int | None = None
    thread_count: int | None = None
    node_count: int | None = None

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU of the host."""
        return self.device == "cpu"


def places(connection: duckdb.DuckDBPyConnection) -> list[TracedDevice]:
    """Return the devices of the traces; one for all (``*``) where they are all alike.

    Raises:
        StoreError: the store is damaged.
    """
    # A store of runs alone has no tables about work.
    if not run_sql(connection, "SELECT trace_id FROM trace LIMIT 1").rows:
        return []
    found: dict[int, list[Row]] = {}
    for row in run_sql(connection, _PLACES).rows:
        found.setdefault(row[0], []).append(row[1:])
    known = []
    for trace_id, rows in found.items():
        is_cpu, number, _, _, listed, processor, *host = rows[0]
        if is_cpu:
            known.append(TracedDevice(trace_id, "cpu", processor, None, *host))
        elif number is None:
            # The file describes no device; the manifest may.
            name = listed[0] if listed and len(listed) == 1 else None
            known.append(TracedDevice(trace_id, "*", name, None, *host))
        else:
            # The numbers of the devices that ran are not always among those listed.
            is_one_kind = len({row[2:4] for row in rows}) == 1
            known += [
                TracedDevice(trace_id, "*" if is_one_kind else row[1], *row[2:4], *host)
                for row in (rows[:1] if is_one_kind else rows)
            ]
    return known


def find(place: TracedDevice, sources: Sources) -> list[Row]:
    """Return rows for table `device_ceiling`: rates, and why measured ones do not apply."""
    refused: list[Row] = []
    for origin, ceilings in sources.of(place.name):
        matched, reasons = _match(place, origin, ceilings)
        rows = [_refusal(place, origin, kind, reason) for kind, reason in reasons.items()]
        if matched:
            return [_row(place, origin, ceiling) for ceiling in matched] + rows
        refused = refused or rows
    return refused


def _row(place: TracedDevice, origin: str, ceiling: Ceiling) -> Row:
    of = ceiling
    return (
        *(place.trace_id, place.device, of.device_name, of.thread_count, of.kind, of.dtype, of.op),
        *(of.memory, of.backend, of.group_size, of.flop_per_s, of.bytes_per_s, of.bus_bytes_per_s),
        *(origin, of.point.measured_at, of.source, None),
    )


def _refusal(place: TracedDevice, origin: str, kind: str | None, reason: str) -> Row:
    nothing = (None,) * 8
    return (place.trace_id, place.device, None, None, kind, *nothing, origin, None, None, reason)


def _match(
    place: TracedDevice, origin: str, ceilings: Sequence[Ceiling]
) -> tuple[list[Ceiling], dict[str | None, str]]:
    """Return the ceilings that apply to a device, and why others do not, by kind."""
    of_its_sort = [ceiling for ceiling in ceilings if ceiling.is_cpu == place.is_cpu]
    if not of_its_sort:
        what = "no CPU" if place.is_cpu else "a CPU alone"
        return [], {None: f"the ceilings given are of {what}"} if origin == GIVEN else {}
    named, reason = _of_its_name(place, origin, of_its_sort)
    if reason is not None:
        return [], {None: reason}
    matched: dict[tuple[object, ...], Ceiling] = {}
    reasons: dict[str | None, str] = {}
    for ceiling in named:
        alike = {other.thread_count for other in named if other.kind == ceiling.kind}
        why_not = _other_device(place, ceiling) or _other_host(place, origin, ceiling, alike)
        if why_not is not None:
            reasons.setdefault(ceiling.kind, why_not)
            continue
        known = matched.setdefault(ceiling.key, ceiling)
        # With and without a number of multiprocessors, for example.
        if (ceiling.point.measured_at or "") > (known.point.measured_at or ""):
            matched[ceiling.key] = ceiling
    kinds = {ceiling.kind for ceiling in matched.values()}
    return list(matched.values()), {
        kind: reasons[kind] for kind in KINDS if kind in reasons and kind not in kinds
    }


def _of_its_name(
    place: TracedDevice, origin: str, ceilings: Sequence[Ceiling]
) -> tuple[list[Ceiling], str | None]:
    """Return the ceilings of a device's name, or why there are none; None if nobody needs ask."""
    names = list(dict.fromkeys(ceiling.device_name.strip() for ceiling in ceilings))
    if place.name is None:
        what = "processor" if place.is_cpu else "device"
        if origin != GIVEN:
            return [], f"nothing tells which {what} it was; --ceilings says what counts"
        if len({name.lower() for name in names}) > 1:
            return [], f"ceilings of several devices were given; nothing tells which {what} it was"
        return list(ceilings), None
    own = place.name.strip().lower()
    named = [ceiling for ceiling in ceilings if ceiling.device_name.strip().lower() == own]
    if not named and origin == GIVEN:
        more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
        listed = " and ".join([*names[:_MAX_NAMED], *more])
        return [], f"the ceilings given are of {listed}, this is {place.name.strip()}"
    return named, None


def _other_device(place: TracedDevice, ceiling: Ceiling) -> str | None:
    """Return why a ceiling is of a larger or smaller part of a device of that name."""
    measured = ceiling.unit_count
    if place.unit_count is None or place.is_cpu:
        return None
    if measured is not None and measured != place.unit_count:
        return (
            f"it was measured on {measured} multiprocessors of a device of this name, "
            f"this one has {place.unit_count}"
        )
    name = ceiling.device_name
    if measured is None and peak_of(name) is not None and peak_of(name, place.unit_count) is None:
        return "this is a part of a device, and the measurement does not tell of which part it is"
    return None


def _other_host(
    place: TracedDevice, origin: str, ceiling: Ceiling, alike: set[int | None]
) -> str | None:
    """Return why a ceiling is of more or fewer threads, or of more or fewer machines."""
    if ceiling.kind == "collective":
        measured = ceiling.point.node_count
        if None in (measured, place.node_count) or measured == place.node_count:
            return None
        return f"it was measured on {_count(measured, 'machine')}, the run had {place.node_count}"
    if not place.is_cpu:
        return None
    if ceiling.thread_count is None:
        return "the measurement does not tell how many threads it had"
    if place.thread_count == ceiling.thread_count:
        return None
    if place.thread_count is not None:
        had = _count(place.thread_count, "thread")
        return f"it was measured with {_count(ceiling.thread_count, 'thread')}, the rank had {had}"
    if origin == GIVEN and len(alike) == 1:
        return None
    return "nothing tells how many threads the rank had"


def _count(number: int | None, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
