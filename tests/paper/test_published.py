"""The published figures: impossible values are marked, and names find tables."""

from itertools import product

import pytest

from tracekit.errors import UsageError
from tracekit.paper.tables import find_table, load_tables

NUMERALS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
NUMERALS += ("XI", "XII", "XIII", "XIV", "XV", "XVI")
ROMAN = {name: number for number, name in enumerate(NUMERALS, start=1)}


# -- marks: impossible values ----------------------------------------------------------------------


def marked(name, column):
    return {
        (row["model"], row["method"], row["platform"])
        for row in find_table(name).rows
        if f"{column}: " in (row["as_printed"] or "")
    }


def by_row(name, column):
    return {
        (str(row["model"]), frozenset(str(row["method"]).split("+")), str(row["platform"])): row[
            column
        ]
        for row in find_table(name).rows
        if row[column] is not None
    }


def test_the_marks_of_the_batch_sizes_are_those_that_the_rule_finds():
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
def test_the_marks_of_recomputation_are_those_that_the_rule_finds(name):
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


def test_the_cells_that_the_sources_name_are_marked():
    assert ("Llama2-13B", "R+Z2+O", "A800") in marked("table4", "tokens_per_s")
    assert ("Llama2-13B", "F+Z2+O", "A800") in marked("table4", "memory_gb")
    rows = {
        (row["model"], row["method"], row["platform"]): row for row in find_table("table4").rows
    }
    assert rows["Llama2-13B", "R+Z2+O", "A800"]["tokens_per_s"] == 640435
    assert rows["Llama2-13B", "F+Z2+O", "A800"]["memory_gb"] == 27.5


def test_every_mark_is_of_a_column_and_names_a_row():
    for table in load_tables().values():
        names = {column.name for column in table.columns}
        reasons = [row["as_printed"] for row in table.rows if row.get("as_printed")]
        for reason in reasons:
            assert str(reason).partition(":")[0] in names
        assert ("as_printed" in names) == bool(reasons)


def test_shares_agree_with_times():
    """Shares equal time / sum of times, except marked cells in Tables V, VI, X, and XI."""
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


def test_tables_come_in_the_order_of_the_paper():
    names = [f"table{number}" for number in range(1, 17)]
    figures = [f"figure{number}" for number in range(11, 16)]
    assert list(load_tables()) == [*names, "figure4", "figure7", "figure9", *figures]
    for number, name in ((v, k) for k, v in ROMAN.items()):
        assert find_table(f"table{number}").source == f"arXiv 2311.03687v2, Table {name}"


def test_a_missing_cell_is_null_and_out_of_memory_where_the_paper_says_so():
    result = find_table("table3").to_result("RTX4090")
    row = result.to_dicts()[0]
    assert (row["method"], row["tokens_per_s"], row["outcome"]) == ("Naive", None, "oom")
    assert "outcome" not in find_table("table9").to_result().column_names


@pytest.mark.parametrize(("name", "platform"), [("table3", "H100"), ("table5", "RTX4090")])
def test_wrong_names_are_refused(name, platform):
    with pytest.raises(UsageError, match=platform) as refused:
        find_table(name).to_result(platform)
    assert "A800" in str(refused.value.hint)
    with pytest.raises(UsageError, match="table17"):
        find_table("table17")
