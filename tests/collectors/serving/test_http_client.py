"""The HTTP client and its reader of server-sent events: the same answer however it is cut."""

import asyncio
import itertools
from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tracekit.collectors.serving.http.answer import SseReader
from tracekit.collectors.serving.http.client import (
    BrokenConnectionError,
    Connection,
    HttpClient,
    NotHttpError,
)

CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;ext=1\r\nhello\r\n1\r\n,\r\nB\r\n\r\n world \r\n\r\n0\r\n\r\n"
)
CHUNKED_BODY = b"hello,\r\n world \r\n"


class Kept:
    def __init__(self, enough=1 << 30):
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.pieces: list[tuple[int, bytes]] = []
        self._enough = enough

    def head(self, status, headers):
        self.status = status
        self.headers = headers

    def body(self, at_ns, data):
        self.pieces.append((at_ns, data))
        return len(self.data) < self._enough

    @property
    def data(self):
        return b"".join(data for _, data in self.pieces)


def receive(packets, *, closes=True, enough=1 << 30):
    """Give packets to a connection, all readable at once, and return the received answer."""

    async def run():
        kept = Kept(enough)
        ticks = itertools.count(1)
        connection = Connection(lambda: next(ticks), asyncio.get_running_loop())
        answer = asyncio.create_task(connection.exchange(b"", kept))
        await asyncio.sleep(0)
        for packet in packets:
            connection.data_received(packet)
        await asyncio.sleep(0)
        if closes:
            connection.connection_lost(None)
        await asyncio.wait_for(answer, 60)
        return kept

    return asyncio.run(run())


@given(st.lists(st.integers(1, len(CHUNKED) - 1), max_size=10))
@example(list(range(1, len(CHUNKED))))
def test_a_chunked_answer_is_read_however_it_is_cut(cuts):
    edges = [0, *sorted(cuts), len(CHUNKED)]
    kept = receive([CHUNKED[a:b] for a, b in itertools.pairwise(edges)], closes=False)
    assert kept.status == 200
    assert kept.headers["content-type"] == "text/event-stream"
    assert kept.data == CHUNKED_BODY


def test_packets_are_stamped_when_they_are_read():
    """Three packets wait together, but each has its own timestamp."""
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    kept = receive([head + b"a", b"b", b"c"])
    assert kept.pieces == [(1, b"a"), (2, b"b"), (3, b"c")]


def test_the_end_of_an_answer():
    kept = receive([b"HTTP/1.0 404 No\r\nContent-Length: 3\r\n\r\nab", b"cd"], closes=False)
    assert (kept.status, kept.data) == (404, b"abc")
    assert receive([b"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n"], closes=False).data == b""
    # The receiver may have enough.
    kept = receive([b"HTTP/1.1 200 OK\r\n\r\n", b"abc", b"def"], closes=False, enough=2)
    assert kept.data == b"abc"


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        CHUNKED[:-5],
        CHUNKED[:-9],
    ],
)
def test_an_incomplete_answer_is_broken(packet):
    with pytest.raises(BrokenConnectionError, match="connection closed"):
        receive([packet] if packet else [])


@pytest.mark.parametrize(
    "packet",
    [
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"h%d: 1\r\n" % number for number in range(300)),
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
        # A header after the body, which the parser would store forever.
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"y" * 70_000,
    ],
)
def test_answers_that_are_not_http(packet):
    with pytest.raises(NotHttpError):
        receive([packet], closes=False)


def test_an_error_of_the_receiver_reaches_the_caller():
    class Wrong(Kept):
        def body(self, at_ns, data):
            raise KeyError(at_ns, data)

    async def run():
        connection = Connection(lambda: 0, asyncio.get_running_loop())
        answer = asyncio.create_task(connection.exchange(b"", Wrong()))
        await asyncio.sleep(0)
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nx")
        await answer

    with pytest.raises(KeyError):
        asyncio.run(run())


def test_addresses_and_requests():
    addresses = {
        "http://127.0.0.1:8000": ("127.0.0.1", 8000, False),
        "https://host/base/": ("host", 443, True),
        "http://[::1]:9": ("::1", 9, False),
    }
    for url, address in addresses.items():
        client = HttpClient(url)
        assert (client.host, client.port, client.is_secure) == address
    client = HttpClient("http://[::1]:9/base", {"X-A": "1"})
    assert client.request("POST", "/generate", b"{}") == (
        b"POST /base/generate HTTP/1.1\r\nHost: [::1]:9\r\nAccept: */*\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nX-A: 1\r\nContent-Length: 2\r\n\r\n{}"
    )


STREAM = (
    'data: {"a": "é"}\n\n: keep-alive\n\nevent: x\ndata:two\r\n\r\ndata: 1\ndata: 2\n\nid: 7\n\n'
)
PAYLOADS = ['{"a": "é"}'.encode(), b"two", b"1\n2"]


def payloads_of(packets):
    reader = SseReader()
    payloads = [payload for packet in packets for payload in reader.feed(packet)]
    return payloads + reader.rest()


@given(st.lists(st.integers(0, len(STREAM.encode())), max_size=12))
@example(list(range(len(STREAM.encode()))))
def test_events_are_read_however_they_are_cut(cuts):
    data = STREAM.encode()
    edges = [0, *sorted(cuts), len(data)]
    assert payloads_of([data[a:b] for a, b in itertools.pairwise(edges)]) == PAYLOADS


def test_the_end_of_an_event():
    reader = SseReader()
    assert reader.feed(b"data: one\n") == []
    assert reader.feed(b"\ndata: two\n\n") == [b"one", b"two"]
    # The end of the stream ends an event.
    assert reader.feed(b"data: last") == []
    assert reader.rest() == [b"last"]
    assert reader.rest() == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_end_of_line(end):
    text = f"data: a{end}{end}data: b{end}{end}"
    assert payloads_of([text.encode()]) == [b"a", b"b"]
