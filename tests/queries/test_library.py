"""Rules for the SQL files: their locations, and joins between tables."""

import re
import tomllib

import pytest
from every_trace import REPO

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.header import SQL_TOKEN
from tracekit.errors import QueryError
from tracekit.schema import TABLES

QUERIES = REPO / "queries"
TRACES = [
    REPO / "sample_traces" / "pretrain_R+Z3",
    REPO / "sample_traces" / "serve_vllm",
    *sorted((REPO / "tests" / "traces").rglob("*.json.gz")),
]

CATALOG = load_catalog()
RELATIONS = [
    *(spec for spec in CATALOG.tables.values() if not spec.is_on_demand),
    *CATALOG.views.values(),
]
ALL = [*RELATIONS, *CATALOG.functions.values(), *CATALOG.analyses.values()]

INTERVALS = {
    "an end against the ends before it": r"\bmax\s*\([^()]*end_ns[^()]*\)\s*OVER\b",
    "a start or an end of the interval beside it": r"\b(?:lag|lead)\s*\([^()]*(?:_ns|\bts)\b",
    "a sweep over starts and ends": r"\bsum\s*\([^()]*\bstep\b[^()]*\)\s*OVER\b",
    "a part that two have in common": r"\bleast\s*\([^()]*end_ns[^()]*end_ns[^()]*\)",
}
"""How the mathematics of intervals looks where it is written out."""

BEING_MOVED = {"thread_waits", "implausible"}
"""Files that still write some of it out."""


def without_comments(sql):
    """Return SQL with a blank for every comment."""
    return SQL_TOKEN.sub(
        lambda match: " " if match.group().startswith(("--", "/*")) else match.group(), sql
    )


SHARED = ("trace_id", "run_id")
"""Columns that belong to every join of two relations that both have them."""


def wrong_keys(spec, relations):
    """Return the keys of a relation that join no column of their type."""
    own = columns_of_spec(spec)
    keys = [column.key for column in spec.columns if column.key is not None]
    return [
        f"{key}: {ours}, {theirs}"
        for key in keys
        for ours, theirs in key.pairs
        if own.get(ours) != relations.get(key.table, {}).get(theirs) or ours not in own
    ]


def dangling_sql(relation, column, own, other):
    """Return a query that counts rows whose key has no match; keys with NULL are ignored."""
    key = column.key
    pairs = [*key.pairs]
    pairs += [(name, name) for name in SHARED if name in own and name in other]
    joined = " AND ".join(f"a.{ours} = b.{theirs}" for ours, theirs in dict.fromkeys(pairs))
    given = " AND ".join(f"a.{ours} IS NOT NULL" for ours, _ in key.pairs)
    return (
        f"SELECT count(*) FROM {relation} AS a ANTI JOIN {key.table} AS b ON {joined} WHERE {given}"
    )


def columns_of_spec(spec):
    """Return the columns that a header declares."""
    return {column.name: column.type for column in spec.columns}


def relations():
    found = {table.name: {column.name: column.type for column in table.columns} for table in TABLES}
    known = (*CATALOG.tables.values(), *CATALOG.views.values())
    return found | {spec.name: columns_of_spec(spec) for spec in known}


JOIN = re.compile(
    r"(?<!ASOF )(?:INNER|LEFT|ANTI|SEMI) JOIN\b[^()]*?\bON\b(?P<on>.*?)"
    r"(?=\n\s*(?:ASOF|INNER|LEFT|CROSS|ANTI|SEMI|WHERE|GROUP|ORDER|QUALIFY|WINDOW|UNION|HAVING|\)))",
    re.DOTALL,
)
BOUND = re.compile(r"_ns(?: [+-] [\w.]+)? ([<>])")


def test_a_range_on_either_side_is_no_plain_join():
    """DuckDB compares all rows of a trace with each other there: see interval_crossings."""
    found = {
        spec.name
        for spec in (*CATALOG.tables.values(), *ALL)
        for join in JOIN.finditer(re.sub(r"--.*", "", spec.sql))
        if len({*BOUND.findall(join["on"])}) > 1
    }
    assert found == set()


@pytest.mark.parametrize("what", INTERVALS)
def test_interval_mathematics_is_only_in_macros(what):
    pattern = re.compile(INTERVALS[what], re.IGNORECASE)
    inside = [s.name for s in ALL if s.subject == "intervals" and pattern.search(s.sql)]
    assert inside, "the pattern finds none of what the macros do"
    outside = [
        f"{spec.subject}/{spec.name}: {found.group()}"
        for spec in ALL
        if spec.subject != "intervals" and spec.name not in BEING_MOVED
        for found in pattern.finditer(without_comments(spec.sql))
    ]
    assert outside == []


def test_no_two_tables_views_or_macros_have_nearly_one_name():
    """An analysis may be named in the plural of the table that it is about: modules, module."""
    names = [spec.name for spec in (*RELATIONS, *CATALOG.functions.values())]
    names += [table.name for table in TABLES]
    singular = [name.removesuffix("s").replace("_", "") for name in names]
    assert sorted(set(singular)) == sorted(singular)


def test_words_of_other_tools_have_hints():
    """The first suggestion for each word exists: a table, a view, or an analysis with `()`."""
    relations = {spec.name for spec in RELATIONS} | {table.name for table in TABLES}
    words = tomllib.loads((QUERIES / "rules" / "words.toml").read_text("utf-8"))
    for word, here in words["tables"].items():
        assert word not in {*relations, *CATALOG.analyses}, word
        first = re.match(r"\w+(\(\))?", here)
        assert first is not None, word
        assert (first[0] in relations) or first[0].removesuffix("()") in CATALOG.analyses, word
        for analysis in re.findall(r"(\w+)\(\)", here):
            assert analysis in CATALOG.analyses, (word, analysis)


