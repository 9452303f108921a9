"""Loads JSON Lines files (one object per line) into tables, part by part.

Unreadable lines go to table `rejected` with their position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Struct

from tracekit.ingest.trace_readers import Progress
from tracekit.schema import RUN_TABLES
from tracekit.sql_text import quote, rows
from tracekit.storage import Location, Place
from tracekit.units import GB, MB

if TYPE_CHECKING:
    import duckdb

MAX_LINE_BYTES = 64 * MB
"""Maximum length of a line; tracekit's are shorter."""

MAX_FILE_BYTES = 16 * GB
"""Maximum size of a file, because a pipe may be endless."""

MAX_LINES = 4_000_000
"""Maximum number of lines, because their keys are in memory while the file is read."""

PART_BYTES = 8 * MB

MAX_REJECTED = 1000
"""Maximum number of rejected lines that are stored per statement."""

REJECTED_TEXT_BYTES = 2048

PART = "line_part"
"""Temporary table with the lines of a part, one column per member."""


class LineKind(Struct, frozen=True):
    """Format of the lines of a file.

    `what` names a line in messages. `decoder` reads the members that are columns, including `key`,
    which is unique in the file; other members go to `extra` of `table`. `further_types` has the
    types of members that are not columns of `table`. The statements `further_inserts` fill other
    tables from table `line_part`; `{run_id}` in them is replaced with the quoted run id.
    """

    what: str
    decoder: msgspec.json.Decoder[Any]
    key: str
    table: str
    further_types: Mapping[str, str]
    further_inserts: tuple[str, ...] = ()

    @property
    def members(self) -> tuple[str, ...]:
        return self.decoder.type.__struct_fields__  # type: ignore[no-any-return]

    @property
    def columns(self) -> dict[str, str]:
        (table,) = (table for table in RUN_TABLES if table.name == self.table)
        return {column.name: column.type for column in table.columns if column.name != "run_id"}


class _UnreadableError(Exception):
    """A line does not have the format of the file."""


class UnreadableFileError(Exception):
    """A file of lines cannot be read. The message is the reason."""


