"""What the screen says of itself."""

from __future__ import annotations

from tracekit.browse.views import VIEWS

KEYS = "enter deeper  esc back  / search  s SQL  n p page  0-9 views  ? help  q quit"
"""One line of 80 columns."""

HELP = "\n".join(
    [
        "Every row leads deeper: a part of the time to its events, a module to those",
        "inside of it, a kernel to its events, a gap to what ran around it, an event to",
        "all that is known of it, and that to why it is in its phase and its module. A",
        "collective leads to its event, a step to its events, a request to its steps.",
        "",
        "enter               go deeper",
        "esc, backspace      go back",
        "e                   of a module: the events of it and of all inside of it",
        "up, down            the row before, the next; page up, page down likewise",
        "left, right         the columns that do not fit",
        "n, p                the next 200 rows, those before",
        "/                   search: rows with that text, in any case; empty shows all",
        "s                   the command and the SQL that give the same",
        "? (or h)            this help",
        "q, ctrl+c           quit",
        "",
        *(f"{key}                   {name}" for key, (name, _) in VIEWS.items()),
        "",
        "Times of events count from the first event of their trace. On cpu, an op that",
        "others interrupt is a row for each of its pieces. s shows what a figure means.",
    ]
)
"""What ? shows."""
