"""Views of device events, idle gaps, and all data of one event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tracekit.analysis.result import Result, columns_of_text
from tracekit.browse.page import (
    AnalysisView,
    Asked,
    Page,
    Row,
    SqlView,
    View,
    cut,
    holding,
    literal_of,
)
from tracekit.browse.query_worker import Answers
from tracekit.render._cells import text_columns

_EVENTS = """SELECT
    e.dur_ns, e.wall_ns, e.ts_ns - t.first_ts_ns AS start_ns, e.phase, w.rank, e.device, e.stream,
    e.name, m.path AS module_path, e.class, e.event_id, e.trace_id, e.piece
FROM attributed_events AS e
INNER JOIN trace AS t ON e.trace_id = t.trace_id
INNER JOIN device_windows AS w ON e.trace_id = w.trace_id AND e.device = w.device
LEFT JOIN module AS m ON e.trace_id = m.trace_id AND e.module_id = m.module_id"""

_GAPS = """SELECT
    e.idle_ns, e.start_ns - t.first_ts_ns AS start_ns, e.cause, w.rank, e.device,
    o.name AS op, n.name AS next_kernel, m.path AS module_path, e.reason, e.trace_id, e.gap_id
FROM idle_gap AS e
INNER JOIN trace AS t ON e.trace_id = t.trace_id
INNER JOIN device_windows AS w ON e.trace_id = w.trace_id AND e.device = w.device
LEFT JOIN event AS o ON e.trace_id = o.trace_id AND e.op_id = o.event_id
LEFT JOIN event AS n ON e.trace_id = n.trace_id AND e.next_event_id = n.event_id
LEFT JOIN module AS m ON e.trace_id = m.trace_id AND e.module_id = m.module_id"""

_AROUND = """SELECT
    p.place, p.role, e.dur_ns, e.ts_ns - t.first_ts_ns AS start_ns, e.category, e.name,
    e.trace_id, e.event_id
