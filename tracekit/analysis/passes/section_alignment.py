"""Matches device events without a launch to launched repetitions of the same work.

Work that was queued before the profiler started has no recorded launch, but a loop repeats it with
recorded launches. So another sequence in the same stream has the same kernels in the same order.
The two sequences are aligned, and each event is attributed like its counterpart. Unmatched kernels
stay unknown.

Two positions match if the kernels around them have the same names. The longest match wins. Grids
and blocks decide between matches of equal length. They may differ, because some profilers record
them only with a launch.

Only events without a launch and nearby events are read. The time is linear in the number of events
without a launch.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    import duckdb

ALIGNMENT = "section_alignment"
"""Name of the step."""

REQUIRES = ("device_events", "launch_link")
"""Relations that the step reads."""

TABLE = "aligned"
"""Table in database ``scratch`` with events without a launch and their counterparts."""

# Number of launched events to read before and after: a constant, plus a multiple of the number of
# events without a launch.
_REACH, _REACH_FACTOR = 20_000, 4

# Number of consecutive names that identify a position, and the minimum number of distinct names
# among them; both are smaller for short streams.
_GRAM, _GRAM_KINDS = 8, 3
_SMALL_STREAM, _SMALL_GRAM, _SMALL_GRAM_KINDS = 32, 3, 2

# Numbers of compared candidate positions: the nearest, and the last of the stream.
_NEAREST, _LAST = 64, 32

# Maximum number of name comparisons per event that was read.
_COMPARISONS = 400

# Number of events after the end of a sequence that are compared.
_AHEAD = 256

# Number of grids that are compared.
_GRIDS = 64

_EVENTS = f"""
WITH work AS (
    SELECT
        d.trace_id, d.device, d.stream, d.ts_ns, d.event_id, d.name,
        k.launch_id IS NOT NULL AS is_linked
    FROM device_events AS d
    INNER JOIN launch_link AS k
        ON d.trace_id = k.trace_id AND d.event_id = k.event_id AND d.piece = k.piece
),

partly_linked AS (
    SELECT trace_id, device, stream, count(*) FILTER (NOT is_linked) AS unlinked_count
    FROM work
    GROUP BY trace_id, device, stream
    HAVING count(*) FILTER (NOT is_linked) BETWEEN 1 AND count(*) - 1
),

numbered AS (
    SELECT
        w.*,
        s.unlinked_count,
        row_number() OVER (
            PARTITION BY w.trace_id, w.device, w.stream ORDER BY w.ts_ns, w.event_id
        ) AS position
    FROM work AS w
    INNER JOIN partly_linked AS s
        ON
            w.trace_id = s.trace_id
            AND w.device = s.device
            AND w.stream IS NOT DISTINCT FROM s.stream
),

unlinked AS (SELECT * FROM numbered WHERE NOT is_linked),

placed AS (
    SELECT n.*
    FROM numbered AS n
    ASOF LEFT JOIN unlinked AS b
        ON
            n.trace_id = b.trace_id
            AND n.device = b.device
            AND n.stream IS NOT DISTINCT FROM b.stream
            AND n.position >= b.position
    ASOF LEFT JOIN unlinked AS a
        ON
            n.trace_id = a.trace_id
            AND n.device = a.device
            AND n.stream IS NOT DISTINCT FROM a.stream
            AND n.position <= a.position
    WHERE
        least(n.position - b.position, a.position - n.position)
        <= {_REACH} + {_REACH_FACTOR} * n.unlinked_count
)

SELECT
    p.trace_id, p.device, p.stream, p.event_id, hash(p.name),
    CASE
        WHEN e.args ->> '$.grid' IS NOT NULL
            THEN hash(e.args ->> '$.grid', e.args ->> '$.block')
    END,
    p.is_linked
FROM placed AS p
INNER JOIN event AS e ON p.trace_id = e.trace_id AND p.event_id = e.event_id
ORDER BY p.trace_id, p.device, p.stream, p.position
"""


def align_sections(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill table ``aligned`` of database ``scratch`` if events have no launch."""
    unknown = "SELECT 1 FROM launch_link WHERE launch_id IS NULL LIMIT 1"
    if not connection.execute(unknown).fetchall():
        return
    connection.execute(
        f"CREATE OR REPLACE TABLE scratch.{TABLE} "
        "(trace_id INTEGER, event_id BIGINT, like_event_id BIGINT)"
    )
    stream: _Stream | None = None
    pairs: list[tuple[int, int, int]] = []
    for trace_id, device, number, *event in connection.execute(_EVENTS).fetchall():
        key = (trace_id, device, number)
        if stream is None or stream.key != key:
            if stream is not None:
                pairs += stream.aligned()
            stream = _Stream(key)
        stream.add(*event)
    if stream is not None:
        pairs += stream.aligned()
    if pairs:
        columns = [list(column) for column in zip(*pairs, strict=True)]
        connection.execute(
            f"INSERT INTO scratch.{TABLE} SELECT unnest($1), unnest($2), unnest($3)", columns
        )


class _Match(Struct, frozen=True):
    """A repetition of the end of a sequence, and the quality of the match."""

    end: int
    covered_count: int
    rank: tuple[int, ...]


