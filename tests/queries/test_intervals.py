"""The interval macros against sets of single nanoseconds."""

from itertools import count, pairwise
from typing import NamedTuple

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis.catalog import load_catalog
from tracekit.sql_text import rows


class Interval(NamedTuple):
    part: str
    start_ns: int
    end_ns: int

    @property
    def moments(self):
        return {(self.part, ns) for ns in range(self.start_ns, self.end_ns)}


MORE = ("gaps", "innermost", "pairs", "runs")
INTERVALS = st.lists(
    st.builds(
        lambda part, start, length: Interval(part, start, start + length),
        st.sampled_from("ab"),
        st.integers(-5, 25),
        st.integers(0, 9),
    ),
    max_size=14,
)
check = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as connection:
        for name in ("crossings", "adjacent", "overlap", "owner", "union", *MORE):
            connection.execute(load_catalog().functions[f"interval_{name}"].sql)
        yield connection


def fill(connection, name, intervals):
    connection.execute(
        f"CREATE OR REPLACE TABLE {name} (id BIGINT, part VARCHAR, start_ns BIGINT, end_ns BIGINT)"
    )
    if intervals:
        listed = [(at, *interval) for at, interval in enumerate(intervals)]
        connection.execute(f"INSERT INTO {name} VALUES {rows(listed)}")


def moments(intervals):
    return set().union(*(interval.moments for interval in intervals)) if intervals else set()


def ahead_ns(piece, covered):
    """How long the start of a piece has been covered; None where it is not."""
    if (piece.part, piece.start_ns) not in covered:
        return None
    return next(back for back in count() if (piece.part, piece.start_ns - back - 1) not in covered)


def test_union(connection):
    @check
    @given(INTERVALS)
    def run(intervals):
        fill(connection, "given", intervals)
        found = [
            Interval(*row)
            for row in connection.execute(
                "SELECT part, start_ns, end_ns FROM interval_union('given') ORDER BY ALL"
            ).fetchall()
        ]
        assert moments(found) == moments(intervals)
        # Disjoint, and what touches is joined.
        for one, next_one in pairwise(found):
            assert one.part < next_one.part or one.end_ns < next_one.start_ns

    run()


def test_overlap(connection):
    @check
    @given(INTERVALS, INTERVALS)
    def run(pieces, cover):
        fill(connection, "pieces", pieces)
        fill(connection, "cover", cover)
        found = connection.execute(
            "FROM interval_overlap('pieces', 'cover') ORDER BY id"
        ).fetchall()
        covered = moments(cover)
        assert found == [
            (at, len(piece.moments & covered), ahead_ns(piece, covered))
            for at, piece in enumerate(pieces)
        ]

    run()


def test_crossings(connection):
    @check
    @given(INTERVALS, INTERVALS)
    def run(pieces, cover):
        fill(connection, "pieces", pieces)
        fill(connection, "cover", cover)
        connection.execute(
            "CREATE OR REPLACE TABLE tile AS SELECT *, row_number() OVER () AS id "
            "FROM interval_union('cover')"
        )
        found = connection.execute("FROM interval_crossings('pieces', 'tile')").fetchall()
        tiles = connection.execute("SELECT id, part, start_ns, end_ns FROM tile").fetchall()
        assert sorted(found) == [
            (at, number)
            for at, one in enumerate(pieces)
            for number, part, start_ns, end_ns in sorted(tiles)
            if one.part == part and one.start_ns < end_ns and one.end_ns > start_ns < end_ns
        ]

    run()


def test_owner(connection):
    @check
    @given(INTERVALS)
    def run(intervals):
        fill(connection, "given", intervals)
        found = connection.execute(
            "SELECT id, least(owned_from_ns(part, start_ns, end_ns, id), end_ns) FROM given "
            "ORDER BY id"
        ).fetchall()
        # Of all that run at a moment, the one that started first owns it; of those, the first id.
        owned = {at: set() for at in range(len(intervals))}
        for moment in moments(intervals):
            running = [at for at, one in enumerate(intervals) if moment in one.moments]
            owned[min(running, key=lambda at: (intervals[at].start_ns, at))].add(moment)
        for at, owned_from_ns in found:
            one = intervals[at]
            assert one.start_ns <= owned_from_ns <= one.end_ns
            assert Interval(one.part, owned_from_ns, one.end_ns).moments == owned[at]

    run()


def test_of_nothing(connection):
    fill(connection, "given", [])
    fill(connection, "pieces", [Interval("a", 1, 5)])
    assert connection.execute("FROM interval_union('given')").fetchall() == []
    assert connection.execute("FROM interval_overlap('pieces', 'given')").fetchall() == [
        (0, 0, None)
    ]
    assert connection.execute("FROM interval_overlap('given', 'pieces')").fetchall() == []


