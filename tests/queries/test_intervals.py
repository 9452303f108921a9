"""The interval macros on a few intervals of part, start, and end, whose id is their place."""

import duckdb
import pytest

from tracekit.analysis.catalog import load_catalog
from tracekit.sql_text import rows

MACROS = (
    "crossings",
    "adjacent",
    "overlap",
    "owner",
    "union",
    "gaps",
    "innermost",
    "pairs",
    "runs",
)
MOMENTS = "SELECT part, start_ns AS at_ns, id FROM pieces"
OVERLAP = "FROM interval_overlap('pieces', 'cover') ORDER BY id"
INNERMOST = (
    "SELECT span_id FROM moment LEFT JOIN (FROM interval_innermost('moment', 'cover')) AS i "
    "USING (id) ORDER BY id"
)


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as connection:
        for name in MACROS:
            connection.execute(load_catalog().functions[f"interval_{name}"].sql)
        yield connection


def fill(connection, name, text):
    """Make a table of intervals such as `a 0 4, b 2 2`."""
    connection.execute(
        f"CREATE OR REPLACE TABLE {name} (id BIGINT, part VARCHAR, start_ns BIGINT, end_ns BIGINT)"
    )
    listed = [one.split() for one in text.split(", ") if one]
    if listed:
        numbered = [(at, part, *map(int, ends)) for at, (part, *ends) in enumerate(listed)]
        connection.execute(f"INSERT INTO {name} VALUES {rows(numbered)}")


# SQL, the table `pieces`, the table `cover`, and the rows.
CASES = {
    "a union joins what overlaps and what touches": (
        "SELECT part, start_ns, end_ns FROM interval_union('pieces') ORDER BY ALL",
        "a 2 6, a 0 4, a 1 2, a 6 7, a 9 9, a 12 15, b 3 5", "",
        [("a", 0, 7), ("a", 9, 9), ("a", 12, 15), ("b", 3, 5)],
    ),
    "a union of nothing": ("FROM interval_union('pieces')", "", "", []),
    "overlap, and how long the start has been covered": (
        OVERLAP,
        "a 1 5, a 0 12, b 0 9, a 6 6, a 9 11, a 7 9", "a 2 4, a 3 7, a 9 10",
        [(0, 3, None), (1, 6, None), (2, 0, None), (3, 0, 4), (4, 1, 0), (5, 0, None)],
    ),
    "overlap with nothing": (OVERLAP, "a 1 5", "", [(0, 0, None)]),
    "overlap of nothing": (OVERLAP, "", "a 1 5", []),
    "crossings leave out what touches, and empty tiles": (
        "FROM interval_crossings('pieces', 'cover') ORDER BY ALL",
        "a 2 4, a 3 3, a 6 8, b 1 2, a 0 9, a 1 1", "a 0 3, a 3 6, a 8 9, b 0 9, a 7 7",
        [(0, 0), (0, 1), (3, 3), (4, 0), (4, 1), (4, 2), (5, 0)],
    ),
    "of all that run at once the first owns the time, and of those the first id": (
        "SELECT id, owned_from_ns(part, start_ns, end_ns, id) FROM pieces ORDER BY id",
        "a 0 4, a 0 4, a 2 6, a 8 9, b 1 3, a 3 5", "",
        [(0, 0), (1, 4), (2, 4), (3, 8), (4, 1), (5, 6)],
    ),
    "gaps, which an interval of no length cuts in two": (
        "SELECT * FROM interval_gaps('pieces') ORDER BY ALL",
        "a 1 5, a 0 2, a 6 6, a 9 11, a 2 3, b 5 6, b 8 9, b 9 10", "",
        [("a", 5, 6, 0, 2), ("a", 6, 9, 2, 3), ("b", 6, 8, 5, 6)],
    ),
    "pairs of disjoint intervals": (
        "FROM interval_pairs('pieces', 'cover') ORDER BY ALL",
        "a 0 4, a 5 9, b 0 9, a 4 4", "a 2 6, a 6 7, a 1 1, b 9 12",
        [(0, 0, 2), (1, 0, 1), (1, 1, 1)],
    ),
    "the innermost of equal spans is the last, and one of no length contains nothing": (
        INNERMOST,
        "a 0 0, a 2 0, a 4 0, a 6 0, a 10 0, a 12 0, b 2 0, b 3 0",
        "a 0 10, a 2 8, a 2 8, a 4 4, a 6 12, b 0 3",
        [(0,), (2,), (2,), (4,), (4,), (None,), (5,), (None,)],
    ),
    "the innermost at each of many moments": (
        INNERMOST,
        ", ".join(f"a {at} 0" for at in range(35)), "a 0 33, a 5 29, a 7 8, a 11 27",
        [(int(one),) for one in "00000112111" + "3" * 16 + "110000"] + [(None,)] * 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_macro(name, connection):
    sql, pieces, cover, expected = CASES[name]
    fill(connection, "pieces", pieces)
    fill(connection, "cover", cover)
    connection.execute(f"CREATE OR REPLACE VIEW moment AS {MOMENTS}")
    assert connection.execute(sql).fetchall() == expected


def test_adjacent_intervals_of_one_kind_are_one(connection):
    """Gaps do not part them, another label does; a label that is not known is one too."""
    connection.execute(
        "CREATE OR REPLACE TABLE labelled AS FROM (VALUES ('a', 'x', 3, 5, 2), "
        "('a', 'x', 0, 1, 1), ('a', 'y', 5, 6, 1), ('a', NULL, 7, 8, 1), ('a', NULL, 8, 9, 1), "
        "('a', 'x', 10, 11, 1), ('b', 'x', 0, 2, 2)) AS t (part, label, start_ns, end_ns, busy_ns)"
    )
    found = "SELECT * EXCLUDE (run) FROM interval_runs('labelled') ORDER BY part, run"
    assert connection.execute(found).fetchall() == [
        *(("a", "x", 0, 5, 3), ("a", "y", 5, 6, 1), ("a", None, 7, 9, 2), ("a", "x", 10, 11, 1)),
        ("b", "x", 0, 2, 2),
    ]


def test_epoch_nanoseconds_stay_exact(connection):
    at = 1_694_128_201_545_123_456
    fill(connection, "cover", f"a {at} {at + 3}, a {at + 1} {at + 4}")
    assert connection.execute("FROM interval_union('cover')").fetchall() == [("a", at, at + 4)]
    fill(connection, "pieces", f"a {at + 2} {at + 9}")
    assert connection.execute("FROM interval_overlap('pieces', 'cover')").fetchall() == [(0, 2, 2)]


def test_nothing_is_quadratic(connection):
    """A long interval over many short ones: the worst case for anything pairwise."""
    connection.execute(
        "CREATE OR REPLACE TABLE given AS SELECT range AS id, 'a' AS part, "
        "range * 2 AS start_ns, range * 2 + 1 AS end_ns FROM range(200_000) "
        "UNION ALL SELECT 200_000, 'b', 0, 400_000"
    )
    connection.execute(
        "CREATE OR REPLACE TABLE pieces AS SELECT * REPLACE ('a' AS part) FROM given"
    )
    for sql, expected in (
        (
            "SELECT count(*), sum(end_ns - start_ns) FROM interval_union('given')",
            (200_001, 600_000),
        ),
        ("SELECT sum(overlap_ns) FROM interval_overlap('pieces', 'given')", (400_000,)),
        ("SELECT count(*) FROM interval_crossings('pieces', 'given')", (400_000,)),
    ):
        assert connection.execute(sql).fetchall() == [expected]
