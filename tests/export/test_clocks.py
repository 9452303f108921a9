"""Traces on a common axis."""

from __future__ import annotations

from tracekit.export.selection import Clock, axis_of


def test_one_trace_keeps_its_time() -> None:
    assert axis_of({0: Clock(1_000, 5)}).shifts == {0: 1_000}
    assert axis_of({0: Clock(0, 5)}).shifts == {0: 0}
    assert axis_of({0: Clock(0, -5)}).shifts == {0: 5}
    assert not axis_of({0: Clock(0, 5)}).is_since_epoch


def test_ranks_lie_by_the_clocks_of_their_hosts() -> None:
    axis = axis_of({0: Clock(1_000, 5), 1: Clock(2_000, 5)})
    assert axis.shifts == {0: 1_000, 1: 2_000}
    assert axis.is_since_epoch
    assert "by the clocks of their hosts" in axis.notes[0]


def test_where_collectives_tell_of_all_ranks_clocks_are_aligned() -> None:
    axis = axis_of({0: Clock(1_000, 5, 10), 1: Clock(2_000, 5, -10)})
    assert axis.shifts == {0: 990, 1: 2_010}
    assert "moved by 0.010 µs at most" in axis.notes[0]
    some = axis_of({0: Clock(1_000, 5, 10), 1: Clock(2_000, 5)})
    assert some.shifts == {0: 1_000, 1: 2_000}


def test_without_base_times_each_begins_at_0() -> None:
    axis = axis_of({0: Clock(0, 5), 1: Clock(2_000, 7)})
    assert axis.shifts == {0: -5, 1: -7}
    assert not axis.is_since_epoch
    assert axis.notes == ["not every trace tells its base time: each begins at 0"]
