"""Reads the published tables: one TOML file each, with cells as printed.

Members of a file:

    title, source   what the table shows, and its place in the paper
    missing         meaning of `-` in a cell: `oom` adds the column `outcome`
    notes           notes for readers of the values
    columns         name (with the unit), DuckDB type, meaning
    rows            one list per row, in the order of the paper; `-` is a cell without a value
    by_platform     platforms whose values are in one row, as one list each; `-` is a
                    platform without values
    as_printed      cells with an implausible value, printed as in the paper: row, column, and
                    reason
    setup           facts that are the same for the entire table

A marked cell keeps its value; column `as_printed` has the reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct

from tracekit.analysis.result import Column, Result
from tracekit.errors import UsageError, did_you_mean

Cell = str | int | float | None
Row = dict[str, Cell]

_NO_VALUE = "-"

FIGURE_ANALYSES = {
    "figure4": "scaling",
    "figure6": "throughput",
    "figure7": "latency_cdf",
    "figure8": "latency_cdf",
    "figure9": "latency_cdf",
    "figure10": "latency_cdf",
    "figure11": "bench_gemm",
    "figure12": "bench_memcpy",
    "figure13": "bench_collectives",
    "figure14": "bench_collectives",
    "figure15": "bench_collectives",
}
"""Analysis whose rows correspond to a figure, including figures without printed values."""


class PaperTable(Struct, frozen=True):
    """One published table; a column of a row overrides the member of `setup` with its name."""

    name: str
    title: str
    source: str
    setup: Mapping[str, Any]
    notes: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def platforms(self) -> tuple[str, ...]:
        names = (row["platform"] for row in self.rows if "platform" in row)
        return tuple(dict.fromkeys(str(name) for name in names))

    def fact(self, row: Row, name: str) -> Any:
        return row[name] if name in row else self.setup.get(name)

    def of_platform(self, platform: str | None) -> tuple[Row, ...]:
        if platform is None:
            return self.rows
        if platform not in (known := self.platforms or (str(self.setup.get("platform")),)):
            raise UsageError(
                f"{self.name} has no platform {platform!r}",
                hint="its platforms: " + ", ".join(known),
            )
        return tuple(row for row in self.rows if row.get("platform", platform) == platform)

    def to_result(self, platform: str | None = None) -> Result:
        rows = [tuple(row[one.name] for one in self.columns) for row in self.of_platform(platform)]
        return Result(self.name, self.columns, rows)


@cache
def load_tables() -> dict[str, PaperTable]:
    result = {}
    for entry in files("tracekit.paper").iterdir():
        if entry.name.endswith(".toml"):
            name = entry.name.removesuffix(".toml")
            result[name] = _table(name, tomllib.loads(entry.read_text(encoding="utf-8")))
    # Sort tables before figures, each by number.
    number = {name: int(re.sub(r"\D", "", name) or 0) for name in result}
    return {name: result[name] for name in sorted(result, key=lambda n: (n < "t", number[n]))}


def find_table(name: str) -> PaperTable:
    tables = load_tables()
    if name in tables:
        return tables[name]
    if name in FIGURE_ANALYSES:
        raise UsageError(
            f"the text of the paper has no numbers for {name}", hint=hint_at_command(name)
        )
    hint = did_you_mean(name, tables) or "tracekit compare paper --list shows all"
    raise UsageError(f"the paper has no table or figure {name!r}", hint=hint)


def hint_at_command(figure: str) -> str:
    return f"show only the measured values: tracekit query {FIGURE_ANALYSES[figure]}"


def _table(name: str, content: Mapping[str, Any]) -> PaperTable:
    columns = [Column(name, kind) for name, kind, _ in content["columns"]]
    names = [column.name for column in columns]
    rows: list[Row] = [
        {key: None if cell == _NO_VALUE else cell for key, cell in zip(names, cells, strict=True)}
        for cells in _single_rows(content, names)
    ]
    if content.get("missing") == "oom":
        columns.append(Column("outcome", "VARCHAR"))
        for row in rows:
            row["outcome"] = "oom" if row["tokens_per_s"] is None else "ok"
    if marks := content.get("as_printed"):
        columns.append(Column("as_printed", "VARCHAR"))
        for row in rows:
            reasons = [
                f"{column}: {why}" for where, column, why in marks if where.items() <= row.items()
            ]
            row["as_printed"] = "; ".join(reasons) or None
    title, source, setup = (content[key] for key in ("title", "source", "setup"))
    notes = tuple(content.get("notes", ()))
    return PaperTable(name, title, source, setup, notes, tuple(columns), tuple(rows))


def _single_rows(content: Mapping[str, Any], names: Sequence[str]) -> Iterator[Sequence[Cell]]:
    platforms = content.get("by_platform")
    if platforms is None:
        yield from content["rows"]
        return
    at = names.index("platform")
    for cells in content["rows"]:
        for platform, values in zip(platforms, cells[at:], strict=True):
            missing = [_NO_VALUE] * (len(names) - at - 1)
            yield [*cells[:at], platform, *(missing if values == _NO_VALUE else values)]
