"""Server for `bench_client.py` that answers immediately, in LightLLM's protocol.

    python _at_once_server.py PORT_FILE TOKENS GAP_S

Every event contains the receive time of its request, its own write time, and the first token id of
the prompt, which identifies the request. Times are from `time.perf_counter_ns`, which all processes
share. With a gap of 0, all events of an answer are written at once; otherwise, one event per
connection and gap.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    b"Connection: close\r\n\r\n"
)
# The same length as events of LightLLM.
_EVENT = (
    b'data:{"token":{"id":1234,"text":" word","logprob":-1.2345678,"special":false,'
    b'"count_output_tokens":%d,"prompt_tokens":512},"generated_text":null,"finished":%b,'
    b'"finish_reason":null,"details":null,"request":%d,"received_ns":%d,"written_ns":%d}\n\n'
)


class Answer(asyncio.Protocol):
    """One connection, one request."""

    running: set[Answer]
    token_count: int
    gap_s: float

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = b""
        self._request = 0
        self._sent = 0

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        if head.startswith(b"GET"):
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            self._received = b""
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < length:
            return
        self._received = b""
        self._received_ns = time.perf_counter_ns()
        self._request = int(body.partition(b"[")[2].partition(b",")[0])
        self._transport.write(_HEAD)
        if self.gap_s:
            self.running.add(self)
        else:
            self._transport.write(b"".join(self.event() for _ in range(self.token_count)))
            self.end()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.running.discard(self)

    def event(self) -> bytes:
        self._sent += 1
        is_last = b"true" if self._sent == self.token_count else b"false"
        times_ns = self._received_ns, time.perf_counter_ns()
        data = _EVENT % (self._sent, is_last, self._request, *times_ns)
        return b"%x\r\n%b\r\n" % (len(data), data)

    def send(self) -> None:
        """Write the next event, or the end after the last one."""
        self._transport.write(self.event())
        if self._sent == self.token_count:
            self.end()

    def end(self) -> None:
        """Write the end of the answer."""
        self.running.discard(self)
        self._transport.write(b"0\r\n\r\n")
        self._transport.close()


async def serve(port_file: Path, token_count: int, gap_s: float) -> None:
    Answer.running, Answer.token_count, Answer.gap_s = set(), token_count, gap_s
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Answer, "127.0.0.1", 0, backlog=4096)
    partial = port_file.with_suffix(".partial")
    partial.write_text(str(server.sockets[0].getsockname()[1]))
    partial.rename(port_file)
    due = loop.time()
    while True:
        due = max(due + (gap_s or 1), loop.time())
        await asyncio.sleep(due - loop.time())
        for answer in list(Answer.running):
            answer.send()


if __name__ == "__main__":
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
