"""Pairs begin and end events into spans.

The format: "Trace Event Format" (Google, 2016), sections "Duration Events" and "Async Events". `B`
and `E` nest on their thread; `b` and `e` match by category and id on any thread. Events may be in
any order in the file. End events may lack a name. An end event ends the most recently opened span.
If all end events of a thread or id have names, it ends the most recently opened span with its name,
as in Perfetto, so that a lost end event affects no other span.

Events with equal times are paired in file order if the events of the thread are sorted by time.
Otherwise, earlier spans end first, and the remaining end events close spans that begin at that
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.event_description import LINKS, MAX_DUR_US
from tracekit.units import NS_PER_US

if TYPE_CHECKING:
    import duckdb

NO_END = "no end: it counts until the end of the trace"
NO_BEGIN = "no begin: it is not counted"
TOO_LONG = "its end is more than 11 days later, so its duration counts as 0"
"""Reason in table unpaired for a span whose duration is set to zero."""

_LINKS = [link.name for link in LINKS]

# One row per begin or end event. Events nest within `lane`, and their `label` must match.
_EDGES = """
CREATE OR REPLACE TABLE scratch.edge AS
WITH sided AS (
    SELECT
        event_id, ts_ns, view_name = 'event' AS is_begin,
        CASE
            WHEN ph IN ('B', 'E') THEN row(pid, tid, NULL, NULL)
            ELSE row(
                -- An id that is local is one of its process.
                CASE WHEN id IS NULL AND extra ->> '$.id2.local' IS NOT NULL THEN pid END,
                NULL,
                category,
                coalesce(id, extra ->> '$.id2.global', extra ->> '$.id2.local')
            )
        END AS lane,
        ph IN ('B', 'E') AS is_on_thread,
        coalesce(name, '') AS name
    FROM record
    WHERE trace_id = {trace_id}
        AND ((view_name = 'event' AND ph IN ('B', 'b')) OR view_name = 'span_end')
),
checked AS (
    SELECT
        *,
        bool_and(is_begin OR name <> '') OVER lane AS has_names,
        ts_ns < lag(ts_ns) OVER (PARTITION BY is_on_thread, lane ORDER BY event_id) AS is_back
    FROM sided
    WINDOW lane AS (PARTITION BY is_on_thread, lane)
)
SELECT
    event_id, ts_ns, is_begin, is_on_thread, lane,
    CASE WHEN has_names THEN name ELSE '' END AS label,
    NOT coalesce(bool_or(is_back) OVER (PARTITION BY is_on_thread, lane), FALSE) AS is_in_order
