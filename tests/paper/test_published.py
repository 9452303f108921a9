"""The published figures: impossible values are marked, and names find tables."""

from tracekit.paper.tables import find_table, load_tables


def marked(name, column):
    return {
        (row["model"], row["method"], row["platform"])
        for row in find_table(name).rows
        if f"{column}: " in (row["as_printed"] or "")
    }


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


def test_tables_come_in_the_order_of_the_paper():
    names = [f"table{number}" for number in range(1, 17)]
    figures = [f"figure{number}" for number in range(11, 16)]
    assert list(load_tables()) == [*names, "figure4", "figure7", "figure9", *figures]
    assert find_table("table16").source == "arXiv 2311.03687v2, Table XVI"


def test_a_missing_cell_is_null_or_out_of_memory_as_in_the_paper():
    result = find_table("table3").to_result("RTX4090")
    row = result.to_dicts()[0]
    assert (row["method"], row["tokens_per_s"], row["outcome"]) == ("Naive", None, "oom")
    assert "outcome" not in find_table("table9").to_result().column_names
