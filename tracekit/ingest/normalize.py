"""Turns a block of events into typed rows.

DuckDB reads the JSON of a block into a table of its own; from there every event goes to the table
of its phase, or is named as unreadable. Times become integer nanoseconds here.

Exactness of times: the trace gives microseconds as decimal text, up to three decimals. A double
keeps them apart only below 2**43 (8.8e12, i.e. times counted from a recent base). Above, a whole
number is converted as an integer, and one with decimals is read again from its text in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

import msgspec

from tracekit.ingest.chrome_json import EVENT_MEMBERS, EXTRA_KEY, Block
from tracekit.schema import KIND_TYPE
from tracekit.sql_text import quote
from tracekit.units import NS_PER_US

EXACT_DOUBLE_US = 8.7e12
"""Below this, microseconds with three decimals survive a double (2**43, rounded down)."""

MAX_TIME_US = 4 * 10**15
"""Times beyond are refused: a start and a duration must add up within 64 bits."""

MIN_TIME_US = -4 * 10**14
"""Times before are refused too: twice the length of any window must stay within 64 bits."""

MAX_DUR_US = 10**12
"""Longer durations (11 days) are refused: sums of thousands of them must stay within 64 bits."""

LINKS = {
    "external_id": "External id",
    "correlation": "correlation",
    "stream": "stream",
    "device": "device",
    "python_id": "Python id",
    "python_parent_id": "Python parent id",
    "python_module_id": "Python module id",
    "sequence_number": "Sequence number",
    "forward_thread": "Fwd thread id",
}
"""Column of table event, and the argument of Kineto's that it holds."""


_IS_BEGIN = "coalesce(ph IN ('B', 'b'), FALSE)"


def _ns(text: str, number: str) -> str:
    """Return SQL for integer ns from decimal microseconds; NULL where a double is not enough."""
    return f"""CASE
        WHEN abs({number}) < {EXACT_DOUBLE_US} THEN
            floor({number})::BIGINT * {NS_PER_US}
            + round(({number} - floor({number})) * {NS_PER_US})::BIGINT
        WHEN abs({number}) <= {MAX_TIME_US} AND NOT regexp_matches({text}, '[.eE]')
            THEN {text}::BIGINT * {NS_PER_US}
    END"""


def _stand_in(text: str) -> str:
    """Return SQL for the negative number that stands for a text as a process or thread id."""
    return f"-1 - (hash({text}) % 1000000007)::BIGINT"


def _thread(column: str) -> str:
    """Return SQL for a process or thread id: the number, the stand-in for a text, NULL."""
    return f"""CASE WHEN {column} IS NOT NULL
        THEN coalesce({column}_number, {_stand_in(column)}) END"""


def _with_extra(*members: str) -> str:
    """Return SQL for the members without a column, and those of ``members`` that are there."""
    listed = ", ".join(f"'{member}', {member}" for member in members)
    return f"""json_merge_patch(coalesce("{EXTRA_KEY}", '{{}}'), json_object({listed}))"""


