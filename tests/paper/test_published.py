"""The published figures: every cell is the paper's, and what cannot be right is marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tracekit.errors import UsageError
from tracekit.paper.tables import PaperTable, find_table, load_tables

TEXT = Path(__file__).resolve().parents[3] / "shared" / "paper" / "dissecting.txt"
NUMERALS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
NUMERALS += ("XI", "XII", "XIII", "XIV", "XV", "XVI")
ROMAN = {name: number for number, name in enumerate(NUMERALS, start=1)}
PLATFORMS = ("A800", "RTX4090", "RTX3090 w/ NVLink", "RTX3090 w/o NVLink")


def rows_of(number: str) -> list[list[str]]:
    """The tab-separated lines below a caption, up to the next caption or heading."""
    if not TEXT.is_file():
        pytest.skip(f"the text of the paper is not there: {TEXT}")
    text = TEXT.read_text("utf-8")
    found = re.search(
        rf"^TABLE {number}: .*?(?=^TABLE |^#|^\*\*|\Z)", text, re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return [line.split("\t") for line in found.group().splitlines() if "\t" in line]


def figures(cells: list[str]) -> Iterator[float | None]:
    """Every figure in some cells, `-` as None; a small one comes behind the one it belongs to."""
    for cell in cells:
        plain = cell.replace("<sub>", " ").replace("</sub>", " ").replace("%", " ")
        for token in plain.replace(",", " ").split():
            if token == "-":
                yield None
            elif re.fullmatch(r"\d*\.?\d*", token):
                yield float(token)


def flat(table: PaperTable, *names: str, **where: Any) -> list[Any]:
    """The cells of some columns, row by row."""
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
    """Read from the right: figures per platform, before them the method, before it the model."""
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
        # Printed across: shapes, times, shares.
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
    """In Table X the figures of a part stand in the columns before those of its tasks."""
    parts, tasks = [], []
    for line in rows_of("X")[1:]:
        part_ms, task_ms, part_pct, task_pct = ([*figures([cell])] or [None] for cell in line[3:7])
        parts += [(*part_ms, *part_pct)] if part_ms != [None] else []
        tasks += [(*task_ms, *task_pct)] if task_ms != [None] else []
    rows = find_table("table10").rows
    found = [(row["time_ms"], row["pass_pct"]) for row in rows if row["task"] == "(all)"]
    assert found == parts
    found = [(row["time_ms"], row["pass_pct"]) for row in rows if row["task"] != "(all)"]
    assert found == tasks
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
    if not TEXT.is_file():
        pytest.skip(f"the text of the paper is not there: {TEXT}")
    text = TEXT.read_text("utf-8")
    for name, printed in {
        "figure4": ["90.8%", "85.9%", "by 10%"],
        "figure7": ["20 seconds", "80 seconds"],
        "figure9": ["120 seconds", "1600 seconds", "13 times"],
    }.items():
        assert all(part in text for part in printed)
        values = [float(re.sub(r"[^\d.]", "", part)) for part in printed]
        assert flat(find_table(name), "value") == values


# -- marks: what cannot be right -------------------------------------------------------------------


def marked(name: str, column: str) -> set[tuple[Any, ...]]:
    return {
        (row["model"], row["method"], row["platform"])
        for row in find_table(name).rows
        if f"{column}: " in (row["as_printed"] or "")
    }


def by_row(name: str, column: str) -> dict[tuple[str, frozenset[str], str], Any]:
    return {
        (str(row["model"]), frozenset(str(row["method"]).split("+")), str(row["platform"])): row[
            column
        ]
        for row in find_table(name).rows
        if row[column] is not None
    }


def test_the_marks_of_the_batch_sizes_are_those_that_the_rule_finds() -> None:
    """The figures of Table III again, though the same without FlashAttention fits more."""
    fits = by_row("table4", "batch_size")
    found = set()
    for name, column in product(("table3", "table4"), ("tokens_per_s", "memory_gb")):
        assert by_row(name, column)
    for key, size in fits.items():
        model, method, platform = key
        same = all(
            by_row("table3", column)[key] == by_row("table4", column)[key]
            for column in ("tokens_per_s", "memory_gb")
        )
        without = fits.get((model, method - {"F"}, platform), 0)
        if same and "F" in method and without > size:
            found.add(key)
    printed = marked("table4", "batch_size")
    assert {
        (model, frozenset(method.split("+")), place) for model, method, place in printed
    } == found
    assert len(found) == 12


@pytest.mark.parametrize("name", ["table3", "table9"])
def test_the_marks_of_recomputation_are_those_that_the_rule_finds(name: str) -> None:
    """At one batch size it only adds work: more than 10 % faster cannot be."""
    speeds = by_row(name, "tokens_per_s")
    found = {
        key
        for key, speed in speeds.items()
        if "R" in key[1]
        and speed > 1.1 * speeds.get((key[0], key[1] - {"R"}, key[2]), float("inf"))
    }
    printed = {
        (row["model"], frozenset(str(row["method"]).split("+")), row["platform"])
        for row in find_table(name).rows
        if "without R" in str(row["as_printed"])
    }
    assert printed == found


def test_the_cells_that_the_sources_name_are_marked() -> None:
    assert ("Llama2-13B", "R+Z2+O", "A800") in marked("table4", "tokens_per_s")
    assert ("Llama2-13B", "F+Z2+O", "A800") in marked("table4", "memory_gb")
    rows = {
        (row["model"], row["method"], row["platform"]): row for row in find_table("table4").rows
    }
    assert rows["Llama2-13B", "R+Z2+O", "A800"]["tokens_per_s"] == 640435
    assert rows["Llama2-13B", "F+Z2+O", "A800"]["memory_gb"] == 27.5


def test_every_mark_is_of_a_column_and_names_a_row() -> None:
    for table in load_tables().values():
        names = {column.name for column in table.columns}
        reasons = [row["as_printed"] for row in table.rows if row.get("as_printed")]
        for reason in reasons:
            assert str(reason).partition(":")[0] in names
        assert ("as_printed" in names) == bool(reasons)


def test_shares_agree_with_times() -> None:
    """What the marks of Tables V, VI, X and XI rest on: time over the sum of times."""
    rows = find_table("table10").rows
    parts = [row for row in rows if row["task"] == "(all)"]
    total = sum(float(row["time_ms"] or 0) for row in parts)
    assert total == pytest.approx(51.11)
    for row in rows:
        share = 100 * float(row["time_ms"] or 0) / total
        assert (abs(share - float(row["pass_pct"] or 0)) < 0.07) != bool(row["as_printed"])
    for name in ("table5", "table7"):
        rows = find_table(name).rows
        total = sum(float(row["overall_ms"] or 0) for row in rows)
        for row in rows:
            share = 100 * float(row["overall_ms"] or 0) / total
            assert share == pytest.approx(row["step_pct"], abs=0.7)


# -- the loader ------------------------------------------------------------------------------------


def test_tables_come_in_the_order_of_the_paper() -> None:
    names = [f"table{number}" for number in range(1, 17)]
    figures = [f"figure{number}" for number in range(11, 16)]
    assert list(load_tables()) == [*names, "figure4", "figure7", "figure9", *figures]
    for number, name in ((v, k) for k, v in ROMAN.items()):
        assert find_table(f"table{number}").source == f"arXiv 2311.03687v2, Table {name}"


def test_a_missing_cell_is_null_and_out_of_memory_where_the_paper_says_so() -> None:
    result = find_table("table3").to_result("RTX4090")
    row = result.to_dicts()[0]
    assert (row["method"], row["tokens_per_s"], row["outcome"]) == ("Naive", None, "oom")
    assert "outcome" not in find_table("table9").to_result().column_names


def test_wrong_names_are_refused() -> None:
    with pytest.raises(UsageError, match="the paper has no 'table17'") as refused:
        find_table("table17")
    assert "did you mean" in str(refused.value.hint)
    with pytest.raises(UsageError, match="table3 has no platform 'H100'") as refused:
        find_table("table3").to_result("H100")
    assert refused.value.hint == f"its platforms: {', '.join(PLATFORMS)}"
    with pytest.raises(UsageError, match="table5 has no platform 'RTX4090'"):
        find_table("table5").to_result("RTX4090")