class _Stream(Struct):
    """The events of one stream in order, with names and grids as hashes."""

    key: tuple[int, str, int | None]
    event_ids: list[int] = field(default_factory=list)
    names: list[int] = field(default_factory=list)
    grids: list[int | None] = field(default_factory=list)
    linked: list[bool] = field(default_factory=list)
    places: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    first_linked: list[int] = field(default_factory=list)
    gram: int = _GRAM
    gram_kinds: int = _GRAM_KINDS
    comparisons: int = 0

    def add(self, event_id: int, name: int, grid: int | None, is_linked: bool) -> None:
        """Add the next event."""
        self.event_ids.append(event_id)
        self.names.append(name)
        self.grids.append(grid)
        self.linked.append(is_linked)

    def aligned(self) -> list[tuple[int, int, int]]:
        """Return trace_id, event_id, and the counterpart's event_id of each matched event."""
        self._index()
        trace_id, pairs = self.key[0], []
        end = len(self.names)
        while end > 0:
            if self.linked[end - 1]:
                end -= 1
                continue
            start = end - 1
            while start > 0 and not self.linked[start - 1]:
                start -= 1
            shift = 0
            while end > start:
                match = self._best(start, end, shift)
                if match is None:
                    end -= 1
                    continue
                shift = match.end - end
                pairs += [
                    (trace_id, self.event_ids[end - back], self.event_ids[match.end - back])
                    for back in range(1, match.covered_count + 1)
                ]
                end -= match.covered_count
        return pairs

    def _index(self) -> None:
        """Index positions by consecutive names, and find where each run of linked events starts."""
        count = len(self.names)
        if count < _SMALL_STREAM:
            self.gram, self.gram_kinds = _SMALL_GRAM, _SMALL_GRAM_KINDS
        shifted = [self.names[offset:] for offset in range(self.gram)]
        for place, row in enumerate(zip(*shifted, strict=False)):
            self.places.setdefault(row, []).append(place)
        first = 0
        for place, is_linked in enumerate(self.linked):
            if not is_linked:
                first = place + 1
            self.first_linked.append(first)
        self.comparisons = _COMPARISONS * count

    def _best(self, start: int, end: int, shift: int) -> _Match | None:
        """Return the best repetition of the events from `start` to `end`.

        Of equally good repetitions, the one with the shift closest to `shift` (of the following
        part) wins.
        """
        best: _Match | None = None
        # Try the last names of the sequence. If they do not repeat, try the same number of names
        # from half as far before the end, and then from the last event.
        for offset in (self.gram, self.gram // 2, 1):
            if best is not None:
                break
            place = end - offset
            row = tuple(self.names[max(place, 0) : place + self.gram])
            if place < 0 or len(row) < self.gram or len(set(row)) < self.gram_kinds:
                continue
            for other in self._candidates(row, place, shift):
                match = self._compared(start, end, other + offset, shift)
                if match is not None and (best is None or match.rank > best.rank):
                    best = match
        return best

    def _candidates(self, row: tuple[int, ...], place: int, shift: int) -> list[int]:
        places = self.places.get(row, [])
        if len(places) > _NEAREST + _LAST:
            middle = bisect_left(places, place + shift)
            places = (
                places[max(middle - _NEAREST // 2, 0) : middle + _NEAREST // 2] + places[-_LAST:]
            )
        return [other for other in places if other != place]

    def _compared(self, start: int, end: int, other_end: int, shift: int) -> _Match | None:
        """Compare the events around `end` with the events around `other_end`."""
        names, count = self.names, len(self.names)
        if self.comparisons <= 0 or other_end > count or not self.linked[other_end - 1]:
            return None
        back = _agreement(names, end, other_end, min(end, other_end), -1)
        covered = min(back, end - start, other_end - self.first_linked[other_end - 1])
        ahead = _agreement(names, end, other_end, min(_AHEAD, count - max(end, other_end)), 1)
        self.comparisons -= back + ahead + 1
        conflicts = sum(
            self.grids[end - step] != self.grids[other_end - step]
            for step in range(1, min(covered, _GRIDS) + 1)
            if self.grids[end - step] is not None and self.grids[other_end - step] is not None
        )
        # Only different names are a mismatch; the end of the recording is not.
        follows = 2 if ahead else int(other_end == count)
        return _Match(
            other_end,
            covered,
            (covered, -conflicts, follows, back + ahead, -abs(other_end - end - shift)),
        )


def _agreement(names: list[int], left: int, right: int, limit: int, step: int) -> int:
    """Return the number of equal names after two positions, or before them with step -1."""
    agreed, reach = 0, 8
    while agreed < limit:
        reach = min(2 * reach, limit - agreed)
        if step > 0:
            ours = names[left + agreed : left + agreed + reach]
            theirs = names[right + agreed : right + agreed + reach]
        else:
            ours = names[left - agreed - reach : left - agreed]
            theirs = names[right - agreed - reach : right - agreed]
        if ours != theirs:
            pairs = zip(ours[::step], theirs[::step], strict=True)
            return agreed + next(place for place, (a, b) in enumerate(pairs) if a != b)
        agreed += reach
    return agreed