def test_epoch_nanoseconds_stay_exact(connection):
    at = 1_694_128_201_545_123_456
    fill(connection, "given", [Interval("a", at, at + 3), Interval("a", at + 1, at + 4)])
    assert connection.execute("FROM interval_union('given')").fetchall() == [("a", at, at + 4)]
    fill(connection, "pieces", [Interval("a", at + 2, at + 9)])
    assert connection.execute("FROM interval_overlap('pieces', 'given')").fetchall() == [(0, 2, 2)]


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
    assert connection.execute(
        "SELECT count(*), sum(end_ns - start_ns) FROM interval_union('given')"
    ).fetchall() == [(200_001, 600_000)]
    assert connection.execute(
        "SELECT sum(overlap_ns) FROM interval_overlap('pieces', 'given')"
    ).fetchall() == [(400_000,)]
    assert connection.execute(
        "SELECT count(*) FROM interval_crossings('pieces', 'given')"
    ).fetchall() == [(400_000,)]


def test_gaps(connection):
    @check
    @given(INTERVALS)
    def run(intervals):
        fill(connection, "given", intervals)
        found = connection.execute(
            "SELECT part, start_ns, end_ns, previous_id, next_id FROM interval_gaps('given')"
        ).fetchall()
        idle = [ns for gap in found for ns in Interval(*gap[:3]).moments]
        around = set()
        for part in "ab":
            mine = [one for one in intervals if one.part == part]
            if mine:
                first, last = min(i.start_ns for i in mine), max(i.end_ns for i in mine)
                around |= Interval(part, first, last).moments
        # An interval of no length inside a gap cuts it in two.
        assert sorted(idle) == sorted(around - moments(intervals))
        for part, start_ns, end_ns, previous_id, next_id in found:
            assert start_ns < end_ns
            before, after = intervals[previous_id], intervals[next_id]
            assert (before.part, before.end_ns) == (part, start_ns)
            assert (after.part, after.start_ns) == (part, end_ns)

    run()


def test_innermost(connection):
    connection.execute(
        "CREATE OR REPLACE TABLE moments AS "
        "SELECT part, row_number() OVER (ORDER BY part, at_ns) AS id, at_ns "
        "FROM (VALUES ('a'), ('b')) AS p (part), (SELECT unnest(range(-7, 36)) AS at_ns)"
    )
    times = connection.execute("SELECT id, part, at_ns FROM moments").fetchall()

    @check
    @given(INTERVALS)
    def run(intervals):
        fill(connection, "given", intervals)
        found = dict(
            connection.execute(
                "SELECT id, span_id FROM interval_innermost('moments', 'given')"
            ).fetchall()
        )
        for moment, part, at_ns in times:
            ids = [at for at, one in enumerate(intervals) if (part, at_ns) in one.moments]
            best = max(
                ids,
                key=lambda at: (intervals[at].start_ns, -intervals[at].end_ns, at),
                default=None,
            )
            assert found.get(moment) == best

    run()


def disjoint(intervals):
    """Return intervals without those that overlap one before them."""
    kept = []
    for one in sorted(intervals):
        if not kept or kept[-1].part != one.part or kept[-1].end_ns <= one.start_ns:
            kept.append(one)
    return kept


def test_pairs(connection):
    @check
    @given(INTERVALS.map(disjoint), INTERVALS.map(disjoint))
    def run(lefts, rights):
        fill(connection, "pieces", lefts)
        fill(connection, "cover", rights)
        found = connection.execute("FROM interval_pairs('pieces', 'cover') ORDER BY ALL").fetchall()
        assert found == [
            (i, j, len(one.moments & other.moments))
            for i, one in enumerate(lefts)
            for j, other in enumerate(rights)
            if one.moments & other.moments
        ]

    run()


LABELLED = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 3),
        st.integers(1, 5),
    ),
    max_size=14,
)


def test_adjacent_intervals_of_one_kind_are_one(connection):
    """Gaps do not part them, another label does; a label that is not known is one too."""
    run = connection

    @check
    @given(LABELLED)
    def holds(given):
        now_ns = {"a": 0, "b": 0}
        placed = []
        wanted = []
        for part, label, gap_ns, length_ns in given:
            start_ns = now_ns[part] + gap_ns
            now_ns[part] = end_ns = start_ns + length_ns
            placed.append((part, label, start_ns, end_ns, length_ns))
            last = next((one for one in reversed(wanted) if one[0] == part), None)
            if last is not None and last[1] == label:
                last[3], last[4] = end_ns, last[4] + length_ns
            else:
                wanted.append([part, label, start_ns, end_ns, length_ns])
        run.execute("DELETE FROM labelled")
        if placed:
            run.executemany("INSERT INTO labelled VALUES (?, ?, ?, ?, ?)", placed[::-1])
        found = run.execute(
            "SELECT * EXCLUDE (run) FROM interval_runs('labelled') ORDER BY part, run"
        ).fetchall()
        assert found == sorted(map(tuple, wanted), key=lambda one: (one[0], one[2]))

    run.execute(
        "CREATE TABLE labelled (part VARCHAR, label VARCHAR, start_ns BIGINT, "
        "end_ns BIGINT, busy_ns BIGINT)"
    )
    holds()