def load_lines(
    connection: duckdb.DuckDBPyConnection,
    path: Place,
    kind: LineKind,
    run_id: str,
    work_folder: Path,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[int, int]:
    """Load a file into its tables; return the numbers of loaded and of rejected lines."""
    part = work_folder / f"{kind.table}.json"
    line_count = rejected_count = 0
    seen: set[object] = set()
    with _reading():
        location = Location.of(path)
        file_bytes = location.size_bytes() or 0
        opened = location.open()
    with opened as file:
        lines = _lines(file)
        is_more = True
        while is_more:
            rejected: list[tuple[object, ...]] = []
            with part.open("wb") as out:
                count, longest, is_more = _write_part(lines, out, kind, seen, run_id, rejected)
            if count:
                _insert(connection, part, kind, run_id, longest)
            if rejected:
                connection.execute(f"INSERT INTO rejected VALUES {rows(rejected)}")
            line_count += count
            rejected_count += len(rejected)
            if progress is not None:
                progress(Progress(str(path), file.tell(), file_bytes, line_count))
    part.unlink()
    return line_count, rejected_count


def _write_part(
    lines: Iterator[tuple[int, bytes]],
    out: IO[bytes],
    kind: LineKind,
    seen: set[object],
    run_id: str,
    rejected: list[tuple[object, ...]],
) -> tuple[int, int, bool]:
    """Write the next part of the lines in the format for DuckDB; reject invalid lines.

    Return the number of written lines, the longest length, and whether more lines may follow.
    """
    count = longest = 0
    for offset, line in lines:
        try:
            text = _checked(line, kind, seen)
        except _UnreadableError as error:
            shown = line[:REJECTED_TEXT_BYTES].decode("utf-8", "replace")
            rejected.append((None, offset, None, str(error), shown, run_id))
        else:
            out.write(text)
            count += 1
            longest = max(longest, len(text))
        if out.tell() >= PART_BYTES or len(rejected) >= MAX_REJECTED:
            return count, longest, True
    return count, longest, False


@contextmanager
def _reading() -> Iterator[None]:
    """Convert read errors to UnreadableFileError, to distinguish them from write errors."""
    try:
        yield
    except OSError as error:
        raise UnreadableFileError(error.strerror or str(error)) from error


def _read_line(file: IO[bytes], offset: int) -> bytes:
    if offset > MAX_FILE_BYTES:
        raise UnreadableFileError(f"longer than {MAX_FILE_BYTES:,} bytes")
    with _reading():
        return file.readline(MAX_LINE_BYTES)


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield nonempty lines with their offsets; lines that are too long are truncated.

    A byte order mark at the start of the file is not part of a line.
    """
    offset = count = 0
    while line := _read_line(file, offset):
        start, offset = offset, offset + len(line)
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = line[: REJECTED_TEXT_BYTES + 1]
            while rest := _read_line(file, offset):
                offset += len(rest)
                if rest.endswith(b"\n"):
                    break
        if start == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            count += 1
            if count > MAX_LINES:
                raise UnreadableFileError(f"more than {MAX_LINES:,} lines")
            yield start, line


def _checked(line: bytes, kind: LineKind, seen: set[object]) -> bytes:
    """Validate a line and return it in the format for DuckDB."""
    try:
        result = kind.decoder.decode(line)
        members = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _UnreadableError(f"not a {kind.what}: {error}") from None
    key = getattr(result, kind.key)
    if key in seen:
        raise _UnreadableError(f"{kind.what} {key} appears twice")
    seen.add(key)
    extra = {name: value for name, value in members.items() if name not in kind.members}
    record: dict[str, object] = {name: getattr(result, name) for name in kind.members}
    # As text, because DuckDB does not read all JSON, such as integers beyond 64 bits.
    record["extra"] = msgspec.json.encode(extra).decode() if extra else None
    return msgspec.json.encode(record) + b"\n"


def _insert(
    connection: duckdb.DuckDBPyConnection, part: Path, kind: LineKind, run_id: str, longest: int
) -> None:
    types = {**kind.columns, "extra": "VARCHAR", **kind.further_types}
    columns = ", ".join(f"{name}: {quote(type_name)}" for name, type_name in types.items())
    connection.execute(
        f"CREATE TEMP TABLE {PART} AS SELECT * FROM read_json("
        f"{quote(str(part))}, format = 'newline_delimited', columns = {{{columns}}}, "
        f"maximum_object_size = {max(2 * longest, MB)})"
    )
    try:
        names = ", ".join(kind.columns)
        connection.execute(
            f"INSERT INTO {kind.table} (run_id, {names}) "
            f"SELECT {quote(run_id)}, {names} FROM {PART} ORDER BY rowid"
        )
        for statement in kind.further_inserts:
            connection.execute(statement.format(run_id=quote(run_id)))
    finally:
        connection.execute(f"DROP TABLE {PART}")


# Formats of `requests.jsonl` and `benchmarks.jsonl`.

# Sums and differences of values below these limits fit in 64 bits.
_MAX_NS, _MAX_COUNT = 2**61, 2**53

_Id = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Clock = Annotated[int, msgspec.Meta(ge=-_MAX_NS, le=_MAX_NS)]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=_MAX_COUNT)]
_Small = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_Time = Annotated[float, msgspec.Meta(ge=0, le=_MAX_NS)]


class _Request(msgspec.Struct, kw_only=True):
    request_id: _Id
    outcome: str
    engine_request_id: str | None = None
    is_warmup: bool = False
    is_profiled: bool = False
    reason: str | None = None
    http_status: _Int32 | None = None
    attempt_count: _Int32 | None = None
    prompt_token_count: _Count | None = None
    prompt_source: str | None = None
    output_token_count: _Count | None = None
    arrival_ns: _Clock | None = None
    sent_ns: _Clock | None = None
    first_token_ns: _Clock | None = None
    end_ns: _Clock | None = None
    token_ns: list[_Clock] | None = None
    token_counts: list[_Count] | None = None
    steps: list[tuple[_Id, _Id]] | None = None


_INSERT_STEPS = (
    "INSERT INTO request_step SELECT {run_id}, request_id, step[1], step[2] "
    f"FROM (SELECT request_id, unnest(steps) AS step FROM {PART}) "
    "ORDER BY request_id, step"
)

REQUESTS = LineKind(
    what="request",
    # Created at import: two threads that concurrently create the first decoder of a class crash the
    # process.
    decoder=msgspec.json.Decoder(_Request),
    key="request_id",
    table="request",
    further_types={"steps": "BIGINT[][]"},
    further_inserts=(_INSERT_STEPS,),
)


class _Benchmark(msgspec.Struct, kw_only=True):
    bench_id: _Count
    family: Literal["gemm", "memcpy", "collective", "launch"]
    op: str
    outcome: str
    series: str | None = None
    device: str | None = None
    device_name: str | None = None
    unit_count: _Small | None = None
    thread_count: _Small | None = None
    dtype: str | None = None
    m: _Small | None = None
    n: _Small | None = None
    k: _Small | None = None
    batch: _Small | None = None
    memory: str | None = None
    message_bytes: _Count | None = None
    group_size: _Small | None = None
    backend: str | None = None
    timer: str | None = None
    warmup_count: _Count | None = None
    repeat_count: _Count | None = None
    inner_count: _Count | None = None
    sample_ns: list[_Time] | None = None
    median_ns: _Time | None = None
    low_ns: _Time | None = None
    high_ns: _Time | None = None
    min_ns: _Time | None = None
    max_ns: _Time | None = None
    confidence_pct: float | None = None
    clock_hz: _Count | None = None
    memory_clock_hz: _Count | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reason: str | None = None


BENCHMARKS = LineKind(
    what="benchmark",
    decoder=msgspec.json.Decoder(_Benchmark),
    key="bench_id",
    table="benchmark",
    further_types={},
)
