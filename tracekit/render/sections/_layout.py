"""What sections are made of: the screen, headings, columns of figures, labels and bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Result
from tracekit.palette import KIND
from tracekit.render._bars import share_bar
from tracekit.render._grid import grid_lines
from tracekit.render._text import cell_width, fit, printable, shorten
from tracekit.units import (
    format_bytes,
    format_bytes_per_s,
    format_ms,
    format_pct,
    ms_decimals,
    unit_of,
)

NONE = "–"
SEPARATOR = "  ·  "
_GAP = "  "
_MAX_DEVICE = 12

Row = Mapping[str, Any]
Form = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Screen:
    """What a section is drawn from, and how much room there is.

    `data` is the whole breakdown, analysis name to result; no line takes more than `width` cells;
    `full` lifts the limits on rows, `wide` those on the columns of the tables then.
    """

    data: Mapping[str, Result]
    width: int
    full: bool = False
    wide: bool = False

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of an analysis."""
        return self.data[name].to_dicts()

    def table(self, name: str) -> Iterator[Text]:
        """Return an analysis as a table of every row."""
        return grid_lines(self.data[name], None if self.wide else self.width, units=True)

    def heading(self, title: str, note: str = "") -> Text:
        """Return the first line of a section: its title, and a dim note cut to the width."""
        line = Text()
        line.append(title, style="bold")
        if note:
            line.append("  " + shorten(note, self.width - len(title) - 2), style="dim")
        return line

    def line(self, text: str, style: str = "") -> Text:
        """Return a line cut to the width."""
        return Text(shorten(text, self.width), style=style)

    def ended(self, line: Text, text: str, style: str = "") -> Text:
        """Return a line with as much of a text after it, two cells apart, as there is room for."""
        return line.append("  " + shorten(text, self.width - line.cell_len - 2), style=style)

    def joined(self, parts: Sequence[str], title: Text | None = None) -> list[Text]:
        """Return parts with dots between them, wrapped at the width.

        Args:
            parts: texts without control characters; one wider than the screen is cut.
            title: the start of the first line.
        """
        lines = [Text() if title is None else title]
        separator = "  " if lines[0] else ""
        for part in parts:
            text = shorten(part, self.width)
            if lines[-1] and lines[-1].cell_len + cell_width(separator + text) > self.width:
                lines.append(Text())
                separator = ""
            lines[-1].append(separator + text, style="not bold")
            separator = SEPARATOR
        return lines


def more(count: int, one: str, many: str = "") -> list[Text]:
    """Return the line that says how many rows are not shown, or nothing."""
    if count <= 0:
        return []
    what = one if count == 1 else many or f"{one}s"
    return [Text(f"  … {count:,} more {what} (--full)", style="dim")]


