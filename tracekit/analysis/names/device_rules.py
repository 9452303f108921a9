"""Rules that identify device work in events without Kineto's categories.

``queries/rules/device_events.toml`` has the rules and describes how they are applied. Most traces
have Kineto's categories and need no rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.analysis.names.rules import Rule, builtin_content, condition, first_match
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    import duckdb

FILE_NAME = "device_events.toml"
"""Name of the file with the rules in ``queries/rules``."""

DEVICE_MARK = "device_mark"
"""Name of the table of marked events. The step also creates ``device_process``."""

ROLES = ("work", "copy", "comm", "wait", "mark", "launch")
"""Roles of device events."""

DEVICE_TABLES = f"""
CREATE TABLE {DEVICE_MARK} (trace_id INTEGER, event_id BIGINT, accelerator VARCHAR, role VARCHAR,
    class VARCHAR, device VARCHAR, stream BIGINT);
CREATE TABLE device_process (trace_id INTEGER, pid BIGINT, name VARCHAR, label VARCHAR,
    event_count BIGINT, is_unknown BOOLEAN);
"""
"""Tables of events that match rules, and of processes that are or may be devices. Both are empty
for most traces, as their categories (table event_kind) show."""

_LANE_CONDITIONS = ("process", "label", "thread", "category")

_MARK_COLUMNS = dict.fromkeys(
    ("accelerator", "reason", "call", "label", "product", "op"), "VARCHAR"
)


def lane_sql(rule: Rule) -> str:
    """Return the condition of a rule on thread names and event categories."""
    results = [condition(rule[column], column) for column in _LANE_CONDITIONS if column in rule]
    return " AND ".join(results) or "TRUE"


def event_sql(rule: Rule) -> str:
    """Return the condition of a rule on a single event, or TRUE without one."""
    results = [condition(rule["event"])] if "event" in rule else []
    if "argument" in rule:
        path = quote('$."' + rule["argument"] + '"')
        results.append(f"coalesce({condition(rule['value'], f'(args ->> {path})')}, FALSE)")
    return " AND ".join(results) or "TRUE"


def create_unrecorded_marks(connection: duckdb.DuckDBPyConnection) -> None:
    """Create table ``unrecorded_mark``: rules for the accelerator of a trace without GPU work."""
    marks = [
        (number, *(mark.get(name) for name in _MARK_COLUMNS))
        for number, mark in enumerate(builtin_content(FILE_NAME)["unrecorded"], start=1)
    ]
    columns = {"mark_id": "INTEGER", **_MARK_COLUMNS}
    connection.execute(f"CREATE TABLE unrecorded_mark AS {select_rows(columns, marks)}")


def create_device_marks(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill the tables ``device_mark`` and ``device_process``.

    Table ``device_process`` lists the processes named or labeled as devices, with the number of
    events outside Kineto's categories. ``is_unknown`` means that no rule matches any of these
    events.
    """
    is_odd, is_bare = connection.execute(
        "SELECT bool_or(category IS NULL OR NOT is_known_category(category)), "
        "bool_or(trace_id NOT IN (SELECT trace_id FROM event_kind WHERE is_device_work(category))) "
        "FROM event_kind"
    ).fetchone() or (None, None)
    if is_odd:
        _try_rules(connection)
    elif is_bare or is_bare is None:
        connection.execute(_LABELLED)


_LABELLED = """
INSERT INTO device_process
SELECT trace_id, pid, NULL, any_value(args ->> '$.labels') AS label, 0, FALSE
FROM metadata
WHERE name = 'process_labels'
GROUP BY trace_id, pid
HAVING regexp_matches(label, '^(?:GPU|XPU|MTIA|NPU|HPU)\\b')
ORDER BY trace_id, pid
"""
"""Fills ``device_process`` if no event needs a rule: with the processes that Kineto labels as
devices."""


