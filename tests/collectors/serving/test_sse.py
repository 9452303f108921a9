"""Server-sent events: the same payloads however the bytes are cut into packets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.collectors.serving.http.answer import SseReader

STREAM = (
    'data: {"a": "é"}\n\n: keep-alive\n\nevent: x\ndata:two\r\n\r\ndata: 1\ndata: 2\n\nid: 7\n\n'
)
PAYLOADS = ['{"a": "é"}'.encode(), b"two", b"1\n2"]


def read(packets: list[bytes]) -> list[bytes]:
    reader = SseReader()
    payloads = [payload for packet in packets for payload in reader.feed(packet)]
    return payloads + reader.rest()


@given(st.lists(st.integers(0, len(STREAM.encode())), max_size=12))
def test_any_cut_gives_the_same_payloads(cuts: list[int]) -> None:
    data = STREAM.encode()
    edges = [0, *sorted(cuts), len(data)]
    assert read([data[a:b] for a, b in pairwise(edges)]) == PAYLOADS


def test_byte_by_byte() -> None:
    assert read([bytes([byte]) for byte in STREAM.encode()]) == PAYLOADS


def test_an_event_comes_with_the_packet_that_completes_it() -> None:
    reader = SseReader()
    assert reader.feed(b"data: one\n") == []
    assert reader.feed(b"\ndata: two\n\n") == [b"one", b"two"]


def test_an_event_that_the_end_cuts_off_is_given_at_the_end() -> None:
    reader = SseReader()
    assert reader.feed(b"data: last") == []
    assert reader.rest() == [b"last"]
    assert reader.rest() == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_end_of_line(end: str) -> None:
    text = f"data: a{end}{end}data: b{end}{end}"
    assert read([text.encode()]) == [b"a", b"b"]