FROM checked
"""

# For an unsorted lane, compute the number of open spans before each time: the running sum minus its
# minimum so far, because ends without an open span do not count.
_PAIRS = """
CREATE OR REPLACE TABLE scratch.pair AS
WITH instant AS (
    SELECT
        is_on_thread, lane, label, ts_ns,
        sum(CASE WHEN is_begin THEN 1 ELSE -1 END) AS step
    FROM scratch.edge
    WHERE NOT is_in_order
    GROUP BY ALL
),
summed AS (
    SELECT
        * EXCLUDE (step),
        coalesce(sum(step) OVER before, 0) AS sum_before,
        sum(step) OVER (
            PARTITION BY is_on_thread, lane, label ORDER BY ts_ns ROWS UNBOUNDED PRECEDING
        ) AS sum_after
    FROM instant
    WINDOW before AS (
        PARTITION BY is_on_thread, lane, label ORDER BY ts_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
opened AS (
    SELECT
        is_on_thread, lane, label, ts_ns,
        sum_before - least(0, coalesce(min(sum_after) OVER (
            PARTITION BY is_on_thread, lane, label ORDER BY ts_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)) AS open_count
    FROM summed
),
turned AS (
    SELECT
        edge.*,
        CASE
            WHEN edge.is_in_order THEN 0
            WHEN edge.is_begin THEN 1
            WHEN row_number() OVER (
                PARTITION BY edge.is_on_thread, edge.lane, edge.label, edge.ts_ns, edge.is_begin
                ORDER BY edge.event_id
            ) <= opened.open_count THEN 0
            ELSE 2
        END AS turn
    FROM scratch.edge AS edge
    LEFT JOIN opened
        ON edge.is_on_thread = opened.is_on_thread AND edge.lane IS NOT DISTINCT FROM opened.lane
        AND edge.label = opened.label AND edge.ts_ns = opened.ts_ns
),
walked AS (
    SELECT *, sum(CASE WHEN is_begin THEN 1 ELSE -1 END) OVER walk AS sum
    FROM turned
    WINDOW walk AS (
        PARTITION BY is_on_thread, lane, label ORDER BY ts_ns, turn, event_id
        ROWS UNBOUNDED PRECEDING
    )
),
bottomed AS (
    SELECT
        *,
        least(0, min(sum) OVER walk) AS lowest,
        least(0, coalesce(min(sum) OVER (
            PARTITION BY is_on_thread, lane, label ORDER BY ts_ns, turn, event_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)) AS lowest_before
    FROM walked
    WINDOW walk AS (
        PARTITION BY is_on_thread, lane, label ORDER BY ts_ns, turn, event_id
        ROWS UNBOUNDED PRECEDING
    )
),
levelled AS (
    SELECT
        *,
        NOT is_begin AND lowest < lowest_before AS is_stray,
        sum - lowest + CASE WHEN is_begin THEN 0 ELSE 1 END AS level
    FROM bottomed
),
-- On its level, a begin is followed by its own end, or by nothing.
followed AS (
    SELECT
        event_id, ts_ns, is_begin, is_stray,
        lead(event_id) OVER level AS end_id,
        lead(ts_ns) OVER level AS end_ns
    FROM levelled
    WINDOW level AS (
        PARTITION BY is_on_thread, lane, label, is_stray, level ORDER BY ts_ns, turn, event_id
    )
)
SELECT event_id, ts_ns, is_begin, end_id, end_ns
FROM followed
WHERE is_begin OR is_stray
"""

_UNPAIRED = f"""
INSERT INTO unpaired
SELECT
    {{trace_id}}, event_id, is_begin,
    CASE
        WHEN NOT is_begin THEN '{NO_BEGIN}'
        WHEN end_id IS NULL THEN '{NO_END}'
        ELSE '{TOO_LONG}'
    END
FROM scratch.pair
WHERE NOT is_begin OR end_id IS NULL OR end_ns - ts_ns > {MAX_DUR_US * NS_PER_US}
ORDER BY event_id
"""

# Insert complete rows and then delete the begin events, which is many times faster than UPDATE.
# Arguments of the end event take precedence.
_SPANS = f"""
INSERT INTO record
SELECT record.* REPLACE (
    CASE
        WHEN coalesce(pair.end_ns, {{end_ns}}) - pair.ts_ns > {MAX_DUR_US * NS_PER_US} THEN 0
        ELSE coalesce(pair.end_ns, {{end_ns}}) - pair.ts_ns
    END AS dur_ns,
    CASE
        WHEN finish.args IS NULL THEN record.args
        WHEN record.args IS NULL THEN finish.args
        ELSE json_merge_patch(record.args, finish.args)
    END AS args,
    {", ".join(f"coalesce(finish.{name}, record.{name}) AS {name}" for name in _LINKS)}
)
FROM record
INNER JOIN scratch.pair AS pair ON record.event_id = pair.event_id AND pair.is_begin
LEFT JOIN (
    SELECT event_id, args, {", ".join(_LINKS)}
    FROM record
    WHERE trace_id = {{trace_id}} AND view_name = 'span_end' AND args <> '{{{{}}}}'
) AS finish ON pair.end_id = finish.event_id
WHERE record.trace_id = {{trace_id}} AND record.view_name = 'event' AND record.dur_ns IS NULL
"""

_BARE_BEGINS = """
DELETE FROM record WHERE trace_id = {trace_id} AND view_name = 'event' AND dur_ns IS NULL
"""


def pair_spans(connection: duckdb.DuckDBPyConnection, trace_id: int) -> int:
    """Set the duration of begin events, and add events without a counterpart to table unpaired.

    A span without an end event lasts until the end of the trace. Return the number of rows of the
    trace in table unpaired.
    """
    (end_ns,) = connection.execute(
        "SELECT max(ts_ns + CASE WHEN ph = 'X' THEN dur_ns ELSE 0 END) FROM record "
        f"WHERE trace_id = {trace_id} AND view_name IN ('event', 'span_end')"
    ).fetchone() or (0,)
    for statement in (_EDGES, _PAIRS, _UNPAIRED, _SPANS, _BARE_BEGINS):
        connection.execute(statement.format(trace_id=trace_id, end_ns=end_ns or 0))
    for table in ("edge", "pair"):
        connection.execute(f"DROP TABLE scratch.{table}")
    (unpaired_count,) = connection.execute(
        f"SELECT count(*) FROM unpaired WHERE trace_id = {trace_id}"
    ).fetchone() or (0,)
    return int(unpaired_count)
