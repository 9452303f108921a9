"""Results as rows, as text, and as data frames that keep every digit."""

import sys

import pytest

from tracekit.analysis.result import Column, Result
from tracekit.errors import UsageError

INT64_MAX = 2**63 - 1


@pytest.fixture
def result():
    return Result(
        "timeline",
        (Column("rank", "INTEGER"), Column("idle_ns", "BIGINT"), Column("name", "VARCHAR")),
        [(0, INT64_MAX, "a"), (None, None, None), (1, -1, "b")],
    )


def test_rows_columns_and_dicts(result):
    assert result.column_names == ("rank", "idle_ns", "name")
    assert len(result) == 3
    assert next(iter(result)) == (0, INT64_MAX, "a")
    assert result.column("idle_ns") == [INT64_MAX, None, -1]
    assert result.to_dicts()[2] == {"rank": 1, "idle_ns": -1, "name": "b"}
    assert repr(result) == "<Result timeline: 3 rows of rank, idle_ns, name>"


def test_print_shows_the_table():
    columns = (Column("phase", "VARCHAR"), Column("wall_ns", "BIGINT"))
    table = Result("phases", columns, [("forward", 2_500_000), ("backward", 5_000_000)])
    assert str(table).splitlines() == [
        "phase     wall ms",
        "────────  ───────",
        "forward     2.500",
        "backward    5.000",
    ]
    many = str(Result("phases", columns, [("x", at) for at in range(25)]))
    assert "20 of 25" in many.splitlines()[-1]


def test_an_unknown_column_is_refused(result):
    with pytest.raises(UsageError, match="'idle'") as caught:
        result.column("idle")
    assert "rank, idle_ns, name" in str(caught.value.hint)


def test_polars_keeps_types_and_digits(result):
    pytest.importorskip("polars")
    frame = result.to_polars()
    assert [str(dtype) for dtype in frame.dtypes] == ["Int32", "Int64", "String"]
    assert frame["idle_ns"].to_list() == [INT64_MAX, None, -1]


def test_pandas_keeps_types_and_digits(result):
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert [str(dtype) for dtype in frame.dtypes] == ["Int32", "Int64", "object"]
    assert int(frame["idle_ns"][0]) == INT64_MAX
    without_nulls = Result("x", result.columns, result.rows[:1]).to_pandas()
    assert [str(dtype) for dtype in without_nulls.dtypes] == ["int32", "int64", "object"]


def test_pandas_has_missing_doubles_as_its_own(result):
    pytest.importorskip("pandas")
    columns = (Column("share_pct", "DOUBLE"),)
    for rows in ([(1.5,)], [(1.5,), (None,)]):
        assert str(Result("x", columns, rows).to_pandas()["share_pct"].dtype) == "float64"


def test_arrow_keeps_types_and_digits(result):
    pytest.importorskip("pyarrow")
    table = result.to_arrow()
    assert [str(field.type) for field in table.schema] == ["int32", "int64", "string"]
    assert table.column("idle_ns").to_pylist() == [INT64_MAX, None, -1]
    values = [2**128 - 1, None, -(2**127)]
    wide = Result("x", (Column("sum", "HUGEINT"),), [(value,) for value in values]).to_arrow()
    assert wide.column("sum").to_pylist() == values


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_an_empty_result_keeps_its_columns(library):
    pytest.importorskip(library)
    result = Result("x", (Column("a_ns", "BIGINT"), Column("b", "DECIMAL(9,2)")), [])
    frame = {"polars": result.to_polars, "pandas": result.to_pandas, "pyarrow": result.to_arrow}[
        library
    ]()
    columns = frame.column_names if library == "pyarrow" else list(frame.columns)
    assert columns == ["a_ns", "b"]
    assert len(frame) == 0


@pytest.mark.parametrize(
    ("library", "method"),
    [("polars", "to_polars"), ("pandas", "to_pandas"), ("pyarrow", "to_arrow")],
)
def test_the_hint_for_a_missing_library_names_its_extra(result, monkeypatch, library, method):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=library) as caught:
        getattr(result, method)()
    assert "[frames]" in str(caught.value.hint)
