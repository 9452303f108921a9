"""Varints and fields against the protobuf package, lanes against their definition."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.export.packets import FlatLanes, Lanes
from tracekit.wire import bytes_field, double_field, number_field, text_field, varint


@given(st.integers(0, 2**64 - 1))
def test_a_varint_has_seven_bits_a_byte(number):
    data = varint(number)
    assert sum((byte & 127) << 7 * place for place, byte in enumerate(data)) == number
    assert [byte >> 7 for byte in data] == [1] * (len(data) - 1) + [0]


def test_protobuf_reads_the_fields():
    packets = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    event = packets.TrackEvent.FromString(
        number_field(9, 4)
        + number_field(30, -5)
        + text_field(23, "ü\ud800")
        + bytes_field(4, text_field(10, "args") + text_field(9, "{}"))
    )
    assert (event.type, event.counter_value) == (4, -5)
    assert packets.TrackEvent.FromString(double_field(44, 0.1)).double_counter_value == 0.1
    assert event.name == "ü?"
    assert event.debug_annotations[0].legacy_json_value == "{}"


spans = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12)).map(
        lambda span: (span[0], span[0] + span[1])
    ),
    max_size=40,
).map(lambda found: sorted(found, key=lambda span: (span[0], -span[1])))


@given(spans)
def test_on_a_lane_slices_nest_or_follow_one_another(given_spans):
    lanes = Lanes()
    written = {}
    for start, end in given_spans:
        ended = []
        lane = lanes.place(start, end, ended)
        for ended_lane, ended_at in ended:
            written.setdefault(ended_lane, []).append(("E", ended_at))
        written.setdefault(lane, []).append(("B", start))
        written[lane].append(("is to end", end))
    for lane, ended_at in lanes.close():
        written[lane].append(("E", ended_at))
    for of_lane in written.values():
        # Begin and end events decode to the original slices.
        wanted = []
        for what, at in of_lane:
            if what == "is to end":
                wanted.append(at)
            elif what == "E":
                assert wanted.pop() == at
        assert not wanted
        times = [at for what, at in of_lane if what != "is to end"]
        assert all(before <= after for before, after in pairwise(times))


@given(spans)
def test_on_a_flat_lane_nothing_overlaps(given_spans):
    lanes = FlatLanes()
    last = {}
    for start, end in given_spans:
        lane = lanes.place(start, end)
        assert last.get(lane, 0) <= start
        last[lane] = end
    most = max((sum(s <= at < e for s, e in given_spans) for at in range(43)), default=0)
    empty = sum(start == end for start, end in given_spans)
    assert most <= len(last) <= most + empty


def test_thousands_that_overlap_cost_no_more_each():
    lanes = Lanes()
    count = 20_000
    taken = {lanes.place(start, 10 * count + start, []) for start in range(count)}
    assert len(taken) == count
