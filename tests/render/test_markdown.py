"""Markdown: text from a trace cannot break out of a table."""

import pytest


def test_a_table_for_people(make_result, rendered):
    result = make_result(
        "x",
        {"name": "VARCHAR", "idle_ns": "BIGINT", "size_bytes": "BIGINT", "wall_pct": "DOUBLE"},
        ("gemm", 113_440_000, 2_000_000_000, 12.345),
        (None, None, None, None),
    )
    assert rendered(result, "markdown") == (
        "| name | idle ms | size GB | wall % |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| gemm | 113.440 | 2.000 | 12.3 |\n"
        "| – | – | – | – |\n"
    )


def test_base_units_on_demand(make_result, rendered):
    result = make_result("x", {"idle_ns": "BIGINT"}, (113_440_000,))
    text = rendered(result, "markdown", units=False)
    assert text == "| idle_ns |\n| ---: |\n| 113440000 |\n"


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("comm_allreduce", "comm_allreduce"),
        ("Memcpy HtoD (Pageable)", "Memcpy HtoD (Pageable)"),
        ("void k<4, 8>(float*)", "`void k<4, 8>(float*)`"),
        ("a|b", "`a\\|b`"),
        ("a\nb", "`a\\nb`"),
        ("[link](http://x)", "`[link](http://x)`"),
        ("see www.example.com", "`see www.example.com`"),
        ("<script>", "`<script>`"),
        ("_emphasis_", "`_emphasis_`"),
        ("tick`s``x", "```tick`s``x```"),
        ("`", "`` ` ``"),
        ("\x1b[31m", "`\\x1b[31m`"),
        ("\u202eabc", "`\\u202eabc`"),
        ("模型 v2", "模型 v2"),
        ("", ""),
    ],
)
def test_names_stay_names(make_result, rendered, name, cell):
    text = rendered(make_result("x", {"name": "VARCHAR"}, (name,)), "markdown")
    assert text.splitlines()[2:] == [f"| {cell} |"]


def test_a_breakdown_is_headings_and_tables(breakdown, rendered):
    text = rendered(breakdown, "markdown")
    headings = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert headings == list(breakdown)


def test_a_long_table_is_truncated_with_a_note(make_result, rendered):
    data = {"kernels": make_result("kernels", {"a": "BIGINT"}, *((i,) for i in range(1_030)))}
    text = rendered(data, "markdown")
    assert text.endswith("| 19 |\n\n1,010 more rows (`--full` shows them)\n")
    assert rendered(data, "markdown", full=True).endswith("| 1029 |\n")
