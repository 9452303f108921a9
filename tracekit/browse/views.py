"""The main views, which keys open, and the views that their rows open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.header import parameters
from tracekit.analysis.result import Result, columns_of_text
from tracekit.browse.events import device_is, device_text, events_of, gaps_of, module_is
from tracekit.browse.page import (
    AnalysisView,
    Asked,
    Deeper,
    Page,
    Row,
    SqlView,
    View,
    cut,
    holding,
    literal_of,
)
from tracekit.browse.query_worker import Answers
from tracekit.palette import PARTS
from tracekit.render._bars import share_bar
from tracekit.render.sections.device_time import step_sentence

_BUSY = tuple(part for part in PARTS if part.name != "idle")
_KINDS = {part.label: part.kind for part in _BUSY}
_OVERVIEW_COLUMNS = columns_of_text(
    "split VARCHAR, part VARCHAR, wall_ns BIGINT, idle_ns BIGINT, window_pct DOUBLE, "
    "rank INTEGER, device VARCHAR, what VARCHAR, bar VARCHAR"
)
_SHOWN = ("what", "bar", "wall_ns", "idle_ns", "window_pct", "rank", "device")
_BAR_CELLS = 10

_STEPS = """SELECT
    s.step, s.phase, s.dur_ns, s.ts_ns - t.first_ts_ns AS start_ns, s.prefill_token_count,
    s.decode_token_count, s.request_count, t.rank, s.trace_id
FROM request_step AS r
INNER JOIN run AS n ON r.run_id = n.run_id
INNER JOIN trace AS t ON r.run_id = t.run_id
INNER JOIN serving_step_ranges AS s
    ON t.trace_id = s.trace_id AND s.step BETWEEN r.first_step AND r.last_step