def _try_rules(connection: duckdb.DuckDBPyConnection) -> None:
    rules: list[Rule] = builtin_content(FILE_NAME)["rule"]
    candidates = ", ".join(
        f"CASE WHEN {lane_sql(rule)} THEN {number} END" for number, rule in enumerate(rules)
    )
    chosen = first_match(
        (f"list_contains(rules, {number}) AND {event_sql(rule)}", number)
        for number, rule in enumerate(rules)
    )
    primary = [
        number
        for number, rule in enumerate(rules)
        if event_sql(rule) == "TRUE" and rule["role"] == "work" and not rule.get("is_fallback")
    ]

    def of_rule(key: str, default: object = None) -> str:
        values = [rule.get(key, default) for rule in rules]
        return f"list_extract({values!r}, rule_id + 1)".replace("None", "NULL")

    unknown = builtin_content(FILE_NAME)["unknown"]
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE device_lane AS
        WITH process AS (
            SELECT trace_id, pid,
                any_value(args ->> '$.name') FILTER (name = 'process_name') AS process,
                any_value(args ->> '$.labels') FILTER (name = 'process_labels') AS label
            FROM metadata
            WHERE name IN ('process_name', 'process_labels')
            GROUP BY trace_id, pid
        ),
        thread AS (
            SELECT trace_id, pid, tid, any_value(args ->> '$.name') AS thread
            FROM metadata
            WHERE name = 'thread_name'
            GROUP BY trace_id, pid, tid
        ),
        counted AS (
            SELECT trace_id, pid, tid, category, count(*) AS event_count
            FROM event
            WHERE category IS NULL OR NOT is_known_category(category)
            GROUP BY trace_id, pid, tid, category
        ),
        named AS (
            SELECT
                coalesce(process.trace_id, counted.trace_id) AS trace_id,
                coalesce(process.pid, counted.pid) AS pid,
                counted.tid,
                counted.category AS given_category,
                coalesce(counted.category, '') AS category,
                coalesce(process.process, '') AS process,
                coalesce(process.label, '') AS label,
                coalesce(thread.thread, '') AS thread,
                coalesce(counted.event_count, 0) AS event_count
            FROM counted
            FULL JOIN process
                ON counted.trace_id = process.trace_id AND counted.pid = process.pid
            LEFT JOIN thread
                ON counted.trace_id = thread.trace_id AND counted.pid = thread.pid
                AND counted.tid = thread.tid
        )
        SELECT
            *,
            CASE WHEN event_count > 0
                THEN list_filter([{candidates}], lambda i: i IS NOT NULL) ELSE [] END AS rules,
            try_cast(regexp_extract(process, '(\\d+)(?:\\s*\\(.*\\))?$', 1) AS BIGINT) AS number
        FROM named
        """
    )
    connection.execute(
        f"""
        INSERT INTO {DEVICE_MARK}
        WITH main AS (
            SELECT DISTINCT trace_id, pid FROM device_lane WHERE list_has_any(rules, {primary!r})
        ),
        numbered AS (
            SELECT trace_id, number, count(DISTINCT pid) AS process_count
            FROM device_lane
            WHERE number IS NOT NULL AND len(rules) > 0
            GROUP BY trace_id, number
        ),
        lane AS (
            SELECT
                l.*,
                main.pid IS NOT NULL AS has_main,
                CASE WHEN n.process_count = 1 THEN l.number END AS own_number
            FROM device_lane AS l
            LEFT JOIN main ON l.trace_id = main.trace_id AND l.pid = main.pid
            LEFT JOIN numbered AS n ON l.trace_id = n.trace_id AND l.number = n.number
            WHERE len(l.rules) > 0
        ),
        decided AS (
            SELECT
                e.trace_id, e.event_id, e.pid, e.tid, e.device, e.stream, lane.own_number,
                lane.thread, lane.has_main,
                {chosen} AS rule_id
            FROM event AS e
            INNER JOIN lane
                ON e.trace_id = lane.trace_id AND e.pid IS NOT DISTINCT FROM lane.pid
                AND e.tid IS NOT DISTINCT FROM lane.tid
                AND e.category IS NOT DISTINCT FROM lane.given_category
            WHERE e.category IS NULL OR NOT is_known_category(e.category)
        )
        SELECT
            trace_id, event_id, {of_rule("accelerator")},
            CASE WHEN has_main AND {of_rule("is_fallback", default=False)} THEN 'mark'
                ELSE {of_rule("role")} END,
            {of_rule("class")},
            CASE
                WHEN {of_rule("is_one_device", default=False)} THEN {of_rule("accelerator")}
                ELSE coalesce(device, own_number, pid)::VARCHAR
            END,
            coalesce(
                stream,
                try_cast(regexp_extract(thread, '^Stream #?(\\d+)', 1) AS BIGINT),
                tid
            )
        FROM decided
        WHERE rule_id IS NOT NULL
        ORDER BY trace_id, event_id
        """
    )
    connection.execute(
        f"""
        INSERT INTO device_process
        WITH marked AS (
            SELECT DISTINCT e.trace_id, e.pid
            FROM {DEVICE_MARK} AS m
            INNER JOIN event AS e ON m.trace_id = e.trace_id AND m.event_id = e.event_id
        )
        SELECT
            lane.trace_id, lane.pid, any_value(process), any_value(label),
            sum(event_count)::BIGINT, bool_and(marked.pid IS NULL) AND sum(event_count) > 0
        FROM device_lane AS lane
        LEFT JOIN marked ON lane.trace_id = marked.trace_id AND lane.pid = marked.pid
        WHERE regexp_matches(label, '^(?:GPU|XPU|MTIA|NPU|HPU)\\b')
            OR (
                regexp_matches(process, {quote(unknown["process"])})
                AND NOT regexp_matches(process, {quote(unknown["but_not"])})
            )
        GROUP BY lane.trace_id, lane.pid
        ORDER BY lane.trace_id, lane.pid
        """
    )
    connection.execute("DROP TABLE device_lane")
    connection.execute(_LINK_BY_ARROWS)


_LINK_BY_ARROWS = f"""
CREATE TEMP TABLE arrow_launch AS
WITH arrow_end AS (
    SELECT trace_id, category, id, ph, pid, tid, ts_ns
    FROM record
    WHERE view_name = 'flow' AND category IN ('async_npu', 'HostToDevice') AND id IS NOT NULL
)
SELECT
    w.trace_id, w.event_id,
    arg_min(h.event_id, (s.category = 'HostToDevice', h.dur_ns, h.event_id)) AS launch_id
