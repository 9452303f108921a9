"""The compiled encoder writes what that in Python writes, to the byte, in the same blocks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.export import packets
from tracekit.export.packets import PacketWriter

pytest.importorskip(
    "tracekit.export._encoders",
    reason="the encoders are not compiled: there was no C compiler at installation",
)

BASE_NS = 1_700_000_000_000_000_000
texts = st.none() | st.sampled_from(["{}", '{"a": "ü"}', "\ud800", '{"a": "' + "x" * 300 + '"}'])
rows = st.tuples(
    st.sampled_from(["before", None]),
    st.integers(0, 40).map(lambda ns: BASE_NS + ns) | st.integers(0, 1 << 62),
    st.integers(0, 30),
    st.sampled_from(["gemm", "übung", 'a "b" \x1b\n', "\ud800"]),
    st.sampled_from([None, "kernel", "step"]),
    st.none() | st.sampled_from([0, 127, 128, (1 << 63) - 1]),
    texts,
    texts,
    texts,
    st.none() | st.lists(st.sampled_from([1, -1, 1 << 41, -(1 << 62)]), max_size=3),
    st.booleans(),
)
short_rows = rows.map(lambda row: row[:4])
values = st.lists(
    st.tuples(st.none(), st.integers(BASE_NS, BASE_NS + 10_000), st.floats(allow_nan=False))
)
Write = Callable[[Any, Any], None]


def perfetto(blocks: list[bytes], is_compiled: bool) -> Any:
    return PacketWriter(blocks.append, is_compiled=is_compiled)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(rows | short_rows, max_size=8)), max_size=8),
    values,
)
def test_both_write_the_same_blocks(
    given_rows: list[tuple[int, list[Any]]], given_values: list[Any]
) -> None:
    found = []
    # The slices of a track come by their starts, however many are handed over at once.
    ordered = {
        place: iter(
            sorted(
                (row for at, some in given_rows if at == place for row in some),
                key=lambda row: (row[1], -row[2]),
            )
        )
        for place in (0, 1)
    }
    handed_over = [
        (place, some if place == 2 else list(islice(ordered[place], len(some))))
        for place, some in given_rows
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packets, "BLOCK_BYTES", 300)
        patch.setattr(packets, "_MAX_INTERNED", 2)
        for is_compiled in (True, False):
            blocks: list[bytes] = []
            writer = perfetto(blocks, is_compiled)
            group = writer.group("rank 0", 0, 1, "host")
            tracks = [
                writer.track("thread", group, place, "about", is_flat=place == 1)
                for place in range(3)
            ]
            for place, some in handed_over:
                if place == 2:
                    assert writer.instants(tracks[place], iter(some), 1) == len(some)
                else:
                    assert writer.slices(tracks[place], iter(some), 1) == len(some)
            writer.values(writer.counter("queue", group, 9, "count"), iter(given_values), 1)
            for track in tracks:
                writer.finish(track)
            writer.flush()
            found.append((blocks, writer.slice_count))
    assert found[0] == found[1]


def test_slices_out_of_order_are_refused() -> None:
    blocks: list[bytes] = []
    writer = PacketWriter(blocks.append, is_compiled=True)
    track = writer.track("stream", 0, 1, is_flat=True)
    writer.slices(track, [(0, 4, "k"), (0, 3, "k"), (5, 1, "k")], 0)
    with pytest.raises(ValueError, match="by their starts"):
        writer.slices(track, [(2, 2, "k")], 0)


def test_thousands_that_overlap_are_on_the_same_lanes() -> None:
    found = []
    many = [(at, 3_000 - at % 7, "k") for at in range(2_000)]
    for is_compiled in (True, False):
        blocks: list[bytes] = []
        writer = PacketWriter(blocks.append, is_compiled=is_compiled)
        for is_flat in (False, True):
            track = writer.track("stream", 0, 1, is_flat=is_flat)
            writer.slices(track, many, 0)
            writer.finish(track)
        writer.flush()
        found.append(blocks)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ((1, 2), ValueError),
        (("1", 2, "a"), TypeError),
        ((1 << 64, 2, "a"), OverflowError),
        (((1 << 63) - 1, 2, "a"), OverflowError),
        ([1, 2, "a"], SystemError),
        ((1, 2, "a", None, None, 7), TypeError),
        ((1, 2, ["a"]), TypeError),
    ],
)
def test_what_is_no_row_is_refused(row: Any, error: type[Exception]) -> None:
    writer = perfetto([], True)
    track = writer.track("thread", 0, 1)
    with pytest.raises(error):
        writer.slices(track, [row], 0)
    # It can still be used, and says so where something is no track of it.
    assert writer.slices(track, [(1, 2, "a")], 0) == 1
    with pytest.raises((TypeError, AttributeError)):
        writer.slices(object(), [(1, 2, "a")], 0)


def test_an_error_of_who_takes_the_blocks_is_told() -> None:
    def full(block: bytes) -> None:
        raise OSError("full")

    for is_compiled in (True, False):
        writer = PacketWriter(full, is_compiled=is_compiled)
        track = writer.track("thread", 0, 1)
        with pytest.raises(OSError, match="full"):
            writer.slices(track, ((at, 1, "a" * 1_000, None, at) for at in range(100_000)), 0)