WHERE n.folder_name = {run} AND r.request_id = {request_id}"""

_OF_STEP = """(e.event_id, e.piece) IN (
    SELECT (d.event_id, d.piece)
    FROM attributed_events AS d
    LEFT JOIN launch AS l ON d.trace_id = l.trace_id AND d.launch_id = l.launch_id
    INNER JOIN serving_step_ranges AS s
        ON d.trace_id = s.trace_id
        AND coalesce(l.ts_ns, d.ts_ns) >= s.ts_ns
        AND coalesce(l.ts_ns, d.ts_ns) < s.end_ns
    WHERE s.trace_id = {trace_id} AND s.step = {step}
)"""


class Overview(Struct, frozen=True):
    """Time of each device by kind and phase; `of` selects one device."""

    title: str = "Overview: each device's window by kind, and by phase"
    of: tuple[int | None, str] | None = None

    def page(self, answers: Answers, number: int, search: str) -> Page:
        timeline, phases = answers.query("timeline"), answers.query("phases")
        by_device: dict[tuple[Any, Any], list[tuple[Any, ...]]] = {}
        for row in timeline.to_dicts():
            place = (row["rank"], row["device"])
            rows = by_device.setdefault(place, [])
            for part in _BUSY:
                times = (row[f"{part.name}_ns"], None, row[f"{part.name}_pct"])
                rows.append(("timeline", part.label, *times, *place))
            rows.append(("timeline", "idle", None, row["idle_ns"], row["idle_pct"], *place))
        for row in phases.to_dicts():
            place = (row["rank"], row["device"])
            times = (row["wall_ns"], row["idle_ns"], row["span_pct"])
            by_device.setdefault(place, []).append(("phase", row["phase"], *times, *place))
        results = [
            (*row, row[1] if row[0] == "timeline" else f"phase {row[1]}", _bar(row[4]))
            for place, rows in by_device.items()
            if self.of is None or place == self.of
            for row in rows
        ]
        result = holding(Result("overview", _OVERVIEW_COLUMNS, results), search)
        names = ("step_totals", "run_idle")
        note = step_sentence({name: answers.query(name) for name in names}) or ""
        return replace(cut(result, _SHOWN, number), note=note)

    def definition(self, traces: Sequence[str], search: str) -> str:
        del search
        names = ("timeline", "phases", "run_idle")
        return "\n\n\n".join(Asked(name).definition(traces) for name in names)

    def deeper(self, row: Row) -> View | None:
        rank, device, part = row["rank"], row["device"], row["part"]
        where = f"{part} of {device_text(rank, device)}"
        if row["split"] == "phase":
            phase = f"coalesce(e.phase, 'other') = {literal_of(part)}"
            return events_of(f"Events: {where}", [*device_is(rank, device), phase])
        if part == "idle":
            return gaps_of(f"Idle gaps of {device_text(rank, device)}", device_is(rank, device))
        kind = f"e.kind = {literal_of(_KINDS[part])}"
        return events_of(
            f"Events: {where}", [*device_is(rank, device), kind, "e.wall_ns > 0"], "wall"
        )


def _bar(share_pct: float | None) -> str:
    return share_bar(share_pct, _BAR_CELLS).plain


class Modules(Struct, frozen=True):
    """Submodules of a module, or all top-level modules; times are summed over devices and layers.

    A search covers all modules and shows complete paths.
    """

    parent: str | None = None

    @property
    def title(self) -> str:
        return "Modules" if self.parent is None else f"Modules of {self.parent}"

    def page(self, answers: Answers, number: int, search: str) -> Page:
        result = answers.query("module_totals")
        names = result.column_names
        path, parent = names.index("module_path"), names.index("parent_path")
        inner = {row[parent] for row in result.rows}
        if search:
            rows = holding(result, search).rows
        else:
            rows = [row for row in result.rows if row[parent] == self.parent]
        more = columns_of_text("has_inner BOOLEAN, module VARCHAR, bar VARCHAR")
        share = names.index("wall_pct")
        table = [
            (*r, r[path] in inner, r[path] if search else self._short(r[path]), _bar(r[share]))
            for r in rows
        ]
        shown = ("bar", "wall_pct", "total_wall_ns", "self_wall_ns", "kernel_count", "module")
        return cut(Result("modules", (*result.columns, *more), table), shown, number)

    def _short(self, path: str) -> str:
        if self.parent is None or not path.startswith(self.parent):
            return path
        return re.sub(r"^[./]", "", path[len(self.parent) :]) or path

    def definition(self, traces: Sequence[str], search: str) -> str:
        text = Asked("module_totals").definition(traces)
        note = f"any column contains {search!r}" if search else f"parent_path is {self.parent!r}"
        return f"{text}\n\nShown rows: {note}"

    def deeper(self, row: Row) -> View | None:
        return Modules(row["module_path"]) if row["has_inner"] else self.events(row)

    def events(self, row: Row) -> View:
        path = row["module_path"]
        return events_of(f"Events of {path} and its submodules", [module_is(path)])


def _events_of_kernel(row: Row) -> View:
    name = f"e.name = {literal_of(row['name'])}"
    place = device_is(row["rank"], row["device"])
    # Classes may share kernel names, and each has a row.
    class_name = row["class"]
    group = "e.class IS NULL" if class_name is None else f"e.class = {literal_of(class_name)}"
    return events_of(
        f"Events of {row['name']} on {device_text(row['rank'], row['device'])}",
        [*place, name, group],
    )


def _gaps_of_cause(row: Row) -> View:
    place = device_is(row["rank"], row["device"])
    title = f"Idle gaps: {row['cause']} on {device_text(row['rank'], row['device'])}"
    return gaps_of(title, [*place, f"e.cause = {literal_of(row['cause'])}"])


def _overview_of_rank(row: Row) -> View:
    place = (row["rank"], row["device"])
    return Overview(f"Overview of {device_text(*place)}", place)


def _event_of_collective(row: Row) -> View:
    title = f"{row['class']} on {device_text(row['rank'], row['device'])}"
    conditions = [
        *device_is(row["rank"], row["device"]),
        f"e.stream = {int(row['stream'])}" if row["stream"] is not None else "e.stream IS NULL",
        f"e.ts_ns - t.first_ts_ns = {int(row['start_ns'])}",
        f"e.name = {literal_of(row['name'])}",
    ]
    return events_of(f"Collective: {title}", conditions)


def _events_of_step(row: Row) -> View:
    step = row["step"]
    named, condition = (
        ("no step", "e.step IS NULL") if step is None else (f"step {step}", f"e.step = {int(step)}")
    )
    place = (row["rank"], row["device"])
    return events_of(f"Events: {named} on {device_text(*place)}", [*device_is(*place), condition])


def _steps_of_request(row: Row) -> View:
    values = {"run": literal_of(row["run"]), "request_id": int(row["request_id"])}
    return SqlView(
        f"Steps that served request {row['request_id']}",
        _STEPS.format(**values),
        "step, trace_id",
        (
            *("step", "phase", "dur_ns", "start_ns", "prefill_token_count", "decode_token_count"),
            *("request_count", "rank"),
        ),
        ("phase",),
        _events_of_serving_step,
    )


def _events_of_serving_step(row: Row) -> View:
    of_step = _OF_STEP.format(trace_id=int(row["trace_id"]), step=int(row["step"]))
    conditions = [f"e.trace_id = {int(row['trace_id'])}", of_step]
    return events_of(f"Events: {row['phase']} step {row['step']}", conditions)


def _event_of_path(row: Row) -> View | None:
    """Return the view of a path segment's device event; None for host time and waits."""
    if row["kind"] not in ("work", "transfer"):
        return None
    rank = row["of_rank"]
    of_rank = "t.rank IS NULL" if rank is None else f"t.rank = {int(rank)}"
    conditions = [of_rank, f"e.event_id = {int(row['event_id'])}"]
    return events_of(f"Critical path: {row['name']}", conditions)


