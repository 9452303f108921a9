"""The HTTP client: events, timestamps, and addresses."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tracekit.collectors.serving.http.answer import SseReader
from tracekit.collectors.serving.http.client import HttpClient

STREAM = (
    'data: {"a": "é"}\n\n: keep-alive\n\nevent: x\ndata:two\r\n\r\ndata: 1\ndata: 2\n\nid: 7\n\n'
    "data: last"
).encode()


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
@example(list(range(len(STREAM))))
def test_events_are_read_however_they_are_cut(cuts):
    reader, edges = SseReader(), [0, *sorted(cuts), len(STREAM)]
    payloads = [p for a, b in itertools.pairwise(edges) for p in reader.feed(STREAM[a:b])]
    assert payloads == ['{"a": "é"}'.encode(), b"two", b"1\n2"]
    # The end of the stream ends the last event.
    assert (reader.rest(), reader.rest()) == ([b"last"], [])


def test_each_token_has_the_time_of_its_packet(stand_in, serve):
    run = serve(stand_in("lightllm", token_gap_s=0.05), no_profile=True)
    for request in run.requests:
        token_ns = request["token_ns"]
        assert request["end_ns"] == token_ns[-1]
        assert token_ns[-1] - request["sent_ns"] >= 6 * 50_000_000
        gaps_ns = [after - before for before, after in itertools.pairwise(token_ns)]
        # A busy machine delays a packet, which shortens the gap after it.
        assert max(gaps_ns) >= 50_000_000 * 0.9
        assert sum(gaps_ns) >= 5 * 50_000_000 * 0.5


@pytest.mark.parametrize(
    ("url", "port", "first_lines"),
    [
        ("http://127.0.0.1:8000", 8000, b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n"),
        ("https://host/base/", 443, b"POST /base/x HTTP/1.1\r\nHost: host:443\r\n"),
        ("http://[::1]:9", 9, b"POST /x HTTP/1.1\r\nHost: [::1]:9\r\n"),
    ],
)
def test_the_address_of_a_request(url, port, first_lines):
    client = HttpClient(url)
    assert client.port == port
    assert client.request("POST", "/x", b"{}").startswith(first_lines)
