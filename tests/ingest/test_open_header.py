"""A header that never ends costs memory of its own size, not a hundred times that."""

from __future__ import annotations

import tracemalloc

import pytest

from tracekit.ingest.faults import Faults
from tracekit.ingest.trace_metadata import OutsideText

LENGTH_BYTES = 2_000_000


@pytest.mark.parametrize("characters", ["a", r"\n", "é"])
def test_a_text_without_an_end_in_front_of_the_events(characters: str) -> None:
    header = OutsideText()
    text = '{"rank":3,"x":"' + characters * (LENGTH_BYTES // len(characters.encode()))
    header.add(0, text.encode())
    tracemalloc.start()
    members, truncation = header.metadata(Faults())
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert members == {"rank": 3}
    assert truncation == "the file ends before its closing brace"
    assert peak_bytes < 10 * LENGTH_BYTES