def aligned(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return one text per row with every column set to the right."""
    widths = [max(map(len, column), default=0) for column in columns]
    return [
        _GAP.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in zip(*columns, strict=True)
    ]


def columns(rows: Sequence[Row], **forms: Form) -> list[list[str]]:
    """Return some columns of rows as text, each in its form."""
    return [[form(row[name]) for row in rows] for name, form in forms.items()]


def ms_column(rows: Sequence[Row], column: str, shown: Sequence[Row] | None = None) -> list[str]:
    """Return the times of the rows that are shown, with as many decimals as all rows need."""
    decimals = ms_decimals(row[column] for row in rows)
    return [f"{format_ms(row[column], decimals)} ms" for row in (rows if shown is None else shown)]


def step_column(rows: Sequence[Row], shown: Sequence[Row] | None = None) -> list[list[str]]:
    """Return the column of busy time a step, or no column where the traces mark no steps."""
    if any(row["step_wall_ns"] is None for row in rows):
        return []
    decimals = ms_decimals(row["step_wall_ns"] for row in rows)
    times = [row["step_wall_ns"] for row in (rows if shown is None else shown)]
    return [[f"{format_ms(time, decimals)} a step" for time in times]]


def known(form: Form) -> Form:
    """Return a form that writes a dash for nothing."""
    return lambda value: NONE if value is None else form(value)


def pct_text(pct: float | None) -> str:
    """Return a share with its sign, or a dash where there is nothing to be a share of."""
    return NONE if pct is None else f"{format_pct(pct)} %"


def change_text(pct: float | None) -> str:
    """Return a difference in percent with its sign, or a dash."""
    return NONE if pct is None else f"{pct:+,.1f} %"


def times_text(count: int) -> str:
    """Return how many times something is there."""
    return f"{count:,} ×"


def signed_ms(value_ns: int, decimals: int) -> str:
    """Return a difference of times in ms, without the unit."""
    sign = "+" if value_ns > 0 else "-" if value_ns < 0 else "±"
    return sign + format_ms(abs(value_ns), decimals)


def rank_text(rank: int | None) -> str:
    """Return what a rank is called; an unknown one is said, not guessed."""
    return "rank ?" if rank is None else f"rank {rank}"


def device_label(row: Row) -> str:
    """Return a label for the rank and device of a row."""
    device = shorten(printable(str(row.get("device"))), _MAX_DEVICE)
    return f"{rank_text(row.get('rank'))} · {device if device == 'cpu' else f'device {device}'}"


def fitted(labels: Sequence[str], longest: int | None = None) -> list[str]:
    """Return labels in the cells that the widest takes, or at most so many."""
    width = max(map(cell_width, labels), default=0)
    width = width if longest is None else min(width, longest)
    return [fit(label, width) for label in labels]


def bars_of(name: str) -> Callable[[Screen], list[Text]]:
    """Return what draws the section of an analysis that its header describes.

    A line for each row: its label, the bar of a share where there is one, its figures. Rows of
    several devices say which one they are of.
    """
    view = load_catalog().analyses.views("breakdown")[name]
    most = int(view.get("most", 8))

    def draw(screen: Screen) -> list[Text]:
        rows = screen.rows(name)
        shown = rows if screen.full else rows[:most]
        names = view["figures"].split(",")
        figures = aligned([text for one in names for text in _figure(one, rows, shown)])
        labels = [printable(str(row[view["label"]])) for row in shown]
        if len({(row.get("rank"), row.get("device")) for row in rows}) > 1:
            devices = fitted([device_label(row) for row in shown])
            labels = fitted(labels, max(32 - cell_width(devices[0]), 12))
            labels = [f"{device}  {label}" for device, label in zip(devices, labels, strict=True)]
        else:
            labels = fitted(labels, 24)

        def bars(width: int) -> list[Text]:
            of = [KIND[row[view["colour"]]].terminal if "colour" in view else "" for row in shown]
            return [
                share_bar(row[view["bar"]], width, one) for row, one in zip(shown, of, strict=True)
            ]

        lines = [Text(f"  {label}  {text}") for label, text in zip(labels, figures, strict=True)]
        if "bar" in view:
            lines = bar_lines(labels, bars, figures, screen.width, least=10, most=48)
        return [
            screen.heading(view["title"], view.get("note", "")),
            *lines,
            *more(len(rows) - len(shown), view.get("one", "row"), view.get("many", "")),
        ]

    return draw


_FORMS: dict[str | None, Form] = {
    "pct": pct_text,
    "count": times_text,
    "bytes": format_bytes,
    "per_s": format_bytes_per_s,
}


def _figure(column: str, rows: Sequence[Row], shown: Sequence[Row]) -> list[list[str]]:
    """Return a column as text, in the form that its unit has in sections; none of unknown steps."""
    if column == "step_wall_ns":
        return step_column(rows, shown)
    unit = unit_of(column)
    if unit == "ns":
        return [ms_column(rows, column, shown)]
    form = known(_FORMS.get(unit, lambda value: printable(str(value))))
    return [[form(row[column]) for row in shown]]


def bar_lines(
    labels: Sequence[str],
    bars: Callable[[int], Iterable[Text]],
    figures: Sequence[str],
    width: int,
    *,
    least: int,
    most: int | None = None,
) -> list[Text]:
    """Return a line for each row: its label, a bar, its figures.

    Labels and figures are all of one width; a bar has `least` cells even if a line gets too long.
    """
    room = max(width - cell_width(labels[0]) - len(figures[0]) - 6, least)
    return [
        Text.assemble("  ", label, "  ", bar, "  ", text)
        for label, bar, text in zip(
            labels, bars(room if most is None else min(room, most)), figures, strict=True
        )
    ]
