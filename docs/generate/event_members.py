"""Reference section on the columns of trace events, from the description of events."""

from __future__ import annotations

import inspect

from tracekit import event_description
from tracekit.event_description import EVENT_COLUMNS, KINDS, MEMORY_COLUMNS, EventColumn

from .markdown import link, prose, table
from .places import in_repo

TITLE = "Event fields and columns"

DESCRIPTION = in_repo(inspect.getfile(event_description))
_READER = "tracekit/ingest/event_reader.py"
_DAY_US = 86_400 * 10**6
_HEADERS = ("in the file", "column", "type", "meaning", "also NULL for", "written by, since")


def event_members(page: str) -> str:
    """Return the section that maps event fields to columns.

    Args:
        page: path of the page, relative to the repository.
    """
    recorded = [column for column in EVENT_COLUMNS if column.source != "reader"]
    computed = [column for column in EVENT_COLUMNS if column.source == "reader"]
    names = ", ".join(f"`{column.name}`" for column in computed)
    days = event_description.MAX_DUR_US / _DAY_US
    return "\n".join(
        [
            f"## {TITLE}\n",
            (
                "An event of a trace file is a JSON object. Its members, and the members of `args`"
                " listed below, are columns of table [`record`](#record). The reader computes the"
                f" other columns ({names}). The tables, both readers, and this section are based"
                f" on {link(DESCRIPTION, DESCRIPTION, page)}, and {link(_READER, _READER, page)}"
                " defines how values are parsed.\n"
            ),
            (
                "A column is NULL, never 0, if its member or argument is absent. Times are decimal"
                " microseconds in the file and integer nanoseconds in the table. So that sums fit"
                " into 64 bits, an event that starts before"
                f" {event_description.MIN_TIME_US:,} µs or after {event_description.MAX_TIME_US:,}"
                f" µs, or takes longer than {event_description.MAX_DUR_US:,} µs ({days:.1f} days),"
                " is stored in table [`rejected`](#rejected) instead.\n"
            ),
            table(
                _HEADERS,
                map(_row, recorded),
            ),
            "The phase (`ph`) of an event determines its kind, and each kind has a view:\n",
            table(
                ("view", "phase (`ph`)", "event name"),
                (
                    (
                        f"[`{kind.name}`](#{kind.name})",
                        ", ".join(f"`{phase}`" for phase in kind.phases),
                        f"`{kind.event_name}`" if kind.event_name else "",
                    )
                    for kind in KINDS
                ),
            ),
            (
                "Table `record` has no columns for the fields of allocator events. View"
                " [`memory`](#memory) reads them from `args`:\n"
            ),
            table(
                _HEADERS,
                map(_row, MEMORY_COLUMNS),
            ),
        ]
    )


def _row(column: EventColumn) -> tuple[str, ...]:
    inside = "args." if column.source == "argument" else ""
    keys = ", else ".join(f"`{inside}{key}`" for key in column.keys)
    none = "" if column.none is None else f"{column.none}"
    meaning = prose(column.meaning)
    return (keys, f"`{column.name}`", _type(column), meaning, none, prose(column.since))


def _type(column: EventColumn) -> str:
    return "ENUM" if column.type.startswith("ENUM(") else column.type
