"""What of an event in a trace file goes into which column, from the description of events."""

from __future__ import annotations

import inspect

from tracekit import event_description
from tracekit.event_description import EVENT_COLUMNS, KINDS, MEMORY_COLUMNS, EventColumn

from .markdown import link, prose, table
from .places import in_repo

TITLE = "What becomes of an event"

DESCRIPTION = in_repo(inspect.getfile(event_description))
_READER = "tracekit/ingest/event_reader.py"
_DAY_US = 86_400 * 10**6
_HEADERS = ("in the file", "column", "type", "meaning", "NULL also for", "written by, since")


def event_members(page: str) -> str:
    """Return the section of a page that tells it.

    Args:
        page: the page, from the root of the repository.
    """
    given = [column for column in EVENT_COLUMNS if column.source != "reader"]
    made = [column for column in EVENT_COLUMNS if column.source == "reader"]
    names = ", ".join(f"`{column.name}`" for column in made)
    days = event_description.MAX_DUR_US / _DAY_US
    return "\n".join(
        [
            f"## {TITLE}\n",
            (
                "An event of a trace file is a JSON object. Its members and, of those in `args`,"
                " the arguments below have columns in table [`record`](#record); its other columns"
                f" ({names}) are made by the reader. {link(DESCRIPTION, DESCRIPTION, page)} is"
                " the one description of it: the tables are created from it, both readers read by"
                f" it, and this section is made from it. How a value is read is defined in"
                f" {link(_READER, _READER, page)}.\n"
            ),
            (
                "A column whose member or argument is absent is NULL, never 0. Times are decimal"
                " microseconds in the file and whole nanoseconds here; an event that begins before"
                f" {event_description.MIN_TIME_US:,} µs or after {event_description.MAX_TIME_US:,}"
                f" µs, or takes longer than {event_description.MAX_DUR_US:,} µs ({days:.1f} days),"
                " is set aside in table [`rejected`](#rejected), so that sums stay within 64"
                " bits.\n"
            ),
            table(
                _HEADERS,
                map(_row, given),
            ),
            "The kind of an event, and so the view that shows it, follows from its phase:\n",
            table(
                ("view", "phase (`ph`)", "of the name"),
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
                "What an allocator's event says has no columns of its own in `record`; view"
                " [`memory`](#memory) takes it from `args`:\n"
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
