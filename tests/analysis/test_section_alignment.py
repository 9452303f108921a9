"""GPU events without a launch are matched to the launched events that they repeat."""

import random

import pytest
from cases_as_ranks import Cases
from traces_by_hand import call, kernel

from tracekit.analysis.passes import section_alignment

# A decoder; all GEMMs have the same kernel name.
LAYERS = 6
LAYER = ("norm", *["gemm"] * 3, "rope", "attn", "gemm", "norm", "gemm", "gemm", "silu", "gemm")
ITERATION = ("embed", *LAYER * LAYERS, "norm")


def stream(names, unlinked, grids=None):
    """Return sequential kernels, each with a launch except for those in `unlinked`."""
    events = []
    for place, name in enumerate(names):
        at = 100 + 10 * place
        is_known = grids is not None and grids[place] is not None
        grid = {"grid": [grids[place], 1, 1]} if is_known else {}
        events.append(kernel(name, at, at + 5, place + 1, **grid))
        if place not in unlinked:
            events.append(call(at - 5, at - 4, place + 1))
    return events


LIKE = """(
    SELECT c.trace_id, u.correlation - 1 AS here, k.correlation - 1 AS there
    FROM attribution AS c
    JOIN event AS u USING (trace_id, event_id)
    JOIN event AS k ON c.trace_id = k.trace_id AND c.like_event_id = k.event_id
)"""
"""The position of each event without a launch, and of its counterpart."""
OTHERS = """(
    SELECT c.trace_id, row_name, is_inferred FROM attribution AS c
    JOIN device_events AS d USING (trace_id, event_id, piece) WHERE d.name LIKE 'other%'
)"""
CASES = Cases()
asked = CASES.fixture()
COUNT = len(ITERATION)
MISSED = {3, 4, COUNT + 20, *range(COUNT + 30, COUNT + 50), 3 * COUNT - 1}


def add(names, unlinked, grids=None):
    return CASES.add(stream(names, unlinked, grids))


# Complete layers fit between any layers, so the kernels after them decide.
PARTIAL = {
    tail: add([*ITERATION[-tail:], *ITERATION], {*range(tail)})
    for tail in (1 + 2 * len(LAYER), 5 * len(LAYER) + 7, COUNT)
}
MIDDLE = add([*ITERATION * 3], MISSED)
# Two kinds of iterations have the same kernels with different grids.
GRIDS = add([*ITERATION * 3], {*range(COUNT)}, [*[8] * COUNT, *[512] * COUNT, *[8] * COUNT])
NO_GRIDS = add([*ITERATION * 2], {*range(COUNT)}, [*[None] * COUNT, *[512] * COUNT])
UNMATCHED = add([*map("other_{}".format, range(40)), *ITERATION[-20:], *ITERATION], {*range(60)})
ONE = add(["fill"] * 200, {*range(50)})
SURPLUS = add([*ITERATION[-40:-20], "surplus", *ITERATION[-20:], *ITERATION], {*range(41)})
EXPECTED = {
    **{rank: {at: at + COUNT for at in range(tail)} for tail, rank in PARTIAL.items()},
    GRIDS: {at: at + 2 * COUNT for at in range(COUNT)},
    NO_GRIDS: {at: at + COUNT for at in range(COUNT)},
    ONE: {},
    SURPLUS: {at: COUNT + 1 + at - (at > 20) for at in range(41) if at != 20},
}


@pytest.mark.parametrize("rank", EXPECTED)
def test_kernels_are_matched_to_those_that_they_repeat(asked, rank):
    assert dict(asked.table(rank, LIKE, "here, there")) == EXPECTED[rank]


def test_an_iteration_in_the_middle_and_missed_kernels(asked):
    found = dict(asked.table(MIDDLE, LIKE, "here, there"))
    assert set(found) == MISSED
    assert all((there - here) % COUNT == 0 for here, there in found.items())
    assert not set(found.values()) & MISSED


def test_unmatched_kernels_stay_unattributed(asked):
    assert {here for here, _ in asked.table(UNMATCHED, LIKE, "here, there")} == {*range(40, 60)}
    rows = asked.table(UNMATCHED, OTHERS, "row_name, is_inferred")
    assert rows == [("(unattributed)", False)] * 40


def test_the_number_of_comparisons_is_linear(monkeypatch):
    """Names repeat so that almost every position fits every other one."""
    compared = []
    agreement = section_alignment._agreement
    monkeypatch.setattr(
        section_alignment,
        "_agreement",
        lambda *args: (compared.append(found := agreement(*args)), found)[1],
    )
    counts = []
    for count in (2_000, 8_000):
        compared.clear()
        chance = random.Random(1)
        of = section_alignment._Stream((0, "0", 7))
        for place in range(count):
            name = place % 4 if chance.random() > 0.01 else chance.randrange(4)
            of.add(place, name, None, place >= count // 2)
        of.aligned()
        counts.append(sum(compared) + len(compared))
    assert counts[0] > 2_000
    assert counts[1] < 6 * counts[0]