_LEADS: dict[str, Deeper] = {
    "kernels": _events_of_kernel,
    "idle_causes": _gaps_of_cause,
    "rank_summary": _overview_of_rank,
    "collectives": _event_of_collective,
    "steps": _events_of_step,
    "requests": _steps_of_request,
    "critical_path": _event_of_path,
}

_KEYS = "1234567890"


def _views() -> dict[str, tuple[str, View]]:
    result: dict[str, tuple[str, View]] = {
        "1": ("overview", Overview()),
        "2": ("modules", Modules()),
        "4": ("idle gaps", gaps_of("Idle gaps, longest first", [])),
    }
    for name, view in load_catalog().analyses.views("browse").items():
        column, _, order = view.get("first", "").partition(":")
        result[view["key"]] = (
            view["menu"],
            AnalysisView(
                view["title"],
                Asked(name, parameters(view.get("ask", ""))),
                tuple(view["columns"].split(",")),
                lead=_LEADS.get(name),
                first=(column, tuple(order.split(","))) if column else None,
            ),
        )
    keys = sorted(result, key=lambda key: (_KEYS.find(key) % 100, key))
    return {key: result[key] for key in keys}


VIEWS = _views()
"""Menu name and view of each key: built-in views, and views from analysis headers."""

KEYS = "enter open  esc back  / search  s SQL  n p page  0-9 views  ? help  q quit"
"""Help line, at most 80 columns wide."""

HELP = "\n".join(
    [
        "Enter opens the selected row: the events of a part of the time, a kernel, or a",
        "step; the submodules of a module; the events around a gap; the details of an",
        "event, and then the reasons for its phase and module; the event of a",
        "collective; the steps of a request.",
        "",
        "enter               open the row",
        "esc, backspace      go back",
        "e                   events of a module and its submodules",
        "up, down            previous, next row; also page up, page down",
        "left, right         columns that do not fit",
        "n, p                next, previous 200 rows",
        "/                   search rows for text, ignoring case; empty shows all",
        "s                   command and SQL for the same rows",
        "? (or h)            this help",
        "q, ctrl+c           quit",
        "",
        *(f"{key}                   {name}" for key, (name, _) in VIEWS.items()),
        "",
        "Event times are relative to the first event of the trace. On cpu, an op that",
        "nested ops interrupt has one row per segment. s explains the columns.",
    ]
)