FROM (
    SELECT
        g.trace_id,
        unnest([1, 2, 3]) AS place,
        unnest(['ran before', 'op', 'ran next']) AS role,
        unnest([g.previous_event_id, g.op_id, g.next_event_id]) AS event_id
    FROM (
        FROM idle_gap
        WHERE trace_id = {trace_id} AND gap_id = {gap_id}
        ORDER BY idle_ns DESC
        LIMIT 1
    ) AS g
) AS p
INNER JOIN event AS e ON p.trace_id = e.trace_id AND p.event_id = e.event_id
INNER JOIN trace AS t ON e.trace_id = t.trace_id"""

_LINKS = ("launch_id", "op_id", "like_event_id")


def device_is(rank: int | None, device: str) -> list[str]:
    of_rank = "w.rank IS NULL" if rank is None else f"w.rank = {rank}"
    return [of_rank, f"e.device = {literal_of(device)}"]


def device_text(rank: int | None, device: str) -> str:
    # On a CPU, there are more rows than ops, but their times add up to the busy time.
    named = "cpu (rows are segments of ops)" if device == "cpu" else f"device {device}"
    return f"{named} of traces without a rank" if rank is None else f"rank {rank}, {named}"


def module_is(path: str) -> str:
    return f"""(e.row_name = {literal_of(path)} OR (e.trace_id, e.module_id) IN (
    SELECT (i.trace_id, i.module_id)
    FROM module AS o
    INNER JOIN module AS i
        ON o.trace_id = i.trace_id AND i.position BETWEEN o.position AND o.last_position
    WHERE o.rollup_path = {literal_of(path)}
))"""


def events_of(title: str, conditions: Sequence[str], by: str = "dur") -> View:
    """Return the device events that match conditions, the longest first."""
    first = ("wall_ns", "dur_ns") if by == "wall" else ("dur_ns",)
    return SqlView(
        title,
        _EVENTS + _where(conditions),
        f"{first[0]} DESC, trace_id, event_id, piece",
        (*first, "start_ns", "phase", "name", "module_path", "rank", "device", "stream", "piece"),
        ("name", "phase", "class", "module_path"),
        _event_of,
    )


def gaps_of(title: str, conditions: Sequence[str]) -> View:
    """Return the idle gaps that match conditions, the longest first."""
    return SqlView(
        title,
        _GAPS + _where(conditions),
        "idle_ns DESC, trace_id, gap_id, start_ns",
        ("idle_ns", "start_ns", "cause", "op", "next_kernel", "module_path", "rank", "device"),
        ("cause", "reason", "op", "next_kernel", "module_path"),
        _around,
    )


def _where(conditions: Sequence[str]) -> str:
    return "".join(
        f"\n{'AND' if number else 'WHERE'} {condition}"
        for number, condition in enumerate(conditions)
    )


def _around(row: Row) -> View:
    return SqlView(
        f"Around an idle gap: {row['cause']}, {row['reason']}",
        _AROUND.format(trace_id=int(row["trace_id"]), gap_id=int(row["gap_id"])),
        "place",
        ("role", "dur_ns", "start_ns", "category", "name"),
        ("role", "category", "name"),
        _event_of,
    )


def _event_of(row: Row) -> View:
    return Event(row["trace_id"], row["event_id"], row.get("piece", 0), row["name"] or "")


class Event(Struct, frozen=True):
    """All data of one event, one row per field.

    Recorded fields are from table event, and derived fields from view attributed_events.
    """

    trace_id: int
    event_id: int
    piece: int
    name: str

    @property
    def title(self) -> str:
        return f"Event {self.event_id}: {self.name}"

    def _statements(self) -> dict[str, str]:
        key = f"trace_id = {int(self.trace_id)} AND event_id = {int(self.event_id)}"
        return {
            "attribution": "SELECT a.* EXCLUDE (trace_id, event_id, category, name), "
            "m.path AS module_path\nFROM attributed_events AS a\n"
            "LEFT JOIN module AS m USING (trace_id, module_id)\n"
            f"WHERE {key} AND piece = {int(self.piece)}",
            "event": f"SELECT * EXCLUDE (args, extra) FROM event WHERE {key}",
            "args": "SELECT a.key, a.value::VARCHAR AS value FROM event, json_each(args) AS a\n"
            f"WHERE {key} LIMIT 1000",
        }

    def page(self, answers: Answers, number: int, search: str) -> Page:
        results = {name: answers.sql(text) for name, text in self._statements().items()}
        is_attributed = bool(results["attribution"].rows)
        rank = answers.sql(f"SELECT rank FROM trace WHERE trace_id = {int(self.trace_id)}").rows
        rows = [
            (source, *field, is_attributed, rank[0][0])
            for source in ("attribution", "event")
            for field in _fields(results[source])
        ]
        for key, value in results["args"].rows:
            rows.append(("args", key, value, None, is_attributed, rank[0][0]))
        columns = columns_of_text(
            "of VARCHAR, field VARCHAR, value VARCHAR, linked_id BIGINT, is_attributed BOOLEAN, "
            "rank INTEGER"
        )
        result = holding(Result("event", columns, rows), search)
        return cut(result, ("field", "value", "of"), number)

    def definition(self, traces: Sequence[str], search: str) -> str:
        texts = [
            SqlView("", text, "ALL", (), ()).definition(traces, "")
            for text in self._statements().values()
        ]
        del search
        return "\n\n".join(texts)

    def deeper(self, row: Row) -> View | None:
        """Return the view of a linked event, or a view that explains this event's attribution."""
        if row["field"] in _LINKS and row["linked_id"] is not None:
            return Event(self.trace_id, row["linked_id"], 0, row["field"])
        if not row["is_attributed"]:
            return None
        return AnalysisView(
            f"Why event {self.event_id} is in its phase and its module",
            Asked("why", {"event_id": self.event_id}),
            ("decides", "rule", "answer", "reason", "evidence", "question"),
            {"rank": row["rank"]},
        )


def _fields(result: Result) -> list[tuple[str, str, Any]]:
    if not result.rows:
        return []
    (values,) = result.rows
    return [
        (column.source, column.cells[0], value if column.source in _LINKS else None)
        for column, value in zip(text_columns(result, units=False), values, strict=True)
        if value is not None
    ]
