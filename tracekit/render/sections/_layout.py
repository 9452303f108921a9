"""Building blocks of sections: the screen, tables, columns of figures, labels, and bars."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from rich.text import Text

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Result
from tracekit.palette import KIND
from tracekit.render._bars import share_bar
from tracekit.render._cells import NOTHING, TextColumn, figure_column
from tracekit.render._grid import broken_header, grid_lines
from tracekit.render._text import cell_width, fit, printable, truncate, truncate_names
from tracekit.units import (
    format_ms,
    format_pct,
    short_decimals,
    stem_of,
)

SEPARATOR = "  ·  "
_GAP = "  "
_GPUS = frozenset({"cuda", "hip", "xpu"})
_MIN_BAR, _MAX_BAR = 6, 40
_BESIDE, _MIN_AFTER = 14, 24
_MAX_DEVICE = 12

Row = Mapping[str, Any]


class Screen(Struct, frozen=True, dict=True):
    """The data of a section, and its layout options.

    `data` has the results of the breakdown by analysis. Lines have at most `width` cells. `full`
    shows all rows, and `wide` shows all columns of full tables.
    """

    data: Mapping[str, Result]
    width: int
    full: bool = False
    wide: bool = False

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of an analysis, or an empty list if it was not run."""
        return self.data[name].to_dicts() if name in self.data else []

    def table(self, name: str) -> Iterator[Text]:
        """Return an analysis as a table with all rows."""
        return grid_lines(self.data[name], None if self.wide else self.width, units=True)

    def tables(self, names: Mapping[str, str]) -> list[Text]:
        """Return analyses by title as tables with all rows."""
        return [
            line
            for title, name in names.items()
            for line in (self.heading(title), *self.table(name))
        ]

    @cached_property
    def has_steps(self) -> bool:
        """Whether steps are marked, so that figures are per step."""
        return any(row["step_count"] for row in self.rows("step_totals"))

    @cached_property
    def is_on_gpu(self) -> bool:
        """Whether all device work runs on GPUs."""
        kinds = set(self.data["trace"].column("accelerator")) if "trace" in self.data else set()
        return bool(kinds) and kinds <= _GPUS

    def of_work(self, rows: Iterable[Row]) -> list[dict[str, Any]]:
        """Return rows with work in steps, largest first, and their shares of the work per step."""
        (totals,) = self.rows("step_totals")
        work_ns = totals["step_work_ns"] or 1
        results = [
            {**row, "step_pct": 100 * row["step_wall_ns"] / work_ns}
            for row in rows
            if row["step_wall_ns"]
        ]
        return sorted(results, key=lambda row: -row["step_wall_ns"])

    def heading(self, title: str, note: str = "") -> Text:
        """Return the first line of a section: its title, and a dim note truncated to the width."""
        line = Text()
        line.append(title, style="bold")
        if note:
            line.append("  " + truncate(note, self.width - len(title) - 2), style="dim")
        return line

    def block(
        self,
        title: str | Text,
        labels: Sequence[str],
        figures: Sequence[TextColumn],
        *,
        bars: Callable[[int], Sequence[Text]] | None = None,
        after: Sequence[str] = (),
        below: Sequence[str] = (),
        styles: Sequence[str] = (),
        of: int = 0,
        legend: Text | None = None,
    ) -> list[Text]:
        """Return a table: a line with title and column headers, and one line per row.

        Args:
            title: title above the labels; plain text is bold.
            labels: row labels; the middle of long labels is omitted.
            figures: columns, which are never truncated; wide headers take several lines.
            bars: returns one bar per row with a width in cells; called only if there is space.
            after: text after the figures of each row, if it fits.
            below: text on a line below each row.
            styles: style of each row.
            of: total number of rows, if not all are shown.
            legend: explains the parts of the bars, after the title.
        """
        heading = Text(title, style="bold") if isinstance(title, str) else title.copy()
        labels, after, below = ([*map(printable, texts)] for texts in (labels, after, below))
        if of > len(labels):
            heading.append(f", {len(labels):,} of {of:,}", style="not bold dim")
        longest = max(map(cell_width, labels), default=0)
        for broken in (False, True):
            headers = [broken_header(one) if broken else [one.header] for one in figures]
            widths = [
                max(column.width, *map(cell_width, lines))
                for column, lines in zip(figures, headers, strict=True)
            ]
            room = max(self.width - sum(widths) - len(_GAP) * (len(widths) + 1), 8)
            if room >= longest + (_BESIDE + len(_GAP) if bars is not None else 0):
                break
        if bars is None:
            longest = max(longest, heading.cell_len - len(_GAP))
        label_width = min(longest, room)
        most = _BESIDE if after else _MAX_BAR
        bar_width = min(room - label_width - len(_GAP), most) if bars is not None else 0
        drawn = bars(bar_width) if bars is not None and bar_width >= _MIN_BAR else ()
        if drawn and legend is not None:
            heading.append_text(legend)
        margin = len(_GAP) + label_width + (bar_width + len(_GAP) if drawn else 0)
        out = _heading(heading, headers, widths, figures, margin)
        for place, name in enumerate(truncate_names(labels, label_width)):
            cells = [column.cells[place] for column in figures]
            line = Text.assemble(_GAP, fit(name, label_width))
            if drawn:
                line.append(_GAP).append_text(drawn[place])
            line.append(_row(cells, widths, figures))
            if styles:
                line.stylize(styles[place])
            extra = cell_width(after[place]) + len(_GAP) if after else 0
            if extra and self.width - line.cell_len >= min(extra, _MIN_AFTER):
                self.ended(line, after[place], "dim")
            line.rstrip()
            out.append(line)
            if below and below[place]:
                out.append(self.line(f"    {below[place]}", "dim"))
        return out

    def line(self, text: str, style: str = "") -> Text:
        """Return a line truncated to the width."""
        return Text(truncate(text, self.width), style=style)

    def facts(self, lines: Sequence[tuple[str, Text]]) -> list[Text]:
        """Return labeled lines; long ones are wrapped."""
        width = max(len(label) for label, _ in lines) + len(_GAP)
        out = []
        for label, text in lines:
            line = Text.assemble((label.ljust(width), "bold"), text)
            if line.cell_len <= self.width:
                out.append(line)
                continue
            first, *others = textwrap.wrap(
                line.plain, self.width, subsequent_indent=" " * width, break_on_hyphens=False
            )
            out.append(Text(first))
            out[-1].stylize("bold", 0, width)
            out += map(Text, others)
        return out

    def wrapped(self, text: str) -> list[Text]:
        """Return dim text wrapped for display below a table."""
        lines = textwrap.wrap(text, self.width, initial_indent=_GAP, subsequent_indent=_GAP)
        return [Text(line, "dim") for line in lines]

    def ended(self, line: Text, text: str, style: str = "") -> Text:
        """Append two spaces and the text to a line, truncated at the width."""
        return line.append("  " + truncate(text, self.width - line.cell_len - 2), style=style)

    def joined(self, parts: Sequence[str], title: Text | None = None) -> list[Text]:
        """Return parts separated by dots, wrapped at the width.

        Args:
            parts: strings without control characters; one that is wider than the screen is
                truncated.
            title: the start of the first line.
        """
        lines = [Text() if title is None else title]
        separator = "  " if lines[0] else ""
        for part in parts:
            text = truncate(part, self.width)
            if lines[-1] and lines[-1].cell_len + cell_width(separator + text) > self.width:
                lines.append(Text())
                separator = ""
            lines[-1].append(separator + text, style="not bold")
            separator = SEPARATOR
        return lines