FROM arrow_end AS s
INNER JOIN arrow_end AS f USING (trace_id, category, id)
INNER JOIN event AS h
    ON s.trace_id = h.trace_id AND s.pid = h.pid AND s.tid = h.tid AND s.ts_ns = h.ts_ns
INNER JOIN event AS w
    ON f.trace_id = w.trace_id AND f.pid = w.pid AND f.tid = w.tid AND f.ts_ns = w.ts_ns
INNER JOIN {DEVICE_MARK} AS m ON w.trace_id = m.trace_id AND w.event_id = m.event_id
WHERE s.ph = 's' AND f.ph = 'f' AND m.role IN ('work', 'copy', 'comm')
GROUP BY w.trace_id, w.event_id;
UPDATE record SET correlation = a.launch_id FROM arrow_launch AS a
WHERE record.trace_id = a.trace_id AND record.event_id IN (a.event_id, a.launch_id);
INSERT INTO {DEVICE_MARK} (trace_id, event_id, accelerator, role)
SELECT DISTINCT trace_id, launch_id, 'npu', 'launch' FROM arrow_launch ORDER BY ALL;
DROP TABLE arrow_launch
"""
"""Derives correlation ids, which Ascend traces lack. A flow async_npu links an op on the
Python thread to device work; a flow HostToDevice links a call in the process CANN. If both exist,
the op is used, because it has a phase and module. The id is the event_id of the launching event."""
