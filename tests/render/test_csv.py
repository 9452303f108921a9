"""CSV: quoted as RFC 4180 says, safe in a spreadsheet, every row."""

import csv
import io
import math
from datetime import date
from decimal import Decimal

import pytest


def cells_of(text):
    return list(csv.reader(io.StringIO(text)))


def test_values_are_in_base_units_and_exact(make_result, rendered):
    result = make_result(
        "x",
        {"rank": "INTEGER", "idle_ns": "BIGINT", "ok": "BOOLEAN", "pct": "DOUBLE", "n": "VARCHAR"},
        (0, 2**63 - 1, True, 0.1, "a"),
        (None, -1, False, math.nan, None),
    )
    assert rendered(result, "csv") == (
        "rank,idle_ns,ok,pct,n\n0,9223372036854775807,true,0.1,a\n,-1,false,,\n"
    )


def test_commas_quotes_and_newlines_are_quoted(make_result, rendered):
    hostile = 'k<4, "x">\nsecond line'
    text = rendered(make_result("x", {"name": "VARCHAR"}, (hostile,)), "csv")
    assert text == 'name\n"k<4, ""x"">\nsecond line"\n'
    assert cells_of(text)[1] == [hostile]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+SUM(A1)", "'+SUM(A1)"),
        ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
        ("@x", "'@x"),
        ("\t=1", "'\t=1"),
        ("-12.5", "-12.5"),
        ("+1e3", "+1e3"),
        ("a=b", "a=b"),
        (-12, "-12"),
        (-0.5, "-0.5"),
    ],
)
def test_formulas_are_disarmed_and_numbers_are_not(make_result, rendered, value, cell):
    result = make_result("x", {"name": "VARCHAR"}, (value,))
    assert cells_of(rendered(result, "csv"))[1] == [cell]
    assert cells_of(rendered(result, "csv_plain"))[1] == [str(value)]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("a\u202eb", "a\\u202eb"),
        ("a\rb", "a\\rb"),
        ([1, "a"], '[1, "a"]'),
        ({"a": 1}, '{"a": 1}'),
        (Decimal("1.50"), "1.50"),
        (date(2020, 1, 2), "2020-01-02"),
        (b"\xff", "ff"),
        (math.inf, "inf"),
    ],
)
def test_other_values_have_a_text(make_result, rendered, value, cell):
    text = rendered(make_result("x", {"name": "VARCHAR"}, (value,)), "csv")
    assert cells_of(text)[1] == [cell]


def test_a_breakdown_is_one_long_table(breakdown, rendered):
    header, *rows = cells_of(rendered(breakdown, "csv"))
    assert header == ["analysis", "row", "column", "value"]
    assert ["timeline", "0", "idle_ns", "108000"] in rows
    last = breakdown["kernel_classes"].column("class")[-1]
    assert ["kernel_classes", str(len(breakdown["kernel_classes"]) - 1), "class", last] in rows
    assert len(rows) == sum(len(r.rows) * len(r.columns) for r in breakdown.values())
