"""Servers that do everything but what they should, each a pure function of a seeded random.

`KINDS` has them by name, `hostile_of(random)` gives any of them, half of the time with its bytes
mutated. `attack(hostile, folder)` plays one on loopback against `--stage serve` and raises
`AssertionError` if anything else comes of it than a run folder that can be read or one clear error.
So a fuzz job needs no more than

    for seed in count(first):
        attack(hostile_of(Random(seed)), folder)
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from unittest import mock

from _hostile_kinds import KINDS
from _hostile_scripts import GOOD, KEY, NEW_TOKENS, Hostile, Script, whole

import tracekit
from tracekit import manifest
from tracekit.errors import TracekitError

LIMITS = {
    "_ASK_TIMEOUT_S": 0.25,
    "_ATTACH_TIMEOUT_S": 0.25,
    "_SETUP_TIMEOUT_S": 1.0,
}
# More than the client keeps of any answer, with what lies in the buffers of sockets between.
MOST_SENT_BYTES = 48 << 20


def hostile_of(random: Random) -> Hostile:
    """Return any hostile server, half of the time with its bytes mutated; pure in the random."""
    chosen = KINDS[random.choice(sorted(KINDS))](random)
    if random.random() < 0.5:
        return chosen
    paths = [*chosen.scripts, *random.sample(sorted(GOOD), k=2)]
    scripts = {path: _mutated(chosen.scripts.get(path, GOOD[path]), random) for path in paths}
    return replace(chosen, name=f"{chosen.name}, mutated", scripts=scripts)


def _mutated(script: Script, random: Random) -> Script:
    steps = list(script.steps)
    for _ in range(random.randrange(1, 4)):
        if not steps:
            break
        at = random.randrange(len(steps))
        data = bytearray(steps[at].data)
        where = random.randrange(len(data) + 1)
        change = random.randrange(5)
        if change == 0:
            del data[where : where + random.randrange(1, 20)]
        elif change == 1:
            data[where:where] = random.randbytes(random.randrange(1, 20))
        elif change == 2 and data:
            data[where % len(data)] ^= 1 << random.randrange(8)
        elif change == 3:
            words = [b"\r\n\r\n", b"\n\n", b"data: ", b"null", b"-1", b"1e9", b'"', b"[", b"0\r\n"]
            data[where:where] = random.choice(words)
        else:
            steps.insert(at, steps[at])
            continue
        # Without the pause of a drip there is no end of bytes that a client has to look at.
        steps[at] = replace(steps[at], data=bytes(data) or b"x")
    end = random.choice([script.end, script.end, "reset", "close"])
    return replace(script, steps=tuple(steps), end=end)


class HostileServer:
    """Plays a hostile server on loopback, each connection in a thread of its own."""

    def __init__(self, hostile: Hostile) -> None:
        self._scripts = GOOD | hostile.scripts
        # One that speaks first does so before it can know what it is asked for.
        self._first = next((s for s in hostile.scripts.values() if s.speaks_first), None)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._is_over = False
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent_bytes = 0
        self.heads: list[bytes] = []

    def __enter__(self) -> HostileServer:
        self._threads[0].start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._is_over = True
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_over:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._play, args=(connection,)))
            self._threads[-1].start()

    def _play(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            script = self._first or self._scripts.get(self._path(connection))
            script = script or whole(b"{}", "404 Not Found")
            for step in script.steps:
                while not self._is_over:
                    connection.sendall(step.data)
                    self.sent_bytes += len(step.data)
                    time.sleep(step.pause_s)
                    if not step.is_endless:
                        break
            if script.end == "hang":
                while connection.recv(65536):
                    pass
            elif script.end == "reset":
                reset = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

    def _path(self, connection: socket.socket) -> str:
        """Read a request, and return what it asks for."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536) or b"\r\n\r\n"
        request, _, body = data.partition(b"\r\n\r\n")
        self.heads.append(request)
        for line in request.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                left = int(line.partition(b":")[2]) - len(body)
                while left > 0:
                    left -= len(connection.recv(65536)) or left
        return [*request.split(b" "), b"", b""][1].decode("latin-1")


@dataclass(frozen=True)
class Ended:
    """What came of an attack."""

    error: str | None
    lines: list[str]
    run: manifest.Manifest | None
    sent_bytes: int
    heads: list[bytes]


def attack(hostile: Hostile, folder: Path) -> Ended:
    """Run `--stage serve` against a hostile server, and check what comes of it.

    Args:
        hostile: the server.
        folder: takes the run folder, which is removed again.

    Raises:
        AssertionError: something else than a readable run folder or one clear error.
    """
    from tracekit.collectors.collect import run
    from tracekit.collectors.serving.http import answer as request_attempt
    from tracekit.collectors.serving.http import engine as _http

    out = folder / "run"
    lines: list[str] = []
    error = None
    values: dict[str, object] = {
        "stage": "serve",
        "engine": hostile.engine,
        "out": out,
        "startup_timeout": 0.3,
        "requests": 2,
        "prompt_len": 8,
        "max_new_tokens": NEW_TOKENS,
        "warmup_requests": 0,
        "timeout": 0.3,
        "no_profile": not hostile.is_profiled,
        "trace_timeout": 0.3,
        "trace_dir": folder / "traces",
        "retries": 1,
    }
    environment = {"OPENAI_API_KEY": KEY}
    try:
        with (
            HostileServer(hostile) as server,
            mock.patch.multiple(_http, **LIMITS),
            mock.patch.object(request_attempt, "_TAIL_S", 0.2),
            mock.patch.dict(os.environ, environment),
        ):
            try:
                run({**values, "url": server.url}, ["tracekit", "collect"], lines.append)
            except TracekitError as caught:
                error = caught.message
                lines += [caught.message, caught.hint or ""]
        shown = "\n".join(lines)
        assert KEY not in shown
        assert all(line.isprintable() for line in lines), lines
        assert all(len(line) < 2000 for line in lines), lines
        found = None
        if out.exists():
            found = _checked(out)
        else:
            assert error is not None
        return Ended(error, lines, found, server.sent_bytes, server.heads)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _checked(out: Path) -> manifest.Manifest:
    """Read a run folder as strictly as any other program would."""

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    for name in ("run.json", "requests.jsonl"):
        text = (out / name).read_text("utf-8")
        assert KEY not in text
        assert len(text) < 10 << 20
        for part in [text] if name == "run.json" else text.splitlines():
            json.loads(part, parse_constant=refuse)
    found = manifest.read(out)
    assert found.load is not None
    with tracekit.open(out, traces=False, cache=False) as trace:
        rows = trace.query("throughput").to_dicts()
        (row,) = trace.sql("SELECT rejected_count, outcome FROM run").to_dicts()
    assert row == {"rejected_count": 0, "outcome": found.outcome}
    assert [one["ok_count"] for one in rows] == [found.load.ok_count]
    return found