def test_a_word_of_another_tool_is_met_with_ours(opened):
    for statement, ours in (
        ("FROM launches", "runtime_calls"),
        ("FROM get_gpu_kernel_breakdown", "kernel_classes()"),
        ("FROM Slice", "event"),
        ("SELECT ts FROM event", "ts_ns"),
        ("SELECT e.dur FROM event AS e", "dur_ns"),
    ):
        with pytest.raises(QueryError) as caught:
            opened(TRACES[-1]).sql(statement)
        assert ours in (caught.value.hint or ""), statement


def test_views_agree_with_the_tables(opened):
    trace = opened(TRACES[-1])
    for view, source in (
        ("cpu_ops", "(FROM event WHERE is_op(category))"),
        ("gpu_kernels", "(FROM device_events WHERE device <> 'cpu')"),
        ("gaps", "(SELECT idle_ns AS dur_ns FROM idle_gap)"),
    ):
        ours, theirs = (
            trace.sql(f"SELECT count(*), sum(dur_ns) FROM {one}").rows for one in (view, source)
        )
        assert ours == theirs, view


def test_the_order_of_phases_is_defined_once():
    listed = [
        spec.name
        for spec in ALL
        if re.search(r"list_position\(\s*\[[^\]]*'forward'", without_comments(spec.sql))
    ]
    assert listed == ["phase_order"]


def test_types_are_written_in_capitals():
    """Sqlfluff cannot look: it takes the parameters of macros for types."""
    texts = re.compile("'[^']*'")
    small = {
        spec.name: re.findall(r"::\s*[a-z]\w*", texts.sub("''", without_comments(spec.sql)))
        for spec in ALL
    }
    assert {name: found for name, found in small.items() if found} == {}


def test_every_subject_is_described():
    page = (QUERIES / "README.md").read_text("utf-8")
    for subject in {spec.subject for spec in ALL}:
        assert f"| [{subject}]({subject}) |" in page, subject


KEYS = [(spec, column) for spec in RELATIONS for column in spec.columns if column.key]


def test_a_key_has_the_type_of_the_joined_column():
    known = relations()
    wrong = {spec.name: wrong_keys(spec, known) for spec in ALL}
    assert {name: keys for name, keys in wrong.items() if keys} == {}


def test_columns_named_as_keys_of_events_have_one():
    """Of tables and views for users: an event_id without a key joins wrong rows."""
    names = {"trace_id", "event_id", "launch_id", "op_id", "module_id", "parent_id"}
    bare = [
        f"{spec.name}.{column.name}"
        for spec in RELATIONS
        for column in spec.columns
        if column.name in names
        and column.key is None
        # Descriptions of rows must be unique.
        and (spec.name, column.name) != ("module", "module_id")
    ]
    assert bare == []


IN_GATE = ("pretrain_R+Z3", "rank0.json.gz")
LATE = pytest.mark.nightly("more traces of the same kinds")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path.name in IN_GATE else LATE) for path in TRACES],
    ids=lambda path: path.name,
)
def test_no_key_dangles(opened, path):
    assert len(KEYS) > 40
    trace, known = opened(path), relations()
    lost = {}
    for spec, column in KEYS:
        own, other = columns_of_spec(spec), known[column.key.table]
        (row,) = trace.sql(dangling_sql(spec.name, column, own, other)).rows
        if row[0]:
            lost[f"{spec.name}.{column.name}"] = row[0]
    assert lost == {}


RULES = CATALOG.functions["attribution_rules"].sql


def test_each_reason_has_a_case():
    listed = set(re.findall(r"^        \(\s*'([a-z ]+)',\s*'", RULES, re.MULTILINE))
    given = set(re.findall(r"reason: '([a-z ]+)'", RULES)) | {"own range", "module call"}
    # Some replace the launch context in any rule.
    assert given == (listed - {"capture", "annotation", "query length"}) | {"phase"}
    cases = (REPO / "tests" / "cases" / "why.case").read_text("utf-8")
    assert [reason for reason in sorted(given) if reason not in cases] == []


def test_the_own_phase_of_a_launch_is_the_one_that_its_rules_decide(opened):
    """`own_phase` and `decided_phase` implement rules 2 to 5 and 7."""
    rows = opened(TRACES[0]).sql(
        "SELECT phase_rule, bool_and(a.phase = own_phase("
        "c.marked_phase, c.is_recompute, c.node_id, c.module_id)) "
        "FROM attribution AS a INNER JOIN launch_context AS c "
        "ON a.trace_id = c.trace_id AND a.launch_id = c.event_id "
        "WHERE phase_rule IN (2, 3, 4, 5, 7) GROUP BY phase_rule ORDER BY phase_rule"
    )
    assert rows.rows == [(2, True), (3, True), (4, True), (5, True)]


@pytest.mark.parametrize("decides", ["phase", "module"])
def test_rules_are_in_numerical_order(decides):
    listed = [int(rule) for rule in re.findall(rf"\(\s*'{decides}', (\d+),\s*'", RULES)]
    assert listed == list(range(1, len(listed) + 1))
    branches = re.findall(rf"rule: (\d+),[^}}]*?{decides}(?:_id)?:", RULES)
    tried = list(dict.fromkeys(int(rule) for rule in branches))
    # Rule 6 precedes the rules of the launch context, 2 to 5 and 7.
    assert sorted(tried) == listed
    first = 0 if decides == "module" else 7
    assert [rule for rule in tried if rule > first] == listed[first:]
