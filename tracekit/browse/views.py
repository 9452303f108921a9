"""The views that the keys show, and where their rows lead."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit.analysis.result import Result
from tracekit.browse.collectives import collectives
from tracekit.browse.events import device_is, device_text, events_of, gaps_of, module_is
from tracekit.browse.page import (
    AnalysisView,
    Asked,
    Page,
    Row,
    View,
    cut,
    holding,
    literal_of,
    nowhere,
    table_of,
)
from tracekit.browse.requests import requests
from tracekit.browse.steps import steps

if TYPE_CHECKING:
    from tracekit.browse.asking import Answers

_PARTS = (
    ("compute", "compute_ns", "compute_pct"),
    ("exposed communication", "exposed_comm_ns", "exposed_comm_pct"),
    ("exposed copies", "exposed_memcpy_ns", "exposed_memcpy_pct"),
)
_KINDS = {"compute": "compute", "exposed communication": "comm", "exposed copies": "memcpy"}
_OVERVIEW_COLUMNS = (
    ("split", "VARCHAR"),
    ("part", "VARCHAR"),
    ("wall_ns", "BIGINT"),
    ("idle_ns", "BIGINT"),
    ("window_pct", "DOUBLE"),
    ("rank", "INTEGER"),
    ("device", "VARCHAR"),
)


@dataclass(frozen=True, slots=True)
class Overview:
    """What each device did with its window, by kind and by phase; of one device if `of` says so."""

    title: str = "Overview: each device's window by kind, and by phase"
    of: tuple[int | None, str] | None = None

    def page(self, answers: Answers, number: int, search: str) -> Page:
        """Return a page of the parts."""
        timeline, phases = answers.query("timeline"), answers.query("phases")
        by_device: dict[tuple[Any, Any], list[tuple[Any, ...]]] = {}
        for row in _dicts(timeline):
            place = (row["rank"], row["device"])
            rows = by_device.setdefault(place, [])
            for part, wall, share in _PARTS:
                rows.append(("timeline", part, row[wall], None, row[share], *place))
            rows.append(("timeline", "idle", None, row["idle_ns"], row["idle_pct"], *place))
        for row in _dicts(phases):
            place = (row["rank"], row["device"])
            times = (row["wall_ns"], row["idle_ns"], row["span_pct"])
            by_device.setdefault(place, []).append(("phase", row["phase"], *times, *place))
        found = [
            row
            for place, rows in by_device.items()
            if self.of is None or place == self.of
            for row in rows
        ]
        result = holding(table_of("overview", _OVERVIEW_COLUMNS, found), search)
        return cut(result, [name for name, _ in _OVERVIEW_COLUMNS], number)

    def told(self, traces: Sequence[str], search: str) -> str:
        """Return the two analyses behind it."""
        del search
        return "\n\n\n".join(Asked(name).told(traces) for name in ("timeline", "phases"))

    def deeper(self, row: Row) -> View | None:
        """Lead to the events of a kind or a phase, or to the gaps."""
        rank, device, part = row["rank"], row["device"], row["part"]
        where = f"{part} of {device_text(rank, device)}"
        if row["split"] == "phase":
            phase = f"coalesce(e.phase, 'other') = {literal_of(part)}"
            return events_of(f"Events: {where}", [*device_is(rank, device), phase])
        if part == "idle":
            return gaps_of(f"Idle gaps of {device_text(rank, device)}", device_is(rank, device))
        kind = f"e.kind = {literal_of(_KINDS[part])}"
        return events_of(f"Events: {where}", [*device_is(rank, device), kind])


@dataclass(frozen=True, slots=True)
class Modules:
    """The modules right inside of one, or the topmost; of all devices, layers rolled up.

    A search looks at every module, and shows whole paths.
    """

    parent: str | None = None

    @property
    def title(self) -> str:
        """Where in the tree this is."""
        return "Modules" if self.parent is None else f"Modules of {self.parent}"

    def page(self, answers: Answers, number: int, search: str) -> Page:
        """Return a page of the modules."""
        result = answers.query("module_totals")
        names = result.column_names
        path, parent = names.index("module_path"), names.index("parent_path")
        inner = {row[parent] for row in result.rows}
        if search:
            rows = holding(result, search).rows
        else:
            rows = [row for row in result.rows if row[parent] == self.parent]
        columns = [(column.name, column.type) for column in result.columns]
        columns += [("has_inner", "BOOLEAN"), ("module", "VARCHAR")]
        table = [(*r, r[path] in inner, r[path] if search else self._short(r[path])) for r in rows]
        shown = ("wall_pct", "total_wall_ns", "self_wall_ns", "kernel_count", "module")
        return cut(table_of("modules", columns, table), shown, number)

    def _short(self, path: str) -> str:
        """Return a path without what the title says."""
        if self.parent is None or not path.startswith(self.parent):
            return path
        return re.sub(r"^[./]", "", path[len(self.parent) :]) or path

    def told(self, traces: Sequence[str], search: str) -> str:
        """Return the analysis, and which of its rows are shown."""
        text = Asked("module_totals").told(traces)
        note = f"holding {search!r}" if search else f"whose parent_path is {self.parent!r}"
        return f"{text}\n\nShown of it: rows {note}"

    def deeper(self, row: Row) -> View | None:
        """Lead to what is inside of a module; where nothing is, to its events."""
        return Modules(row["module_path"]) if row["has_inner"] else self.events(row)

    def events(self, row: Row) -> View:
        """Return the events of a module and of all inside of it."""
        path = row["module_path"]
        return events_of(f"Events of {path}, and of what is inside", [module_is(path)])


def kernels() -> View:
    """Return the kernels by name, those that held the device longest first."""
    return AnalysisView(
        "Kernels, copies and ops by name",
        Asked("kernels", {"limit": 0}),
        ("wall_pct", "kernel_ns", "kernel_count", "class", "name", "mean_ns", "rank", "device"),
        lead=_events_of_kernel,
    )


def _events_of_kernel(row: Row) -> View:
    name = f"e.name = {literal_of(row['name'])}"
    place = device_is(row["rank"], row["device"])
    # The same name may stand in several classes: each is a row of its own.
    class_name = row["class"]
    group = "e.class IS NULL" if class_name is None else f"e.class = {literal_of(class_name)}"
    return events_of(
        f"Events of {row['name']} on {device_text(row['rank'], row['device'])}",
        [*place, name, group],
    )


def gaps() -> View:
    """Return the idle gaps of all devices, the longest first."""
    return gaps_of("Idle gaps, longest first", [])


def causes() -> View:
    """Return why devices were idle."""
    return AnalysisView(
        "Causes of idle time",
        Asked("idle_causes"),
        ("cause", "idle_ns", "idle_pct", "gap_count", "top_op", "top_module", "rank", "device"),
        lead=_gaps_of_cause,
    )


def _gaps_of_cause(row: Row) -> View:
    place = device_is(row["rank"], row["device"])
    title = f"Idle gaps: {row['cause']} on {device_text(row['rank'], row['device'])}"
    return gaps_of(title, [*place, f"e.cause = {literal_of(row['cause'])}"])


def ranks() -> View:
    """Return what each rank did with its time."""
    names = "rank device window_ns compute_ns exposed_comm_ns idle_ns comm_wait_ns caused_wait_ns"
    return AnalysisView(
        "Ranks", Asked("rank_summary"), tuple(names.split()), lead=_overview_of_rank
    )


def _overview_of_rank(row: Row) -> View:
    place = (row["rank"], row["device"])
    return Overview(f"Overview of {device_text(*place)}", place)


def health() -> View:
    """Return what the figures rest on; what warns comes first."""
    return AnalysisView(
        "Health: what the figures rest on",
        Asked("health"),
        ("severity", "metric", "value", "unit", "meaning", "rank"),
        lead=nowhere,
        first=("severity", ("warn", "note", "ok")),
    )


VIEWS: dict[str, tuple[str, Callable[[], View]]] = {
    "1": ("overview", Overview),
    "2": ("modules", Modules),
    "3": ("kernels", kernels),
    "4": ("idle gaps", gaps),
    "5": ("causes of idle time", causes),
    "6": ("ranks", ranks),
    "7": ("health", health),
    "8": ("collectives", collectives),
    "9": ("steps", steps),
    "0": ("requests of serving", requests),
}
"""What each key shows."""


def _dicts(result: Result) -> list[dict[str, Any]]:
    return [dict(zip(result.column_names, row, strict=True)) for row in result.rows]
