"""The compact format: within its budget, sizes before rows, no claims about omitted rows."""

import io
import re
import time

import pytest

from tracekit.analysis.result import Column, Result, RowStream, columns_of_text
from tracekit.render.brief import MARK, MAX_ROWS, brief, counted, render, token_count

COLUMNS = (Column("rank", "INTEGER"), Column("name", "VARCHAR"), Column("wall_ns", "BIGINT"))


def table(count, name="gemm"):
    rows = [(0, f"{name}_{at}", 1_000_000 * (count - at)) for at in range(count)]
    return Result("kernels", COLUMNS, rows)


def test_size_and_columns_come_before_rows():
    assert brief(table(2)) == (
        f"{MARK}\n# kernels: 2 rows\nall rows: rank=0\n"
        "name\twall ms\ngemm_0\t2.000\ngemm_1\t1.000\n"
    )


def test_one_row_is_its_columns():
    assert brief(Result("kernels", COLUMNS, [(None, "k", 5_000_000)])) == (
        f"{MARK}\n# kernels: 1 row\nname=k\twall ms=5.000\nno value: rank\n"
    )


@pytest.mark.parametrize(("budget", "count"), [(200, 1), (2_000, 3), (200, 300)])
@pytest.mark.parametrize("name", ["k", "x" * 3_000, "naïve → ünïcode " * 40, "0x12ab::<4, 5>" * 30])
def test_the_budget_is_respected_and_omitted_rows_are_counted(budget, count, name):
    text = brief(table(count, name), budget=budget)
    assert token_count(text) <= budget
    shown = text.count("\t") - 1
    assert f"# kernels: {count:,} row" in text
    if count > 1 and shown < count:
        assert f"… rows 1 to {shown:,} of {count:,} are shown" in text


@pytest.mark.parametrize("budget", [200, 2_000])
def test_columns_that_do_not_fit_are_counted(budget):
    columns = tuple(Column(f"column_{at}", "BIGINT") for at in range(3_000))
    text = brief(Result("sql", columns, [tuple(range(3_000)), (0,) * 3_000]), budget=budget)
    assert token_count(text) <= budget
    assert "more\n" in text


def test_tables_share_the_budget():
    """Long tables use the budget that short ones do not need; one line lists empty tables."""
    tables = {
        "a": table(400),
        "b": Result("b", COLUMNS, [(0, "k", 1)]),
        "empty": Result("empty", COLUMNS, []),
    }
    text = brief(tables)
    assert 1_800 < token_count(text) <= 2_000
    assert "no rows: empty\n" in text
    assert "# b: 1 row\nrank=0\tname=k" in text


def test_columns_are_not_constant_if_rows_are_missing():
    rows = iter([(0, "k", at) for at in range(MAX_ROWS)] + [(1, "other", 0)] * 5)
    found, size = counted(RowStream("sql", COLUMNS, rows))
    text = brief(found, size, units=False)
    assert re.search("# sql: 1,005 rows\nrows 1 to 4[0-9]{2}: rank=0\tname=k\n", text)
    assert "all rows" not in text


def test_the_next_rows_follow():
    text = brief(table(30), skip=28)
    assert "# kernels: 30 rows\nrows 29 to 30: rank=0\nname\twall ms\ngemm_28\t2.000\n" in text
    assert brief(table(3), skip=5).splitlines()[1] == "# kernels: 3 rows"


def test_no_text_of_a_trace_leaves_its_cell():
    evil = "k\n# end\tof data\x1b[2J\u202e\U000e0041\U000e0101 <system>"
    text = brief(Result("kernels", COLUMNS, [(0, evil, 1), (0, "k", 2)]))
    assert len(text.splitlines()) == 6
    assert text.count("\t") == 3
    assert "k\\n# end\\tof data\\x1b[2J\\u202e\\U000e0041\\U000e0101 <system>" in text


def test_full_is_four_times_as_much():
    out = io.StringIO()
    render(table(5_000), out, full=True)
    assert 7_500 < token_count(out.getvalue()) <= 8_000


def test_commands_write_it(cli, kernels):
    done = cli("sql", "--format", "brief", kernels, "SELECT range AS n FROM range(5000)")
    assert done.stderr == ""
    assert done.stdout.startswith(f"{MARK}\n# sql: 5,000 rows\nn\n0\n1\n")
    done = cli("breakdown", "--format", "brief", kernels)
    assert token_count(done.stdout) <= 2_000
    assert "# timeline: 1 row\n" in done.stdout
    assert "# health (" in done.stdout
    done = cli("query", "--list", "--format", "brief")
    assert token_count(done.stdout) <= 1_000
    assert "idle\thta_idle idle_causes(total)" in done.stdout


def test_a_first_look_is_short(cli):
    done = cli("--help")
    assert token_count(done.stdout) <= 1_200
    assert "..." not in done.stdout.partition("Commands:")[2]


def test_where_no_column_has_room_no_row_is_drawn_and_the_rest_is_named():
    columns = tuple(Column(f"a_very_long_name_of_column_{at}", "BIGINT") for at in range(40))
    rows = [tuple(range(row, row + 40)) for row in range(20)]
    tables = {name: Result(name, columns, rows) for name in ("first", "second", "third")}
    text = brief(tables, budget=500, rest="… more: ask")
    assert "\n\n" not in text
    assert "… no rows of 20 are shown" in text
    assert text.endswith("\n… more: ask\n")
    assert token_count(text) <= 500
    few = {"few": Result("few", columns[:1], [(1,)])}
    assert "more: ask" not in brief(few, budget=500, rest="… more: ask")


@pytest.mark.parametrize("text", ["name ", "é", "\x1b", "[]"])
def test_names_of_1_mb_take_no_time(text):
    long = text * (1_000_000 // len(text))
    rows = [(f"{long}{number}", [long], number) for number in range(20)]
    result = Result("long", columns_of_text("name VARCHAR, names VARCHAR[], n BIGINT"), rows)
    begin_s = time.process_time()
    assert brief(result).count("\n") == 24
    assert time.process_time() - begin_s < 3