def more(count: int, one: str) -> list[Text]:
    """Return a line with the number of rows that are not shown, or no line for 0."""
    if count <= 0:
        return []
    what = one if count == 1 else f"{one}s"
    return [Text(f"  … {count:,} more {what} (--full)", style="dim")]


def _heading(
    first: Text,
    headers: Sequence[Sequence[str]],
    widths: Sequence[int],
    columns: Sequence[TextColumn],
    margin: int,
) -> list[Text]:
    """Return the lines of title and headers, on one line if they fit."""
    height = max(map(len, headers), default=0)
    fits = height > 0 and first.cell_len <= margin
    out = []
    for level in range(height):
        cells = [["", *lines][max(level - height + len(lines) + 1, 0)] for lines in headers]
        line = Text()
        if level == height - 1 and fits:
            line = first
        line.append(" " * (margin - line.cell_len))
        out.append(line.append(_row(cells, widths, columns), style="not bold dim"))
    return out if fits else [first, *out]


def _row(cells: Sequence[str], widths: Sequence[int], columns: Sequence[TextColumn]) -> str:
    """Return the cells of a row, each after a gap."""
    return "".join(
        _GAP + fit(cell, width, right=column.is_number)
        for cell, width, column in zip(cells, widths, columns, strict=True)
    )


