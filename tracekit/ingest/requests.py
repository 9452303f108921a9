"""Loads `requests.jsonl` into the tables `request` and `request_step`, a part at a time.

A line that cannot be read is set aside in table `rejected` with its place; the others count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import msgspec

from tracekit.ingest.progress import Progress
from tracekit.schema import RUN_TABLES
from tracekit.sql_text import quote, rows
from tracekit.units import MB

if TYPE_CHECKING:
    import duckdb

MAX_LINE_BYTES = 64 * MB
"""A longer line is none of ours."""

PART_BYTES = 8 * MB
"""How much text DuckDB is given at once."""

MAX_REJECTED = 1000
"""How many lines are set aside in one statement."""

REJECTED_TEXT_BYTES = 2048

_INT64 = 2**63

_Int = Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64 - 1)]
_Small = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=_INT64 - 1)]


class _Line(msgspec.Struct, kw_only=True):
    """A line, as far as it has columns."""

    request_id: _Int
    outcome: str
    engine_request_id: str | None = None
    is_warmup: bool = False
    is_profiled: bool = False
    reason: str | None = None
    http_status: _Small | None = None
    attempt_count: _Small | None = None
    prompt_token_count: _Count | None = None
    prompt_source: str | None = None
    output_token_count: _Count | None = None
    arrival_ns: _Int | None = None
    sent_ns: _Int | None = None
    first_token_ns: _Int | None = None
    end_ns: _Int | None = None
    token_ns: list[_Int] | None = None
    token_counts: list[_Count] | None = None
    steps: list[tuple[_Int, _Int]] | None = None


_MEMBERS = frozenset(_Line.__struct_fields__)
_COLUMNS = {
    column.name: column.type
    for table in RUN_TABLES
    if table.name == "request"
    for column in table.columns
    if column.name != "run_id"
}


class _UnreadableError(Exception):
    """A line is no request."""


def load_requests(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    run_id: str,
    work_folder: Path,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[int, int]:
    """Read the requests of a run.

    Args:
        connection: of the store that is being built.
        path: the `requests.jsonl`.
        run_id: of the run, as it will be in table `run`.
        work_folder: where text may lie while DuckDB reads it.
        progress: called now and then with how far the reading is.

    Returns:
        How many requests there are, and how many lines were set aside.

    Raises:
        OSError: the file cannot be read.
    """
    part = work_folder / "requests.json"
    request_count = rejected_count = 0
    seen: set[int] = set()
    file_bytes = path.stat().st_size
    with path.open("rb") as file:
        lines = _lines(file)
        is_more = True
        while is_more:
            rejected: list[tuple[object, ...]] = []
            with part.open("wb") as out:
                count, longest, is_more = _write_part(lines, out, seen, run_id, rejected)
            if count:
                _insert(connection, part, run_id, longest)
            if rejected:
                connection.execute(f"INSERT INTO rejected VALUES {rows(rejected)}")
            request_count += count
            rejected_count += len(rejected)
            if progress is not None:
                progress(Progress(str(path), file.tell(), file_bytes, request_count))
    part.unlink()
    return request_count, rejected_count


def _write_part(
    lines: Iterator[tuple[int, bytes]],
    out: IO[bytes],
    seen: set[int],
    run_id: str,
    rejected: list[tuple[object, ...]],
) -> tuple[int, int, bool]:
    """Write the next lines as DuckDB shall read them, or set them aside.

    Returns:
        How many were written, the bytes of the longest, and whether there may be more.
    """
    count = longest = 0
    for offset, line in lines:
        try:
            text = _checked(line, seen)
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


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty, with where they begin; of an endless one its beginning.

    A byte order mark at the start of the file is no part of a line.
    """
    offset = 0
    while line := file.readline(MAX_LINE_BYTES):
        start, offset = offset, offset + len(line)
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = line[: REJECTED_TEXT_BYTES + 1]
            while rest := file.readline(MAX_LINE_BYTES):
                offset += len(rest)
                if rest.endswith(b"\n"):
                    break
        if start == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield start, line


def _checked(line: bytes, seen: set[int]) -> bytes:
    """Return a line as DuckDB shall read it.

    Raises:
        _UnreadableError: it is no request, or one whose number was there before.
    """
    try:
        found = msgspec.json.decode(line, type=_Line)
        members = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _UnreadableError(f"no request: {error}") from None
    if found.request_id in seen:
        raise _UnreadableError(f"request {found.request_id} comes twice")
    seen.add(found.request_id)
    extra = {name: value for name, value in members.items() if name not in _MEMBERS}
    record: dict[str, object] = {name: getattr(found, name) for name in _MEMBERS}
    # As text: what is in it need not be JSON that DuckDB reads (numbers beyond 64 bits).
    record["extra"] = msgspec.json.encode(extra).decode() if extra else None
    return msgspec.json.encode(record) + b"\n"


def _insert(connection: duckdb.DuckDBPyConnection, part: Path, run_id: str, longest: int) -> None:
    types = {**_COLUMNS, "extra": "VARCHAR", "steps": "BIGINT[][]"}
    columns = ", ".join(f"{name}: {quote(type_name)}" for name, type_name in types.items())
    connection.execute(
        "CREATE TEMP TABLE request_part AS SELECT * FROM read_json("
        f"{quote(str(part))}, format = 'newline_delimited', columns = {{{columns}}}, "
        f"maximum_object_size = {max(2 * longest, MB)})"
    )
    try:
        names = ", ".join(_COLUMNS)
        connection.execute(
            f"INSERT INTO request (run_id, {names}) "
            f"SELECT {quote(run_id)}, {names} FROM request_part ORDER BY rowid"
        )
        connection.execute(
            "INSERT INTO request_step "
            f"SELECT {quote(run_id)}, request_id, step[1], step[2] "
            "FROM (SELECT request_id, unnest(steps) AS step FROM request_part) "
            "ORDER BY request_id, step"
        )
    finally:
        connection.execute("DROP TABLE request_part")
