"""What all engines share that the stand-in stands for: connections, requests, profiles."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VOCABULARY = 32_000

MODEL = "stand-in-7b"


@dataclass
class Quirks:
    """How the server behaves, request by request where it is a list (taken in turns)."""

    behavior: list[str] = field(default_factory=lambda: ["ok"])
    token_gap_s: float = 0.0
    tokens_per_event: int = 1
    extra_prompt_tokens: int = 0
    profiling: str | None = None
    trace_dir: str | None = None
    trace_count: int = 1
    trace_delay_s: float = 0.0
    trace_grow_s: float = 0.0
    retry_after: str | None = None
    unhealthy_s: float = 0.0
    stop_after_tokens: int | None = None
    has_models: bool = True
    leaks: bool = False
    port: int = 0
    host: str = "127.0.0.1"


class GoneError(Exception):
    """The connection was ended on purpose."""


class Connection:
    """One request, read by hand, and the means to answer it in any wrong way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.head = ""
        self.writer = writer
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def read(self) -> tuple[str, str, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.head = head.decode()
        lines = head.decode().split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        length = 0
        for line in lines[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
        return method, path, await self.reader.readexactly(length)

    async def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        is_text = isinstance(body, str)
        data = (body if is_text else json.dumps(body)).encode()
        head = f"HTTP/1.1 {status} Status\r\nContent-Length: {len(data)}\r\nConnection: close\r\n"
        head += f"Content-Type: {'text/plain' if is_text else 'application/json'}\r\n"
        for name, value in (headers or {}).items():
            head += f"{name}: {value}\r\n"
        self.writer.write(head.encode() + b"\r\n" + data)
        await self.writer.drain()

    async def begin_stream(self) -> None:
        self.writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        await self.writer.drain()

    async def send(self, data: bytes) -> None:
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self.writer.drain()

    async def end_stream(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def reset(self) -> None:
        """End the connection as a crashed server does: with a reset, not an orderly close."""
        self.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self.writer.transport.abort()
        raise GoneError


class Engine:
    """What all engines share; a subclass is one protocol."""

    name = ""
    generate_path = "/v1/completions"
    health_path = "/health"

    def __init__(self, quirks: Quirks) -> None:
        self.quirks = quirks
        self.begin_s = time.monotonic()
        self.count = 0
        self.calls: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.profile_folder: str | None = None
        self.background: set[asyncio.Task[None]] = set()

    async def handle(self, connection: Connection) -> None:
        method, path, body = await connection.read()
        if path == "/stand_in":
            await self.control(connection, method, body)
            return
        self.calls.append(f"{method} {path}")
        if self.quirks.leaks:
            # As servers do that log their arguments, and what they are asked.
            sys.stdout.write(f"{sys.argv} {dict(os.environ)} {connection.head} {body!r}\n")
            sys.stdout.flush()
        if path == self.health_path and time.monotonic() - self.begin_s < self.quirks.unhealthy_s:
            await connection.answer(503, {"message": "Error"})
        elif method == "POST" and path == self.generate_path:
            await self.generate(connection, json.loads(body))
        else:
            status, answer = await self.other(method, path, json.loads(body or b"null"))
            await connection.answer(status, answer)

    async def control(self, connection: Connection, method: str, body: bytes) -> None:
        if method == "POST":
            self.__init__(Quirks(**json.loads(body)))  # type: ignore[misc]
        await connection.answer(
            200,
            {
                "calls": self.calls,
                "bodies": self.bodies[:3],
                "count": self.count,
                "most_in_flight": self.most_in_flight,
            },
        )

    async def generate(self, connection: Connection, body: dict[str, Any]) -> None:
        behavior = self.quirks.behavior[self.count % len(self.quirks.behavior)]
        self.count += 1
        self.bodies.append(body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.behave(connection, behavior, body)
        finally:
            self.in_flight -= 1

    async def behave(self, connection: Connection, behavior: str, body: dict[str, Any]) -> None:
        if behavior.isdecimal():
            headers = {"Retry-After": self.quirks.retry_after} if self.quirks.retry_after else {}
            await connection.answer(int(behavior), self.problem("the server is busy"), headers)
            return
        if behavior == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if behavior == "silent":
            await asyncio.sleep(3600)
        if behavior == "echo":
            secrets = [connection.head, body, *sys.argv, os.environ.get("HF_TOKEN")]
            await connection.answer(400, {"message": [str(part)[:190] for part in secrets]})
            return
        if behavior == "echo_event":
            await connection.begin_stream()
            await connection.send(self.error_event(connection.head))
            return
        if behavior == "no_answer":
            connection.reset()
        if behavior == "not_http":
            connection.writer.write(b"hello, this is no HTTP\r\n\r\n")
            await connection.writer.drain()
            return
        if behavior == "json":
            await connection.answer(200, self.problem("no stream today"))
            return
        refusal = self.check(body)
        if refusal is not None:
            await connection.answer(*refusal)
            return
        await connection.begin_stream()
        half = max(1, self.new_tokens(body) // 2)
        sent = 0
        async for event in self.events(body):
            if sent == half:
                if behavior == "reset":
                    connection.reset()
                elif behavior == "truncate":
                    await connection.end_stream()
                    return
                elif behavior == "stall":
                    await asyncio.sleep(3600)
                elif behavior == "garbage":
                    event = b"data: {not json\n\n"
                elif behavior == "error_event":
                    event = self.error_event("out of memory")
            if behavior == "split":
                # Every event in packets that end in the middle of a word or of a line's end.
                for part in filter(None, (event[:3], event[3:-2], event[-2:])):
                    await connection.send(part)
                    await asyncio.sleep(0)
            else:
                await connection.send(event)
            sent += 1
        if behavior == "open":
            await asyncio.sleep(3600)
        await connection.end_stream()

    async def paced(self, count: int) -> AsyncIterator[int]:
        """Give the number of tokens so far, event by event."""
        total = 0
        while total < count:
            if self.quirks.token_gap_s:
                await asyncio.sleep(self.quirks.token_gap_s)
            total = min(count, total + self.quirks.tokens_per_event)
            yield total

    def prompt_tokens(self, prompt: Any) -> int:
        """Count words as one and a half tokens: a count that has to be asked for."""
        count = len(prompt) if isinstance(prompt, list) else len(prompt.split()) * 3 // 2
        return count + self.quirks.extra_prompt_tokens

    def given(self, wanted: int) -> int:
        return min(wanted, self.quirks.stop_after_tokens or wanted)

    def later(self, write: Callable[[], Any]) -> None:
        task = asyncio.create_task(write())
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def write_trace(self, name: str, rank: int) -> None:
        folder = Path(self.profile_folder or ".")
        await asyncio.sleep(self.quirks.trace_delay_s)
        folder.mkdir(parents=True, exist_ok=True)
        value = trace(rank, self.quirks.trace_count)
        if self.quirks.leaks:
            value["environment"] = {"argv": sys.argv, **os.environ}
        data = gzip.compress(json.dumps(value).encode())
        parts = 4 if self.quirks.trace_grow_s else 1
        size = len(data) // parts + 1
        with (folder / name).open("wb") as file:
            for start in range(0, len(data), size):
                file.write(data[start : start + size])
                file.flush()
                await asyncio.sleep(self.quirks.trace_grow_s / parts)

    # One protocol each:

    def new_tokens(self, body: dict[str, Any]) -> int:
        return self.given(body["max_tokens"])

    def check(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        del body
        return None

    def problem(self, text: str) -> Any:
        return {"error": {"message": text, "type": "server_error", "code": 500}}

    def error_event(self, text: str) -> bytes:
        return b"data: " + json.dumps(self.problem(text)).encode() + b"\n\n"

    def events(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def other(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        del method, path, body
        return 404, {"detail": "Not Found"}


def trace(rank: int, world_size: int) -> dict[str, Any]:
    """Return a trace of one op, large enough to be written in several pieces."""
    event = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}
    return {
        "schemaVersion": 1,
        "distributedInfo": {"rank": rank, "world_size": world_size, "backend": "nccl"},
        "traceEvents": [
            {**event, "name": "aten::mm", "ts": 10.0 * index, "args": {"External id": index}}
            for index in range(200)
        ],
    }
