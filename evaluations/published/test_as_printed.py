"""`make published TEXT=FILE`: checks tracekit's published figures against the paper.

FILE is the text of arXiv 2311.03687, with tabs between the cells of tables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracekit.paper.tables import PaperTable, find_table

TEXT = Path(os.environ["TRACEKIT_PAPER_TEXT"])
NUMERALS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
NUMERALS += ("XI", "XII", "XIII", "XIV", "XV", "XVI")
ROMAN = {name: number for number, name in enumerate(NUMERALS, start=1)}
PLATFORMS = ("A800", "RTX4090", "RTX3090 w/ NVLink", "RTX3090 w/o NVLink")


def rows_of(number: str) -> list[list[str]]:
    """Return the tab-separated lines after a caption, up to the next caption or heading."""
    text = TEXT.read_text("utf-8")
    match = re.search(
        rf"^TABLE {number}: .*?(?=^TABLE |^#|^\*\*|\Z)", text, re.DOTALL | re.MULTILINE
    )
    assert match is not None
    return [line.split("\t") for line in match.group().splitlines() if "\t" in line]


def figures(cells: list[str]) -> Iterator[float | None]:
    """Yield the numbers in cells, `-` as None; a number in small print follows its number."""
    for cell in cells:
        plain = cell.replace("<sub>", " ").replace("</sub>", " ").replace("%", " ")
        for token in plain.replace(",", " ").split():
            if token == "-":
                yield None
            elif re.fullmatch(r"\d*\.?\d*", token):
                yield float(token)


def flat(table: PaperTable, *names: str, **where: Any) -> list[Any]:
    """Return the cells of some columns, row by row."""
    return [
        row[name]
        for row in table.rows
        if all(row[key] == value for key, value in where.items())
        for name in names
    ]


@pytest.mark.parametrize(
    ("number", "names"),
    [
        ("III", ("tokens_per_s", "tokens_per_s_std", "memory_gb")),
        ("IV", ("tokens_per_s", "tokens_per_s_std", "memory_gb", "batch_size")),
        ("IX", ("tokens_per_s", "tokens_per_s_std", "memory_gb")),
    ],
)
def test_methods_are_as_printed(number: str, names: tuple[str, ...]) -> None:
    """Rows are read from the right: figures per platform, the method, the model."""
    table = find_table(f"table{ROMAN[number]}")
    width = len(names) - 1
    model = ""
    expected = []
    for line in rows_of(number):
        if not re.fullmatch(r"[A-Z0-9+a-z]+", line[1]) or line[1] in ("Method", ""):
            continue
        if re.fullmatch(r"\d+B", line[0]):
            model = f"Llama2-{line[0]}"
        for place, platform in enumerate(PLATFORMS):
            cells = list(figures(line[2 + place * width : 2 + (place + 1) * width]))
            if cells[0] is None:
                cells.insert(0, None)
            expected.append([model, line[1], platform, *cells])
    printed = [
        [row[name] for name in ("model", "method", "platform", *names)] for row in table.rows
    ]
    assert printed == expected


@pytest.mark.parametrize(
    ("number", "names", "first", "skipped"),
    [
        ("II", ("batch_size", "tokens_per_s", "memory_gb"), 1, 1),
        ("XII", ("m", "time_ms", "peak_pct"), 1, 1),
        ("XIII", ("gemm_pct",), 1, 1),
        ("XIV", ("time_s", "step_pct"), 2, 1),
        ("XV", ("time_s", "step_pct"), 1, 1),
        ("XVI", ("time_s", "step_pct"), 2, 1),
    ],
)
def test_plain_tables_are_as_printed(
    number: str, names: tuple[str, ...], first: int, skipped: int
) -> None:
    table = find_table(f"table{ROMAN[number]}")
    lines = [list(figures(line[first:])) for line in rows_of(number)[skipped:]]
    if number == "XII":
        # Printed as rows: shapes, times, shares.
        shapes, times, shares = lines
        assert flat(table, "m", "n", "k") == shapes
        assert flat(table, "time_ms") == times
        assert flat(table, "peak_pct") == shares
        return
    assert flat(table, *names) == [cell for line in lines for cell in line]


@pytest.mark.parametrize("number", ["V", "VII"])
def test_phases_are_as_printed(number: str) -> None:
    table = find_table(f"table{ROMAN[number]}")
    lines = [list(figures(line[1:])) for line in rows_of(number)[1:]]
    names = ("overall_ms", "step_pct", "compute_kernel_ms")
    for name, line in zip(names, lines, strict=True):
        assert flat(table, name) == line
    assert flat(table, "phase") == ["forward", "backward", "optimizer"]


def test_modules_are_as_printed() -> None:
    table = find_table("table6")
    lines = rows_of("VI")[1:]
    forward = [[cells[1], *figures(cells[2:4])] for cells in lines if cells[1] != "-"]
    backward = [[cells[5], *figures(cells[6:8])] for cells in lines]
    names = ("module", "time_ms", "phase_pct")
    for phase, printed in (("forward", forward), ("backward", backward)):
        rows = [row for row in table.rows if row["phase"] == phase]
        assert [[row[name] for name in names] for row in rows] == printed


def test_attention_is_as_printed() -> None:
    table = find_table("table8")
    naive, flash, improvement = (list(figures(line[1:])) for line in rows_of("VIII")[1:])
    assert flat(table, "attention_ms", method="Naive") == naive
    assert flat(table, "attention_ms", method="F") == flash
    assert flat(table, "improvement_pct", method="F") == improvement


def test_serving_is_as_printed() -> None:
    """In Table X, the figures of a part are in the columns before its tasks."""
    parts, tasks = [], []
    for line in rows_of("X")[1:]:
        part_ms, task_ms, part_pct, task_pct = ([*figures([cell])] or [None] for cell in line[3:7])
        parts += [(*part_ms, *part_pct)] if part_ms != [None] else []
        tasks += [(*task_ms, *task_pct)] if task_ms != [None] else []
    rows = find_table("table10").rows
    results = [(row["time_ms"], row["pass_pct"]) for row in rows if row["task"] == "(all)"]
    assert results == parts
    results = [(row["time_ms"], row["pass_pct"]) for row in rows if row["task"] != "(all)"]
    assert results == tasks
    printed = sorted(
        number for line in rows_of("XI")[1:] for number in figures(line[2:]) if number is not None
    )
    table = find_table("table11")
    assert sorted(flat(table, "time_ms", "pass_pct")) == printed


def test_platforms_are_as_printed() -> None:
    lines = {line[0]: line[1:] for line in rows_of("I")}
    rows = find_table("table1").rows
    for name, label in (("platform", "Platform"), ("gpu", "GPU"), ("cpu", "CPU")):
        assert [row[name] for row in rows] == lines[label]
    assert [row["memory"] for row in rows] == lines["Memory"]
    assert [row["network"] for row in rows] == lines["Network"]


def test_what_figures_say_stands_in_the_text() -> None:
    text = TEXT.read_text("utf-8")
    for name, printed in {
        "figure4": ["90.8%", "85.9%", "by 10%"],
        "figure7": ["20 seconds", "80 seconds"],
        "figure9": ["120 seconds", "1600 seconds", "13 times"],
    }.items():
        assert all(part in text for part in printed)
        values = [float(re.sub(r"[^\d.]", "", part)) for part in printed]
        assert flat(find_table(name), "value") == values


def test_the_sizes_of_figure_11_are_those_of_the_text() -> None:
    text = TEXT.read_text("utf-8").replace("\\_", "_").replace("$", "")
    (sentence,) = re.findall(r"For N4096_K4096, .*?TensorCore compute scale\.", text)
    rows = find_table("figure11").rows
    for row in rows[:3]:
        assert str(row["curve"]) in sentence
        assert row["curve"] == f"N{row['n']}_K{row['k']}"
    aligned = {(row["first_m"], row["last_m"], row["step_m"]) for row in rows[:3]}
    assert aligned == {(4096, 16384, 512)}
    assert "M  is increased from 4096 to 16384 in steps of 512" in sentence
    (sentence,) = re.findall(r"For the unaligned_N11008_K4096 case, .*? in steps of 512", text)
    assert "from 4096+13" in sentence
    assert "to 16384+13" in sentence
    assert (rows[3]["first_m"], rows[3]["last_m"]) == (4096 + 13, 16384 + 13)
    table = {row["m"]: row["peak_pct"] for row in find_table("table12").rows}
    note = find_table("figure11").notes[0]
    assert all(f"{pct} % of the peak at M {m}" in note or f"{pct} % at M {m}" in note
               for m, pct in table.items())  # fmt: skip