def figures(
    rows: Sequence[Row], titles: Mapping[str, str], *, is_alike: bool = False
) -> list[TextColumn]:
    """Return one column per name in `titles`, with its title.

    With `is_alike`, all columns use the same number of decimals.
    """
    values = {name: [row[name] for row in rows] for name in titles}
    alike = [value for column in values.values() for value in column] if is_alike else None
    return [figure_column(name, column, titles[name], alike) for name, column in values.items()]


def pct_text(pct: float | None) -> str:
    """Return a share in percent, or a dash if it is unknown."""
    return NOTHING if pct is None else f"{format_pct(pct)} %"


def signed_ms(value_ns: int, decimals: int) -> str:
    """Return a time difference in ms with its sign, without the unit."""
    if not value_ns:
        return "±0"
    return ("+" if value_ns > 0 else "-") + format_ms(abs(value_ns), decimals)


def rank_text(rank: int | None) -> str:
    """Return the label of a rank, which may be unknown."""
    return "rank ?" if rank is None else f"rank {rank}"


def signed(name: str, rows: Sequence[Row], title: str = "") -> TextColumn:
    """Return a column of time differences with signs."""
    values = [row[name] for row in rows]
    decimals = short_decimals(value for value in values if value is not None)
    cells = [NOTHING if ns is None else signed_ms(ns, decimals) for ns in values]
    return TextColumn(name, title, cells, True, "ms")


def change_column(name: str, rows: Sequence[Row]) -> TextColumn:
    """Return a column of differences with signs, in percent of the base."""
    cells = [NOTHING if row[name] is None else f"{row[name]:+,.1f}" for row in rows]
    return TextColumn(name, "% of base", cells, True)


def per_step(title: str, screen: Screen) -> Text:
    """Return a title, with "mean per step" if steps are marked."""
    result = Text(title, style="bold")
    return result.append(", mean per step", style="not bold dim") if screen.has_steps else result


def device_label(row: Row, *, is_only: bool = False) -> str:
    """Return the label of a row's rank and device, without an unknown rank of a single device."""
    device = truncate(printable(str(row.get("device"))), _MAX_DEVICE)
    label = device if device == "cpu" else f"device {device}"
    rank = row.get("rank")
    return label if rank is None and is_only else f"{rank_text(rank)} · {label}"


def fitted(labels: Sequence[str], longest: int | None = None) -> list[str]:
    """Return labels padded or truncated to the widest label, at most `longest` cells."""
    width = max(map(cell_width, labels), default=0)
    width = width if longest is None else min(width, longest)
    return [fit(label, width) for label in labels]


def bars_of(name: str) -> Callable[[Screen], list[Text]]:
    """Return a function that draws the section described in the header of an analysis.

    Each row has a label, a bar if the header names a share, and figures, per step if steps are
    marked. With several devices, labels include the device.
    """
    view = load_catalog().analyses.views("breakdown")[name]

    def draw(screen: Screen) -> list[Text]:
        rows = screen.rows(name)
        most, bar = int(view.get("most", 8)), view.get("bar", "")
        names = view["figures"].split(",")
        texts = view["titles"].split(",") if "titles" in view else map(_title, names)
        titles = dict(zip(names, texts, strict=False))
        is_of_step = screen.has_steps and "step_wall_ns" in titles
        if is_of_step:
            rows = screen.of_work(rows)
            titles = {"step_wall_ns": "busy", "step_pct": "% of busy"}
            bar, most = "step_pct", (most + 1) // 2
        else:
            titles.pop("step_wall_ns", None)
        shown = rows if screen.full else rows[:most]
        if not shown:
            return []
        labels = [printable(str(row[view["label"]])) for row in shown]
        if len({(row.get("rank"), row.get("device")) for row in rows}) > 1:
            devices = fitted([device_label(row) for row in shown])
            labels = [f"{device}  {label}" for device, label in zip(devices, labels, strict=True)]
        colours = [KIND[row[view["colour"]]].terminal if "colour" in view else "" for row in shown]

        def bars(width: int) -> list[Text]:
            return [
                share_bar(row[bar], width, colour)
                for row, colour in zip(shown, colours, strict=True)
            ]

        title = per_step(view["title"], screen) if is_of_step else Text(view["title"], "bold")
        if "note" in view:
            title.append(f", {view['note']}", style="not bold dim")
        columns = figures(shown, titles)
        return screen.block(title, labels, columns, bars=bars if bar else None, of=len(rows))

    return draw


def _title(column: str) -> str:
    return (stem_of(column) or column).replace("_", " ")