def events_sql(paths: Sequence[str], first_event_id: int, text_bytes: int) -> str:
    """Return the SELECT that reads JSON arrays of consecutive events.

    Its rows have the columns of table `record` but for trace_id; where an event is not read, or its
    times are not exact, `kind` is NULL. Further columns say why: `fault`, `is_inexact`.

    Args:
        paths: the files, in order.
        first_event_id: position in the trace of the first event.
        text_bytes: size of the largest file, bytes.
    """
    files = ", ".join(map(quote, paths))
    columns = ", ".join(f"{name}: 'VARCHAR'" for name in EVENT_MEMBERS if name != "args")
    structure = msgspec.json.encode(dict.fromkeys(LINKS.values(), "BIGINT")).decode()
    # Traces of 2021 and before write "external id"; DuckDB's struct keys know no case.
    links = ", ".join(
        f'coalesce(link."{key}", TRY_CAST(args ->> \'$."external id"\' AS BIGINT)) AS {column}'
        if column == "external_id"
        else f'nullif(link."{key}", 0) AS {column}'
        if column == "correlation"
        else f'link."{key}" AS {column}'
        for column, key in LINKS.items()
    )
    return f"""
    WITH member AS (
        SELECT
            row_number() OVER () - 1 + {first_event_id} AS event_id,
            *,
            TRY_CAST(ts AS DOUBLE) AS ts_us,
            -- A begin has no duration of its own: it lasts until its end.
            CASE WHEN {_IS_BEGIN} THEN NULL ELSE TRY_CAST(dur AS DOUBLE) END AS dur_us,
            TRY_CAST(pid AS BIGINT) AS pid_number,
            TRY_CAST(tid AS BIGINT) AS tid_number,
            from_json(args, {quote(structure)}) AS link
        FROM read_json([{files}], format = 'array',
            maximum_object_size = {text_bytes + 1},
            columns = {{{columns}, args: 'JSON', {quote(EXTRA_KEY)}: 'JSON'}})
    ),
    number AS (
        SELECT
            event_id, ph, cat, name, id, s, bp, args, link,
            {_thread("pid")} AS pid,
            {_thread("tid")} AS tid,
            {_ns("ts", "ts_us")} AS ts_ns,
            {_ns("dur", "dur_us")} AS dur_ns,
            CAST(CASE
                WHEN ph = 'X' OR {_IS_BEGIN} THEN 'event'
                WHEN ph IN ('E', 'e') THEN 'span_end'
                WHEN ph IN ('s', 't', 'f') THEN 'flow'
                WHEN ph IN ('i', 'I', 'R', 'n') AND name = '[memory]' THEN 'memory'
                WHEN ph IN ('i', 'I', 'R', 'n') THEN 'instant'
                WHEN ph = 'C' THEN 'counter'
                WHEN ph = 'M' THEN 'metadata'
            END AS {KIND_TYPE}) AS form,
            CASE
                WHEN ts_us IS NULL THEN CASE WHEN ts IS NULL THEN 'no ts' ELSE 'ts is no number' END
                WHEN NOT isfinite(ts_us) OR contains(ts, '_') THEN 'ts is no number'
                WHEN NOT ts_us BETWEEN {MIN_TIME_US} AND {MAX_TIME_US} THEN 'ts is out of range'
            END AS ts_fault,
            CASE
                WHEN dur_us IS NULL
                    THEN CASE WHEN dur IS NULL THEN 'no dur' ELSE 'dur is no number' END
                WHEN NOT isfinite(dur_us) OR contains(dur, '_') THEN 'dur is no number'
                WHEN dur_us < 0 THEN 'negative dur'
                WHEN dur_us > {MAX_DUR_US} THEN 'dur is out of range'
            END AS dur_fault,
            CASE
                WHEN (pid IS NOT NULL AND pid_number IS NULL)
                    OR (tid IS NOT NULL AND tid_number IS NULL)
                    THEN {_with_extra("pid", "tid")}
                WHEN (ph = 'X' OR {_IS_BEGIN}) AND coalesce(id, s, bp) IS NOT NULL
                    THEN {_with_extra("id", "s", "bp")}
                WHEN ph IN ('s', 't', 'f') AND id IS NOT NULL AND TRY_CAST(id AS BIGINT) IS NULL
                    THEN {_with_extra("id")}
                ELSE "{EXTRA_KEY}"
            END AS extra
        FROM member
    ),
    judged AS (
        SELECT
            * EXCLUDE (link),
            {links},
            CASE
                WHEN form = 'metadata' THEN NULL
                WHEN ph IS NULL THEN 'no phase (ph)'
                WHEN form IS NULL THEN 'phase ' || ph || ' is not read'
                WHEN ts_fault IS NOT NULL THEN ts_fault
                WHEN ph = 'X' THEN dur_fault
            END AS fault,
            (ts_ns IS NULL AND ts_fault IS NULL) OR (dur_ns IS NULL AND dur_fault IS NULL)
                AS is_inexact
        FROM number
    )
    SELECT
        event_id,
        CASE WHEN fault IS NULL THEN form END AS kind,
        ph AS phase, pid, tid, cat AS category,
        CASE WHEN form = 'event' THEN coalesce(name, '') ELSE name END AS name,
        ts_ns, dur_ns, {", ".join(LINKS)}, id, s AS scope, bp AS binding, args, extra,
        fault, is_inexact
    FROM judged
    """


_OWN = "fault, is_inexact"
"""Columns of :func:`events_sql` that table record does not have."""


def block_sql(table: str, paths: Sequence[str], first_event_id: int, text_bytes: int) -> str:
    """Return the statement that reads the JSON files of consecutive blocks into ``table``.

    Args:
        table: made anew; its columns are those of :func:`events_sql`.
        paths: the files, in order.
        first_event_id: position in the trace of the first event.
        text_bytes: size of the largest file, bytes.
    """
    events = events_sql(paths, first_event_id, text_bytes)
    return f"CREATE OR REPLACE TABLE {table} AS {events}"


