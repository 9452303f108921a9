"""Headers of SQL files: how they are read, and every way in which they can be wrong."""

import pytest

from tracekit.analysis.glossary import COLUMN_MEANINGS
from tracekit.analysis.header import ColumnSpec, Key, Param, parameters, parse_header, views_of
from tracekit.errors import QueryError

GOOD = """\
-- How much of each device's window was spent on what?
-- Gaps between device events are idle.
-- They are counted once.
--
-- Kind:     analysis
-- Scope:    trace
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


def analysis(*lines, sql="SELECT 1 AS a"):
    """A minimal valid analysis with further header lines."""
    header = ["-- Why?", "--", "-- Kind: analysis", "-- Scope: trace"]
    columns = (
        [] if any("Columns:" in line for line in lines) else ["-- Columns:", "--   a  INTEGER  x"]
    )
    return "\n".join([*header, *lines, *columns, sql])


def test_everything_in_a_good_header_is_read():
    spec = parse_header(GOOD, "timeline", "queries/timeline/timeline.sql")
    assert spec.name == "timeline"
    assert spec.path == "queries/timeline/timeline.sql"
    assert spec.question == "How much of each device's window was spent on what?"
    assert spec.description == "Gaps between device events are idle. They are counted once."
    assert (spec.kind, spec.scope) == ("analysis", "trace")
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


def test_columns_of_the_glossary_need_no_meaning_and_share_a_line():
    columns = ("-- Columns:", "--   trace_id INTEGER -> trace, rank INTEGER", "--   a  BIGINT  x")
    assert parse_header(analysis(*columns), "a", "a.sql").columns == (
        ColumnSpec(
            "trace_id", "INTEGER", COLUMN_MEANINGS["trace_id"], Key("trace", (("trace_id",) * 2,))
        ),
        ColumnSpec("rank", "INTEGER", COLUMN_MEANINGS["rank"]),
        ColumnSpec("a", "BIGINT", "x"),
    )


def test_columns_of_a_private_file_need_no_meaning():
    text = (
        "-- Parts.\n--\n-- Kind: table\n-- Access: private\n-- Columns:\n"
        "--   part INTEGER, size DECIMAL(18,3), span(a, b) BIGINT\nSELECT 1"
    )
    with pytest.raises(QueryError, match="cannot read"):
        parse_header(text, "parts", "parts.sql")
    spec = parse_header(text.replace("span(a, b)", "span"), "parts", "parts.sql")
    assert spec.columns == (
        ColumnSpec("part", "INTEGER", ""),
        ColumnSpec("size", "DECIMAL(18,3)", ""),
        ColumnSpec("span", "BIGINT", ""),
    )


def test_reasons_for_no_rows_name_empty_relations():
    text = analysis("-- Empty: request: the run has none", "-- Empty: none lasted: all failed")
    spec = parse_header(text, "a", "a.sql")
    assert spec.empty == (("request", "the run has none"), ("", "none lasted: all failed"))


def test_a_macro_needs_no_columns_and_its_params_are_arguments():
    text = (
        "-- What is the union?\n--\n-- Kind: function\n-- Params:\n"
        "--   relation  TABLE  name of a relation\nCREATE MACRO u(relation) AS 1;\n"
    )
    spec = parse_header(text, "interval_union", "x.sql")
    assert (spec.kind, spec.scope, spec.columns) == ("function", None, ())
    assert spec.params[0].type == "TABLE"


@pytest.mark.parametrize("kind", ["view", "table"])
def test_a_view_or_table_is_a_select_with_columns(kind):
    text = f"-- What?\n--\n-- Kind: {kind}\n-- Columns:\n--   a  INTEGER  x\nSELECT 1 AS a\n"
    assert parse_header(text, "v", "v.sql").kind == kind


def test_windows_line_ends_and_a_byte_order_mark_are_read():
    text = "\ufeff" + analysis().replace("\n", "\r\n")
    assert parse_header(text, "a", "a.sql").question == "Why?"


KIND = "-- Why?\n--\n-- Kind: "
COLUMN_A = "\n-- Columns:\n--   a  INTEGER  x\nSELECT 1"
X = "--   x  BIGINT = 0  y"

# Text of a file, and a word of the reason.
BAD = {
    "no header": ("SELECT 1", "missing"),
    "empty file": ("", "missing"),
    "empty question": ("--\n-- Kind: function\nSELECT 1", "missing"),
    "no SQL": (KIND + "function\n", "SQL"),
    "no kind": ("-- Why?\n--\n-- Scope: trace\nSELECT 1", "Kind"),
    "unknown kind": (KIND + "query\nSELECT 1", "'query'"),
    "no scope": (KIND + "analysis" + COLUMN_A, "Scope"),
    "unknown scope": (KIND + "analysis\n-- Scope: rank" + COLUMN_A, "'rank'"),
    "scope of a macro": (KIND + "function\n-- Scope: trace\nSELECT 1", "Scope"),
    "no columns": (KIND + "view\nSELECT 1", "Columns"),
    "empty columns": (analysis("-- Columns:"), "Columns"),
    "unknown field": (analysis("-- Column: a"), "'Column'"),
    "free text after the fields": (analysis("-- and so on"), "'and so on'"),
    "indented line before a field": (
        "-- Why?\n--\n--   a  INTEGER  x\n-- Kind: function\nSELECT 1",
        "field",
    ),
    "a field twice": (analysis("-- Input: a", "-- Input: b"), "Input"),
    "entries on the field's line": (analysis("-- Params: x BIGINT = 0 y"), "line"),
    "param without type": (analysis("-- Params:", "--   x  = 0  y"), "'x  = 0  y'"),
    "param without meaning": (analysis("-- Params:", "--   x  BIGINT = 0"), "x"),
    "param of unknown type": (
        analysis("-- Params:", "--   x  BLOB = 0  y", sql="SELECT $x"),
        "BLOB",
    ),
    "default of another type": (
        analysis("-- Params:", "--   x  BIGINT = a  y", sql="SELECT $x"),
        "'a'",
    ),
    "default out of range": (
        analysis("-- Params:", "--   x  INTEGER = 2147483648  y", sql="SELECT $x"),
        "range",
    ),
    "default that is not a choice": (
        analysis("-- Params:", "--   x  VARCHAR{a|b} = c  y", sql="SELECT $x"),
        "'c'",
    ),
    "choices of a number": (
        analysis("-- Params:", "--   x  BIGINT{1|2} = 1  y", sql="SELECT $x"),
        "VARCHAR",
    ),
    "param twice": (analysis("-- Params:", X, X, sql="SELECT $x"), "twice"),
    "param not used": (analysis("-- Params:", X), r"\$x"),
    "param not declared": (analysis(sql="SELECT $x AS a"), r"\$x"),
    "column without type": (analysis("-- Columns:", "--   a  x"), "'a  x'"),
    "column without meaning": (analysis("-- Columns:", "--   a  INTEGER"), "a"),
    "column twice": (analysis("-- Columns:", "--   a  INTEGER  x", "--   a  INTEGER  y"), "twice"),
    "empty invariant": (analysis("-- Invariant:"), "Invariant"),
    "a needed parameter with a default": (
        analysis("-- Params:", X, "-- Needs: x", sql="SELECT $x AS a"),
        "Needs",
    ),
}


@pytest.mark.parametrize(("text", "reason"), BAD.values(), ids=BAD.keys())
def test_a_bad_header_is_refused(text, reason):
    with pytest.raises(QueryError, match=reason) as caught:
        parse_header(text, "thing", "queries/analyses/thing.sql")
    assert caught.value.message.startswith("queries/analyses/thing.sql: ")


def test_the_hint_for_a_misspelled_field_is_its_name():
    with pytest.raises(QueryError) as caught:
        parse_header(analysis("-- Invariants: a > 0"), "thing", "x.sql")
    assert "Invariant?" in str(caught.value.hint)


def test_a_file_name_must_be_an_identifier():
    with pytest.raises(QueryError, match="'idle-causes'"):
        parse_header(analysis(), "idle-causes", "x.sql")


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["--   cloud  title=a"], "'cloud'"),
        (["--   report  section=a colour=b"], "'colour'"),
        (["--   report  title=a"], "section"),
        (['--   report  section=a "b'], "'\"b'"),
        (["--   chart  form=pie title=T y=a axis=c tip=a"], "'pie'"),
        (["--   chart  form=bars title=T y=a axis=c tip=a"], " x"),
        (["--   chart  form=bars title=T y=a axis=c tip=a parts=a"], "x_of"),
        (["--   chart  form=lines title=T y=a axis=c tip=a x=a"], "y_axis"),
        (["--   chart  form=bars title=T y=a", "--          x=b axis=c tip=a,where"], "'b'"),
    ],
)
def test_a_bad_view_is_refused(lines, word):
    with pytest.raises(QueryError, match=f"View: .*{word}"):
        parse_header(analysis("-- View:", *lines), "name", "name.sql")


def test_views_are_read_without_the_rest_of_a_header():
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
