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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import tracekit
from tracekit import manifest
from tracekit.errors import TracekitError

KEY = "sk-hostile-0123456789"
MODEL = "model"
NEW_TOKENS = 3
LIMITS = {
    "_ASK_TIMEOUT_S": 0.25,
    "_ATTACH_TIMEOUT_S": 0.25,
    "_SETUP_TIMEOUT_S": 1.0,
}
# More than the client keeps of any answer, with what lies in the buffers of sockets between.
MOST_SENT_BYTES = 48 << 20


@dataclass(frozen=True)
class Step:
    """Bytes to send: once, or over and over until the other side hangs up."""

    data: bytes = b""
    is_endless: bool = False
    pause_s: float = 0.0


@dataclass(frozen=True)
class Script:
    """What is done with one request."""

    steps: tuple[Step, ...]
    end: str = "close"  # or reset, or hang
    speaks_first: bool = False


@dataclass(frozen=True)
class Hostile:
    """One hostile server: what it does where; elsewhere it answers as it should."""

    name: str = ""
    engine: str = "vllm"
    scripts: dict[str, Script] = field(default_factory=dict)
    is_profiled: bool = False


def head(status: str = "200 OK", *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


def whole(data: bytes, status: str = "200 OK", *lines: str) -> Script:
    return Script((Step(head(status, f"Content-Length: {len(data)}", *lines) + data),))


def raw(*steps: Step | bytes, end: str = "close") -> Script:
    return Script(tuple(step if isinstance(step, Step) else Step(step) for step in steps), end=end)


def answer(value: Any) -> Script:
    return whole(json.dumps(value).encode(), "200 OK", "Content-Type: application/json")


STREAM = head("200 OK", "Content-Type: text/event-stream")


def chunk(count: int, **members: Any) -> bytes:
    """Return the event of one token as vLLM sends it."""
    choice = {"index": 0, "text": "x", "finish_reason": "length" if count == NEW_TOKENS else None}
    usage = {"prompt_tokens": 4, "completion_tokens": count}
    value = {"id": "cmpl-1", "choices": [choice], "usage": usage, **members}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def stream(*events: bytes, end: bytes = b"data: [DONE]\n\n") -> Script:
    return raw(STREAM, *events, end)


def token_event(count: int) -> bytes:
    """Return the event of one token with the members of both LightLLM and TGI."""
    is_last = count == NEW_TOKENS
    token = {"id": 7, "text": "x", "count_output_tokens": count, "prompt_tokens": 8}
    value = {"token": token, "finished": is_last, "generated_text": "xxx" if is_last else None}
    return b"data:" + json.dumps(value).encode() + b"\n\n"


GOOD: dict[str, Script] = {
    "/health": whole(b""),
    "/v1/models": answer({"data": [{"id": MODEL, "root": "/no/such", "max_model_len": 64}]}),
    "/version": answer({"version": "1"}),
    "/info": answer({"model_id": MODEL, "max_total_tokens": 64}),
    "/get_server_info": answer({"model_dir": f"/models/{MODEL}", "max_req_total_len": 64}),
    "/server_info": answer({"model_path": MODEL, "context_length": 64}),
    "/start_profile": whole(b""),
    "/stop_profile": whole(b""),
    "/v1/completions": stream(*(chunk(count) for count in range(1, NEW_TOKENS + 1))),
    "/generate_stream": raw(STREAM, *(token_event(count) for count in range(1, NEW_TOKENS + 1))),
}

KINDS: dict[str, Callable[[Random], Hostile]] = {}


def kind(path: str, **members: Any) -> Callable[[Callable[[Random], Script]], None]:
    """Register a script for one path as a kind of its own, under the function's name."""

    def register(make: Callable[[Random], Script]) -> None:
        name = make.__name__

        def hostile(random: Random) -> Hostile:
            return Hostile(name, scripts={path: make(random)}, **members)

        KINDS[name] = hostile

    return register


def drip(data: bytes) -> tuple[Step, ...]:
    return tuple(Step(bytes([byte]), pause_s=0.02) for byte in data)


# -- whether it is up ------------------------------------------------------------------------------


@kind("/health")
def drips_its_head(random: Random) -> Script:
    return raw(b"HTTP/1.1 200 OK\r\n", Step(b"X: y\r\n"[random.randrange(6) :], True, 0.02))


@kind("/health")
def drips_its_body(random: Random) -> Script:
    return raw(head("200 OK", "Content-Length: 99999"), Step(b"x", True, 0.02))


@kind("/health")
def body_without_end(random: Random) -> Script:
    return raw(head(), Step(random.randbytes(65536), True))


@kind("/health")
def chunk_without_end(random: Random) -> Script:
    return raw(
        head("200 OK", "Transfer-Encoding: chunked"), b"fffffffffff\r\n", Step(b"x" * 65536, True)
    )


@kind("/health")
def chunks_without_end(random: Random) -> Script:
    return raw(head("200 OK", "Transfer-Encoding: chunked"), Step(b"4\r\nabcd\r\n" * 8192, True))


@kind("/health")
def redirects_elsewhere(random: Random) -> Script:
    status = random.choice(["301 M", "302 F", "303 S", "307 T", "308 P"])
    return whole(b"", status, "Location: http://127.0.0.2:9/steal?x=\x1b[31m")


@kind("/health")
def redirects_to_itself(random: Random) -> Script:
    return whole(b"", "302 Found", "Location: /health")


@kind("/health")
def speaks_ssh(random: Random) -> Script:
    return raw(b"SSH-2.0-OpenSSH_9.6\r\n")


@kind("/health")
def speaks_before_it_is_asked(random: Random) -> Script:
    return replace(whole(b"ok"), speaks_first=True)


@kind("/health")
def line_without_end(random: Random) -> Script:
    return raw(b"HTTP/1.1 200 ", Step(b"O" * 65536, True))


@kind("/health")
def header_without_end(random: Random) -> Script:
    return raw(b"HTTP/1.1 200 OK\r\nX: ", Step(b"y" * 65536, True))


@kind("/health")
def a_million_headers(random: Random) -> Script:
    return raw(b"HTTP/1.1 200 OK\r\n", Step(b"a: b\r\n" * 10_000, True))


@kind("/health")
def headers_in_thousands(random: Random) -> Script:
    return raw(head("200 OK", *(f"h{number}: 1" for number in range(5000))))


@kind("/health")
def says_continue_for_ever(random: Random) -> Script:
    return raw(Step(head("100 Continue") * 2000, True))


@kind("/health")
def statuses_that_are_none(random: Random) -> Script:
    status = random.choice(["999999999999999999", "-200 OK", "two", "", "2 00", "²00 OK", "099 x"])
    return whole(b"", status)


@kind("/health")
def lengths_that_lie(random: Random) -> Script:
    length = random.choice(["-5", "+5", "1_0", "0x5", "9" * 5000, "5, 6", "5\r\nContent-Length: 6"])
    return raw(head("200 OK", f"Content-Length: {length}") + b"hello")


@kind("/health")
def chunks_that_lie(random: Random) -> Script:
    size = random.choice(["-5", "+5", "1_0", "0x5", "f" * 5000, "5;" + "x" * 99999, "", "5 5"])
    return raw(head("200 OK", "Transfer-Encoding: chunked"), f"{size}\r\nhello, you\r\n".encode())


@kind("/health")
def accepts_and_is_silent(random: Random) -> Script:
    return raw(end="hang")


@kind("/health")
def resets(random: Random) -> Script:
    return raw(head()[: random.randrange(1, 12)], end="reset")


@kind("/health")
def nothing_at_all(random: Random) -> Script:
    return raw()


@kind("/health")
def unhealthy_with_escapes(random: Random) -> Script:
    return whole(b"\x1b]0;pwned\x07\x1b[2J\r\n\xe2\x80\xae" * 40, "503 No")


# -- what it says of itself ------------------------------------------------------------------------


@kind("/v1/models")
def json_of_100_000_brackets(random: Random) -> Script:
    opening = random.choice([b"[", b'{"a":', b'{"data":[{"id":'])
    return whole(opening * 100_000)


@kind("/v1/models")
def json_as_deep_as_may_be_read(random: Random) -> Script:
    depth = random.choice([30, 40, 200, 900])
    card = b'{"data": [{"id": "m", "x": ' + b"[" * depth + b"]" * depth + b"}]}"
    return whole(card)


@kind("/v1/models")
def members_of_other_types(random: Random) -> Script:
    wrong = [None, True, -1, 0, 1.5, "x", [], {}, [[]], {"a": 1}, 2**70, "9" * 5000, 1e308]
    card = {name: random.choice(wrong) for name in ("id", "root", "max_model_len", "object")}
    return answer({"data": [card]} if random.random() < 0.8 else random.choice(wrong))


@kind("/server_info", engine="sglang")
def sizes_of_other_types(random: Random) -> Script:
    wrong = [None, "many", -3, 0, 2.5, [8], {"n": 1}, 10**30, True, "1e9", 65537, 2**31]
    names = ("tp_size", "pp_size", "nnodes", "context_length", "attention_backend", "model_path")
    return answer({name: random.choice(wrong) for name in names})


@kind("/get_server_info", engine="lightllm")
def arguments_of_other_types(random: Random) -> Script:
    wrong = [None, "\0", -3, 0, 2.5, [8], {"n": 1}, 10**30, True, "../" * 2000]
    names = ("model_dir", "tp", "nnodes", "data_type", "max_req_total_len", "enable_profiling")
    return answer({name: random.choice(wrong) for name in names})


@kind("/v1/models")
def numbers_that_json_has_not(random: Random) -> Script:
    number = random.choice([b"NaN", b"-Infinity", b"1e999", b"9" * 400, b"9" * 5000, b"-0.0"])
    return whole(b'{"data": [{"id": "m", "max_model_len": 64, "x": ' + number + b"}]}")


@kind("/v1/models")
def names_of_no_characters(random: Random) -> Script:
    name = random.choice(["\\ud800", "\\u0000", "\\u202e", "\\u001b[2J", "é" * 5000, "../../etc"])
    text = f'{{"data": [{{"id": "{name}", "{name}": "{name}", "max_model_len": 64}}]}}'
    return whole(text.encode())


@kind("/v1/models")
def list_without_end(random: Random) -> Script:
    return raw(head(), b'{"data": [', Step(b'{"id": "m"},' * 5000, True))


@kind("/v1/models")
def two_megabytes_of_lists(random: Random) -> Script:
    return whole(b'{"data": [{"id": "m", "x": [' + b"[]," * 600_000 + b"1]}]}")


@kind("/version")
def pretends_to_be_compressed(random: Random) -> Script:
    return whole(random.randbytes(300), "200 OK", "Content-Encoding: gzip")


@kind("/version")
def claims_our_own_members(random: Random) -> Script:
    return answer({"url": "http://evil", "launch": "rm -rf /", "api_key": KEY, "x": {"token": KEY}})


@kind("/info", engine="tgi")
def html_instead_of_json(random: Random) -> Script:
    return whole(b"<html>" + b"<b>" * 1000, "200 OK", "Content-Type: text/html")


# -- what it answers -------------------------------------------------------------------------------


@kind("/v1/completions")
def event_without_end(random: Random) -> Script:
    return raw(STREAM, b"data: ", Step(b"x" * 65536, True))


@kind("/v1/completions")
def events_without_end(random: Random) -> Script:
    return raw(STREAM, Step(chunk(1) * 200, True))


@kind("/v1/completions")
def empty_lines_of_data(random: Random) -> Script:
    return raw(STREAM, Step(b"data:\n" * 10_000, True))


@kind("/v1/completions")
def answer_that_goes_on(random: Random) -> Script:
    return raw(
        *(STREAM, *(chunk(count) for count in range(1, NEW_TOKENS + 1))),
        *(b"data: [DONE]\n\n", Step(b": still here\n\n", True, 0.02)),
    )


@kind("/v1/completions")
def drips_its_answer(random: Random) -> Script:
    return Script((Step(STREAM), *drip(chunk(1))), end="hang")


@kind("/v1/completions")
def deep_event(random: Random) -> Script:
    return stream(b'data: {"choices": ' + b"[" * 100_000 + b"\n\n")


@kind("/v1/completions")
def deep_error(random: Random) -> Script:
    error = b'{"error": ' * random.choice([50, 900]) + b'"\\u001b[2J"' + b"}" * 900
    return stream(b"data: " + error + b"\n\n")


@kind("/v1/completions")
def counts_of_other_types(random: Random) -> Script:
    wrong = [-1, -(2**70), 2**70, 1.5, "3", True, [3], {}, 1e300]
    name = random.choice(["prompt_tokens", "completion_tokens"])
    return stream(chunk(NEW_TOKENS, usage={name: random.choice(wrong)}))


@kind("/v1/completions")
def more_tokens_than_asked_for(random: Random) -> Script:
    return stream(chunk(NEW_TOKENS, usage={"prompt_tokens": 4, "completion_tokens": 10**9}))


@kind("/v1/completions")
def sums_that_go_back(random: Random) -> Script:
    return stream(chunk(2), chunk(1), chunk(NEW_TOKENS, usage={"completion_tokens": 0}))


@kind("/v1/completions")
def members_of_events(random: Random) -> Script:
    wrong = [None, True, -1, 1.5, "x", [], {}, [[]], [None], {"a": 1}, "\ud800", "y" * 100_000]
    name = random.choice(["id", "choices", "usage", "error", "object"])
    return stream(chunk(NEW_TOKENS, **{name: random.choice(wrong)}))


@kind("/v1/completions")
def ids_of_no_characters(random: Random) -> Script:
    text = random.choice(["\ud800", "\x00\x1b[2J", "\u202e", "i" * 50_000])
    return stream(*(chunk(count, id=text) for count in range(1, NEW_TOKENS + 1)))


@kind("/v1/completions")
def bytes_that_are_no_text(random: Random) -> Script:
    return stream(b"data: " + random.randbytes(500).replace(b"\n", b"x") + b"\n\n")


@kind("/v1/completions")
def lies_about_its_type(random: Random) -> Script:
    kinds = ["application/json", "text/event-stream" * 500, "", "text/html", "\x00"]
    return raw(head("200 OK", f"Content-Type: {random.choice(kinds)}"), chunk(1))


@kind("/v1/completions")
def redirects_the_request(random: Random) -> Script:
    return whole(b"", "307 Temporary Redirect", "Location: http://127.0.0.2:9/steal")


@kind("/v1/completions")
def an_error_without_end(random: Random) -> Script:
    return raw(head("500 No"), Step(b"\x1b[2J error " * 5000, True))


@kind("/v1/completions")
def asks_to_wait_for_ever(random: Random) -> Script:
    seconds = random.choice(["inf", "nan", "-1", "1e999", "Mon, 01 Jan 2400 00:00:00 GMT"])
    return whole(b"later", "404 No", f"Retry-After: {seconds}")


@kind("/v1/completions")
def breaks_off_in_a_chunk(random: Random) -> Script:
    begin = head("200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
    return raw(begin, b"ff\r\ndata: {", end="reset")


@kind("/v1/completions", engine="openai")
def counts_no_tokens(random: Random) -> Script:
    return stream(chunk(NEW_TOKENS, usage={"prompt_tokens": 0, "completion_tokens": NEW_TOKENS}))


@kind("/v1/completions", engine="openai")
def counts_too_few_tokens(random: Random) -> Script:
    """Asks for ever more words: each question would be a thousand times as long as the last."""
    refusal = b'data: {"choices": [], "usage": {"prompt_tokens": 1}}\n\n'
    return stream(refusal) if random.random() < 0.5 else raw(head("400 No"), refusal)


# -- the profile -----------------------------------------------------------------------------------


@kind("/start_profile", is_profiled=True)
def profile_start_without_end(random: Random) -> Script:
    return raw(head(), Step(b"x" * 65536, True))


@kind("/stop_profile", is_profiled=True)
def profile_stop_breaks(random: Random) -> Script:
    return raw(b"HTTP/1.1 200", end="reset")


@kind("/start_profile", is_profiled=True)
def profile_is_refused_with_escapes(random: Random) -> Script:
    return whole(b"\x1b[31m\xff\xfe no" * 100, "418 No")


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
    from tracekit.collectors.serving.http import attempt as request_attempt
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