def direct_sql(trace_id: int, paths: Sequence[str], first_event_id: int, text_bytes: int) -> str:
    """Return the statement by which table record takes the events of consecutive blocks.

    Rows whose kind is NULL could not be read, or their times are not exact.

    Args:
        trace_id: the trace.
        paths: the JSON files of the blocks, in order.
        first_event_id: position in the trace of the first event.
        text_bytes: size of the largest file, bytes.
    """
    return f"""INSERT INTO record BY NAME
        SELECT {trace_id} AS trace_id,
            * EXCLUDE ({_OWN}) REPLACE (CASE WHEN NOT is_inexact THEN kind END AS kind)
        FROM ({events_sql(paths, first_event_id, text_bytes)})"""


def columns_sql(trace_id: int, source: str) -> str:
    """Return the statement by which table record takes events that came as columns.

    Args:
        trace_id: the trace.
        source: name of a table with the columns of native/columns.h.
    """
    threads = ", ".join(
        f"CASE WHEN {name}_text IS NULL THEN {name} ELSE {_stand_in(name + '_text')} END AS {name}"
        for name in ("pid", "tid")
    )
    return f"""INSERT INTO record BY NAME
        SELECT {trace_id} AS trace_id,
            * EXCLUDE (pid_text, tid_text) REPLACE ({threads}, kind::{KIND_TYPE} AS kind)
        FROM {source}"""


def census_sql(block: str) -> str:
    """Return the statement that counts a block's rows that are not read, and its inexact times."""
    return f"SELECT count(*) FILTER (kind IS NULL), count(*) FILTER (is_inexact) FROM {block}"


def fault_sql(block: str) -> str:
    """Return the statement that gives a block's rows that no table takes, with the reason."""
    return f"SELECT event_id, fault FROM {block} WHERE kind IS NULL ORDER BY event_id"


def insert_sql(trace_id: int, block: str) -> str:
    """Return the statement by which table record takes the rows of a block that were read."""
    return (
        f"INSERT INTO record BY NAME SELECT {trace_id} AS trace_id, * EXCLUDE ({_OWN}) "
        f"FROM {block} WHERE kind IS NOT NULL"
    )


class _Times(msgspec.Struct, gc=False):
    ts: msgspec.Raw = None  # type: ignore[assignment]
    dur: msgspec.Raw = None  # type: ignore[assignment]


_times = msgspec.json.Decoder(list[_Times])


def exact_times(block: Block) -> bytes:
    """Read the times of a block from their decimal text.

    Returns:
        A JSON array with one object per event that has a readable start:
        ``{"event_id": …, "ts_ns": …, "dur_ns": …}``.
    """
    rows = []
    for event_id, event in enumerate(_times.decode(block.text), start=block.first_event_id):
        ts_ns, dur_ns = _exact_ns(event.ts), _exact_ns(event.dur)
        if ts_ns is not None:
            rows.append({"event_id": event_id, "ts_ns": ts_ns, "dur_ns": dur_ns})
    return msgspec.json.encode(rows)


def _exact_ns(raw: msgspec.Raw | None) -> int | None:
    if raw is None:
        return None
    text = bytes(raw).decode().strip('"')
    try:
        # Three decimals without an exponent are by far the most: no decimal arithmetic for them.
        whole, point, fraction = text.partition(".")
        if point and len(fraction) == 3 and fraction.isdigit() and whole.isdigit():
            return int(whole + fraction)
        ns = (Decimal(text) * NS_PER_US).to_integral_value(ROUND_HALF_EVEN)
    except (ArithmeticError, ValueError):
        return None
    return int(ns) if ns.is_finite() and abs(ns) <= MAX_TIME_US * NS_PER_US else None


def exact_sql(block: str, path: str) -> str:
    """Return the statement that puts the times of :func:`exact_times`, in a file, in their rows."""
    return f"""
        UPDATE {block} SET ts_ns = exact.ts_ns,
            dur_ns = CASE WHEN phase NOT IN ('B', 'b') THEN exact.dur_ns END
        FROM read_json({quote(path)}, format = 'array',
            columns = {{event_id: 'BIGINT', ts_ns: 'BIGINT', dur_ns: 'BIGINT'}}) AS exact
        WHERE {block}.event_id = exact.event_id AND {block}.is_inexact
    """
