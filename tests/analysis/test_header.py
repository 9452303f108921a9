"""The header of a SQL file: what is read from it, and every way in which it can be wrong."""

from __future__ import annotations

import re

import pytest

from tracekit.analysis.header import ColumnSpec, Param, parameters, parse_header, views_of
from tracekit.errors import QueryError

GOOD = """\
-- How much of each device's window was spent on what?
-- Gaps between device events are idle.
-- They are counted once.
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: device_events, interval_union
-- Params:
--   min_gap_ns  BIGINT = 0  shorter gaps count as busy, ns
--   sort        VARCHAR{idle|busy} = idle  what to sort by
--   pattern     VARCHAR = 'it''s a = b'  a text with spaces
--   class       VARCHAR = NULL  only this class
--   top         INTEGER  how many rows;
--               more than one line may tell it
-- Columns:
--   rank     INTEGER        global rank
--   idle_ns  BIGINT         window_ns - busy_ns, ns; NULL where
--                           nothing ran
--   shares   DECIMAL(18,3)[]  one per kind
-- Invariant: idle_ns >= 0
-- Invariant: rank IS NULL
--     OR rank >= 0
-- Note: idle is what is left.
SELECT $min_gap_ns, $sort, $class, $top, $pattern, '$in_text', "$quoted" -- $in_comment
/* $in_block */
"""


def analysis(*lines: str, sql: str = "SELECT 1 AS a") -> str:
    """A minimal valid analysis with further header lines."""
    header = ["-- Why?", "--", "-- Kind: analysis", "-- Scope: trace"]
    columns = (
        [] if any("Columns:" in line for line in lines) else ["-- Columns:", "--   a  INTEGER  x"]
    )
    return "\n".join([*header, *lines, *columns, sql])


def test_everything_in_a_good_header_is_read() -> None:
    spec = parse_header(GOOD, "timeline", "queries/timeline/timeline.sql")
    assert spec.name == "timeline"
    assert spec.path == "queries/timeline/timeline.sql"
    assert spec.question == "How much of each device's window was spent on what?"
    assert spec.description == "Gaps between device events are idle. They are counted once."
    assert (spec.kind, spec.scope) == ("analysis", "trace")
    assert spec.requires == ("device_events", "interval_union")
    assert spec.params == (
        Param("min_gap_ns", "BIGINT", "0", "shorter gaps count as busy, ns"),
        Param("sort", "VARCHAR", "idle", "what to sort by", ("idle", "busy")),
        Param("pattern", "VARCHAR", "it's a = b", "a text with spaces"),
        Param("class", "VARCHAR", "NULL", "only this class"),
        Param("top", "INTEGER", None, "how many rows; more than one line may tell it"),
    )
    assert spec.columns == (
        ColumnSpec("rank", "INTEGER", "global rank"),
        ColumnSpec("idle_ns", "BIGINT", "window_ns - busy_ns, ns; NULL where nothing ran"),
        ColumnSpec("shares", "DECIMAL(18,3)[]", "one per kind"),
    )
    assert spec.column_names == ("rank", "idle_ns", "shares")
    assert spec.invariants == ("idle_ns >= 0", "rank IS NULL OR rank >= 0")
    assert spec.notes == ("idle is what is left.",)
    assert spec.sql == GOOD
    assert [param.is_required for param in spec.params] == [False, False, False, False, True]


def test_reasons_for_no_rows_name_what_else_is_empty() -> None:
    text = analysis("-- Empty: request: the run has none", "-- Empty: none lasted: all failed")
    spec = parse_header(text, "a", "a.sql")
    assert spec.empty == (("request", "the run has none"), ("", "none lasted: all failed"))


def test_a_macro_needs_no_columns_and_its_params_are_arguments() -> None:
    text = (
        "-- What is the union?\n--\n-- Kind: function\n-- Params:\n"
        "--   relation  TABLE  name of a relation\nCREATE MACRO u(relation) AS 1;\n"
    )
    spec = parse_header(text, "interval_union", "x.sql")
    assert (spec.kind, spec.scope, spec.columns) == ("function", None, ())
    assert spec.params[0].type == "TABLE"


@pytest.mark.parametrize("kind", ["view", "table"])
def test_a_view_or_table_is_a_select_with_columns(kind: str) -> None:
    text = f"-- What?\n--\n-- Kind: {kind}\n-- Columns:\n--   a  INTEGER  x\nSELECT 1 AS a\n"
    assert parse_header(text, "v", "v.sql").kind == kind


def test_windows_line_ends_and_a_byte_order_mark_are_read() -> None:
    text = "\ufeff" + analysis().replace("\n", "\r\n")
    assert parse_header(text, "a", "a.sql").question == "Why?"


