"""The paths that were found by hand are paths: from the first work of a device to the last."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hta_limits import HAND_MADE, HandMade

import tracekit

DEVICE = {"kernel", "gpu_memcpy"}


@pytest.fixture(params=HAND_MADE, ids=lambda made: made.name)
def made(request: pytest.FixtureRequest) -> HandMade:
    found: HandMade = request.param
    return found


def test_a_path_leads_from_the_first_work_to_the_end_of_the_last(made: HandMade) -> None:
    work = [event for events in made.ranks for event in events if event["cat"] in DEVICE]
    assert made.path[0].start == min(event["ts"] for event in work)
    assert made.path[-1].end == max(event["ts"] + event["dur"] for event in work)
    assert all(first.end == second.start for first, second in pairwise(made.path))


def test_each_piece_of_a_path_is_in_the_trace(made: HandMade) -> None:
    for piece in made.path:
        if piece.name.startswith("("):
            continue
        events = [event for event in made.ranks[piece.rank] if event["name"] == piece.name]
        if piece.name.endswith(("LaunchKernel", "StreamWaitEvent")):
            # What lasts until the work that it is for begins, or lets it begin.
            starts = {event["ts"] for event in made.ranks[piece.rank] if event["cat"] in DEVICE}
            assert events
            assert piece.end in starts
        else:
            assert any(
                event["ts"] <= piece.start and piece.end <= event["ts"] + event["dur"]
                for event in events
            ), piece


def test_tracekit_sees_the_window_and_every_launch(made: HandMade, tmp_path: Path) -> None:
    with tracekit.open(*made.write(tmp_path), cache=False) as trace:
        span = trace.sql("SELECT max(end_ns) - min(start_ns) FROM device_windows").rows
        assert span == [(made.window_ns,)]
        assert trace.sql("SELECT DISTINCT link FROM launch_link").rows == [("launch",)]
        matched = trace.sql("SELECT count(*) FROM collective_matches WHERE reason IS NULL").rows
        assert matched == [(2 if len(made.ranks) == 2 else 0,)]