BAD = {
    "no header": ("SELECT 1", "the header is missing"),
    "empty file": ("", "the header is missing"),
    "empty question": ("--\n-- Kind: function\nSELECT 1", "the header is missing"),
    "no SQL": ("-- Why?\n--\n-- Kind: function\n", "no SQL below"),
    "no kind": ("-- Why?\n--\n-- Scope: trace\nSELECT 1", "Kind is missing"),
    "unknown kind": ("-- Why?\n--\n-- Kind: query\nSELECT 1", "unknown Kind 'query'"),
    "no scope": (
        "-- Why?\n--\n-- Kind: analysis\n-- Columns:\n--   a  INTEGER  x\nSELECT 1",
        "Scope is missing",
    ),
    "unknown scope": (
        "-- Why?\n--\n-- Kind: analysis\n-- Scope: rank\n-- Columns:\n--   a  INTEGER  x\nSELECT 1",
        "unknown Scope 'rank'",
    ),
    "scope of a macro": (
        "-- Why?\n--\n-- Kind: function\n-- Scope: trace\nSELECT 1",
        "a function has no Scope",
    ),
    "no columns": ("-- Why?\n--\n-- Kind: view\nSELECT 1", "Columns is missing or empty"),
    "empty columns": (analysis("-- Columns:"), "Columns is missing or empty"),
    "unknown field": (analysis("-- Column: a"), "unknown header field 'Column'"),
    "free text after the fields": (analysis("-- and so on"), "'and so on' is no header field"),
    "indented line before a field": (
        "-- Why?\n--\n--   a  INTEGER  x\n-- Kind: function\nSELECT 1",
        "belongs to no field",
    ),
    "a field twice": (analysis("-- Requires: a", "-- Requires: b"), "Requires is given twice"),
    "bad name in requires": (analysis("-- Requires: a, B c"), "'B c' is no name"),
    "entries on the field's line": (analysis("-- Params: x BIGINT = 0 y"), "on the next line"),
    "param without type": (analysis("-- Params:", "--   x  = 0  y"), "cannot read 'x  = 0  y'"),
    "param without meaning": (analysis("-- Params:", "--   x  BIGINT = 0"), "cannot read"),
    "param of no known type": (
        analysis("-- Params:", "--   x  BLOB = 0  y", sql="SELECT $x"),
        "x has the type BLOB",
    ),
    "default of another type": (
        analysis("-- Params:", "--   x  BIGINT = a  y", sql="SELECT $x"),
        "default of x: 'a' is not a whole number",
    ),
    "default out of range": (
        analysis("-- Params:", "--   x  INTEGER = 2147483648  y", sql="SELECT $x"),
        "out of range",
    ),
    "default that is no choice": (
        analysis("-- Params:", "--   x  VARCHAR{a|b} = c  y", sql="SELECT $x"),
        "'c' is not one of its values",
    ),
    "choices of a number": (
        analysis("-- Params:", "--   x  BIGINT{1|2} = 1  y", sql="SELECT $x"),
        "x has choices but is not VARCHAR",
    ),
    "param twice": (
        analysis("-- Params:", "--   x  BIGINT = 0  y", "--   x  BIGINT = 1  y", sql="SELECT $x"),
        "Params: x is declared twice",
    ),
    "param not used": (analysis("-- Params:", "--   x  BIGINT = 0  y"), r"\$x is not used"),
    "param not declared": (analysis(sql="SELECT $x AS a"), r"\$x is used but not declared"),
    "column without type": (analysis("-- Columns:", "--   a  x"), "cannot read 'a  x'"),
    "column without meaning": (analysis("-- Columns:", "--   a  INTEGER"), "cannot read"),
    "column twice": (
        analysis("-- Columns:", "--   a  INTEGER  x", "--   a  INTEGER  y"),
        "Columns: a is declared twice",
    ),
    "empty invariant": (analysis("-- Invariant:"), "Invariant is empty"),
}


@pytest.mark.parametrize(("text", "reason"), BAD.values(), ids=BAD.keys())
def test_a_bad_header_is_refused_with_file_and_reason(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason) as caught:
        parse_header(text, "thing", "queries/analyses/thing.sql")
    assert caught.value.message.startswith("queries/analyses/thing.sql: ")


def test_only_parameters_that_may_be_left_unset_are_needed() -> None:
    params = ("-- Params:", "--   a  BIGINT = 0  x", "-- Needs: a")
    with pytest.raises(QueryError, match="Needs: 'a' is no parameter with the default NULL"):
        parse_header(analysis(*params, sql="SELECT $a AS a"), "x", "x.sql")


def test_a_misspelt_field_is_met_with_its_name() -> None:
    with pytest.raises(QueryError) as caught:
        parse_header(analysis("-- Invariants: a > 0"), "thing", "x.sql")
    assert caught.value.hint == "did you mean Invariant?"


def test_a_file_name_must_be_an_identifier() -> None:
    with pytest.raises(QueryError, match="'idle-causes' is not a lower-case identifier"):
        parse_header(analysis(), "idle-causes", "x.sql")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["--   cloud  title=a"], "unknown way 'cloud'"),
        (["--   report  section=a colour=b"], "unknown setting 'colour'"),
        (["--   report  title=a"], "report has no section"),
        (['--   report  section=a "b'], "cannot read '\"b'"),
        (["--   chart  form=pie title=T y=a axis=c tip=a"], "unknown form 'pie'"),
        (["--   chart  form=bars title=T y=a axis=c tip=a"], "chart has no x"),
        (["--   chart  form=bars title=T y=a axis=c tip=a parts=a"], "chart has no x_of"),
        (["--   chart  form=lines title=T y=a axis=c tip=a x=a"], "chart has no y_axis"),
        (
            ["--   chart  form=bars title=T y=a", "--          x=b axis=c tip=a,where"],
            "'b' is none of the columns",
        ),
    ],
)
def test_a_view_that_is_wrong_is_named(lines: list[str], message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(f"View: {message}")):
        parse_header(analysis("-- View:", *lines), "name", "name.sql")


def test_views_are_read_without_the_rest_of_a_header() -> None:
    text = analysis(
        "-- View:",
        '--   chart   form=bars title="Two  words, cut" y=a axis=b',
        "--           x=a tip=a",
        "--   browse  key=x menu=m title=t columns=a ask=limit:0,kind:all",
    )
    views = views_of(text)
    assert list(views) == ["chart", "browse"]
    assert views["chart"] == {
        "form": "bars",
        "title": "Two  words, cut",
        "y": "a",
        "axis": "b",
        "x": "a",
        "tip": "a",
    }
    assert parameters(views["browse"]["ask"]) == {"limit": 0, "kind": "all"}
    assert parse_header(text, "name", "name.sql").column_names == ("a",)
    assert views_of(analysis()) == {}
