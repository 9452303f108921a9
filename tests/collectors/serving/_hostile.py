"""Hostile servers: each misbehaves at one path, and answers well everywhere else.

`attack` raises `AssertionError` unless the result is a readable run folder or one clear error.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import socketserver
import struct
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple
from unittest import mock

import tracekit
from tracekit import manifest
from tracekit.errors import TracekitError

KEY = "sk-hostile-0123456789"
MODEL = "model"
NEW_TOKENS = 3
LIMITS = {"_ASK_TIMEOUT_S": 0.25, "_ATTACH_TIMEOUT_S": 0.25}
# More than the client keeps of any answer, plus the socket buffers.
MAX_SENT_BYTES = 48 << 20


class Step(NamedTuple):
    data: bytes = b""
    is_endless: bool = False
    pause_s: float = 0.0


class Script(NamedTuple):
    """The answer to one request. `end` is close, reset, or hang."""

    steps: tuple[Step, ...]
    end: str = "close"
    speaks_first: bool = False


class Hostile(NamedTuple):
    engine: str = "vllm"
    scripts: dict[str, Script] = {}  # noqa: RUF012 - never changed
    is_profiled: bool = False


class Kind(NamedTuple):
    """A kind of hostile server, which behaves as one of `scripts` at a path.

    `outcome` is the outcome of each request; `refused` if the run ends in an error without a run
    folder; `any` if it depends on the variant or on the speed of the machine. The reason of each
    failed request begins with `reason`.
    """

    outcome: str
    path: str
    scripts: tuple[Script, ...]
    reason: str = ""
    engine: str = "vllm"
    is_profiled: bool = False

    def hostile(self, random):
        return Hostile(self.engine, {self.path: random.choice(self.scripts)}, self.is_profiled)


def head(status="200 OK", *lines):
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


def whole(data, status="200 OK", *lines):
    return Script((Step(head(status, f"Content-Length: {len(data)}", *lines) + data),))


def raw(*steps, end="close"):
    return Script(tuple(step if isinstance(step, Step) else Step(step) for step in steps), end=end)


def answer(value):
    return whole(json.dumps(value).encode(), "200 OK", "Content-Type: application/json")


STREAM = head("200 OK", "Content-Type: text/event-stream")
CHUNKED = head("200 OK", "Transfer-Encoding: chunked")
CHUNKED_STREAM = CHUNKED[:-2] + b"Content-Type: text/event-stream\r\n\r\n"
CHUNKED_END = b"0\r\nTrailer: x\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def chunk(count, **members):
    choice = {"index": 0, "text": "x", "finish_reason": "length" if count == NEW_TOKENS else None}
    usage = {"prompt_tokens": 4, "completion_tokens": count}
    value = {"id": "cmpl-1", "choices": [choice], "usage": usage, **members}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def used(**usage):
    return chunk(NEW_TOKENS, usage=usage)


def stream(*events):
    return raw(STREAM, *events, DONE)


CARD = {"id": MODEL, "root": "/no/such", "max_model_len": 64}
TOKENS = tuple(chunk(count) for count in range(1, NEW_TOKENS + 1))
GOOD = {
    "/health": whole(b""),
    "/v1/models": answer({"data": [CARD]}),
    "/version": answer({"version": "1"}),
    "/start_profile": whole(b""),
    "/stop_profile": whole(b""),
    "/v1/completions": stream(*TOKENS),
}


def endless(data, pause_s=0.0):
    return Step(data, True, pause_s)


def drip(data, pause_s=0.02):
    return tuple(Step(bytes([byte]), pause_s=pause_s) for byte in data)


LATE = "no complete answer within 0.3 s"
ESCAPES = b"\x1b]0;pwned\x07\x1b[2J\r\n\xe2\x80\xae"
NOISE = bytes(range(256)).replace(b"\n", b"x")
ELSEWHERE = "Location: http://127.0.0.2:9/steal?x=\x1b[31m"


def _health(*scripts):
    return Kind("refused", "/health", scripts)


def _facts(*scripts, path="/v1/models"):
    return Kind("ok", path, scripts)


def _load(outcome, *scripts, reason="", engine="vllm"):
    return Kind(outcome, "/v1/completions", scripts, reason, engine)


def _profile(script, end):
    return Kind("ok", f"/{end}_profile", (script,), is_profiled=True)


KINDS = {
    # Is the server healthy?
    "drips_its_body": _health(raw(head("200 OK", "Content-Length: 99"), endless(b"x", 0.02))),
    "body_without_end": _health(raw(head(), endless(NOISE * 256))),
    "line_without_end": _health(raw(b"HTTP/1.1 200 ", endless(b"O" * 65536))),
    "headers_without_end": _health(raw(b"HTTP/1.1 200 OK\r\n", endless(b"a: b\r\n" * 10_000))),
    "continues_forever": _health(raw(endless(head("100 Continue") * 2000))),
    "redirects": _health(
        *(whole(b"", status, ELSEWHERE) for status in ("301 M", "302 F", "303 S", "307 T", "308 P"))
    ),
    "trailers_without_end": _health(raw(CHUNKED, b"0\r\nX: ", endless(b"y" * 65536))),
    "odd_framing": _health(
        whole(b"", "two"),
        *(raw(head("200 OK", f"Content-Length: {size}"), b"hello") for size in ("-5", "5, 6", "9")),
        *(raw(CHUNKED, f"{size}\r\nhello\r\n".encode()) for size in ("-5", "f" * 5000, "")),
    ),
    "is_silent": _health(raw(end="hang")),
    "resets": _health(*(raw(head()[:size], end="reset") for size in (1, 6, 12))),
    "unhealthy_with_escapes": _health(whole(ESCAPES * 40, "503 No")),
    "speaks_first": Kind("bad_response", "/health", (whole(b"ok")._replace(speaks_first=True),)),
    # What does the server report about its model?
    "list_without_end": _facts(raw(head(), b'{"data": [', endless(b'{"id": "m"},' * 5000))),
    "claims_members_of_tracekit": _facts(
        answer({"url": "http://evil", "launch": "rm -rf /", "x": {"token": KEY}}), path="/version"
    ),
    "pretends_to_be_compressed": _facts(
        whole(NOISE, "200 OK", "Content-Encoding: gzip"), path="/version"
    ),
    "html_instead_of_json": _facts(whole(b"<html>" + b"<b>" * 1000), path="/version"),
    # How does the server answer a request?
    "is_busy": _load("http_error", whole(b'{"message": "busy"}', "503 No"), reason='{"mess'),
    "redirects_the_request": _load("http_error", whole(b"", "307 T", "Location: /steal")),
    "an_error_without_end": _load(
        "http_error", raw(head("500 No"), endless(b"\x1b[2J error " * 5000))
    ),
    "asks_to_wait_forever": _load(
        "http_error",
        *(whole(b"", "404 No", f"Retry-After: {wait}") for wait in ("inf", "nan", "-1", "1e999")),
    ),
    "resets_at_once": _load("broken_stream", raw(end="reset"), reason="before an answer: "),
    "ends_after_two_tokens": _load(
        "broken_stream", raw(STREAM, *TOKENS[:2]), reason="after 2 tokens: "
    ),
    "breaks_off_in_a_chunk": _load(
        "broken_stream", raw(CHUNKED_STREAM, b"ff\r\ndata: {", end="reset")
    ),
    "never_answers": _load("timeout", raw(end="hang"), reason=LATE),
    "stalls": _load("timeout", raw(STREAM, *TOKENS[:2], end="hang"), reason=LATE),
    "drips_its_answer": _load("timeout", raw(STREAM, *drip(chunk(1)), end="hang")),
    "empty_lines_of_data": _load("any", raw(STREAM, endless(b"data:\n" * 10_000))),
    "events_without_end": _load("any", raw(STREAM, endless(chunk(1) * 200))),
    "event_without_end": _load("bad_response", raw(STREAM, b"data: ", endless(b"x" * 65536))),
    "single_bytes": _load("ok", raw(head("100 Continue"), *drip(STREAM + b"".join(TOKENS), 1e-3))),
    "chunks_of_one_byte": _load(
        "ok",
        raw(CHUNKED_STREAM, *(b"1;x=1\r\n%c\r\n" % byte for byte in b"".join(TOKENS)), CHUNKED_END),
    ),
    "answer_that_goes_on": _load("ok", raw(STREAM, *TOKENS, DONE, endless(b": here\n\n", 0.02))),
    "stays_open": _load("ok", raw(STREAM, *TOKENS, DONE, end="hang")),
    "no_http": _load("bad_response", raw(b"hello\r\n\r\n"), reason="not HTTP: "),
    "json_instead_of_events": _load("bad_response", answer({"error": {"message": "no stream"}})),
    "garbage": _load("bad_response", stream(TOKENS[0], b"data: {x\n\n"), reason="not an event"),
    "an_error_event": _load(
        "bad_response", stream(b'data: {"error": {"message": "out\\u001b[2J"}}\n\n'), reason="out"
    ),
    "odd_content_types": _load(
        "bad_response",
        *(
            raw(head("200 OK", f"Content-Type: {text}"), chunk(1))
            for text in ("application/json", "", "text/html", "\x00")
        ),
    ),
    "more_tokens_than_requested": _load(
        "ok", stream(used(prompt_tokens=4, completion_tokens=10**9))
    ),
    "counts_that_go_back": _load("ok", stream(chunk(2), chunk(1), used(completion_tokens=0))),
    "counts_no_tokens": _load(
        "ok", stream(used(prompt_tokens=0, completion_tokens=NEW_TOKENS)), engine="openai"
    ),
    # Each probe of the prompt length would be a thousand times longer than the previous one.
    "counts_too_few_tokens": _load(
        "bad_response",
        stream(b'data: {"choices": [], "usage": {"prompt_tokens": 1}}\n\n'),
        engine="openai",
    ),
    # A profile that fails costs no request.
    "profile_start_without_end": _profile(raw(head(), endless(b"x" * 65536)), "start"),
    "profile_is_refused": _profile(whole(ESCAPES * 100, "418 No"), "start"),
    "profile_stop_breaks": _profile(raw(b"HTTP/1.1 200", end="reset"), "stop"),
}


def hostile_of(random):
    """Return any hostile server, half of the time with mutated bytes."""
    chosen = KINDS[random.choice(sorted(KINDS))].hostile(random)
    if random.random() < 0.5:
        return chosen
    paths = [*chosen.scripts, *random.sample(sorted(GOOD), k=2)]
    scripts = {path: _mutated(chosen.scripts.get(path, GOOD[path]), random) for path in paths}
    return chosen._replace(scripts=scripts)


def _mutated(script, random):
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
        steps[at] = steps[at]._replace(data=bytes(data) or b"x")
    end = random.choice([script.end, script.end, "reset", "close"])
    return script._replace(steps=tuple(steps), end=end)


class HostileServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, hostile):
        super().__init__(("127.0.0.1", 0), Connection)
        self.scripts = GOOD | hostile.scripts
        self.first = next((s for s in hostile.scripts.values() if s.speaks_first), None)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.is_over = False
        self.sent_bytes = 0
        self.head_lines = []

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc_info):
        self.is_over = True
        self.shutdown()
        self.server_close()

    def shutdown_request(self, request):
        """Close without the orderly end that would precede a reset."""
        self.close_request(request)


class Connection(socketserver.StreamRequestHandler):
    def handle(self):
        server = self.server
        script = server.first or server.scripts.get(self.path()) or whole(b"{}", "404 Not Found")
        with suppress(OSError):
            for step in script.steps:
                while not server.is_over:
                    self.request.sendall(step.data)
                    server.sent_bytes += len(step.data)
                    time.sleep(step.pause_s)
                    if not step.is_endless:
                        break
            if script.end == "hang":
                self.rfile.read()
            elif script.end == "reset":
                reset = struct.pack("ii", 1, 0)
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

    def path(self):
        lines = [b"- -"]
        with suppress(OSError):
            lines = list(iter(lambda: self.rfile.readline().rstrip(), b"")) or lines
            self.server.head_lines += lines
            lengths = [line for line in lines if line.startswith(b"Content-Length: ")]
            self.rfile.read(sum(int(line[16:]) for line in lengths))
        return lines[0].split()[1].decode("latin-1")


class Ended(NamedTuple):
    error: str | None
    run: manifest.Manifest | None
    requests: list[dict[str, Any]]
    server: HostileServer


def attack(hostile, folder, *, startup_s=0.3, request_s=0.3):
    """Run `--stage serve` against a hostile server; the run folder is removed again."""
    from tracekit.collectors.collect import run
    from tracekit.collectors.serving.http import answer as request_attempt
    from tracekit.collectors.serving.http import engine as _http

    out, lines, error = folder / "run", [], None
    values = {"stage": "serve", "engine": hostile.engine, "out": out, "startup_timeout": startup_s}
    values |= {"requests": 2, "prompt_len": 8, "max_new_tokens": NEW_TOKENS, "warmup_requests": 0}
    values |= {"timeout": request_s, "retries": 1, "no_profile": not hostile.is_profiled}
    values |= {"trace_timeout": 0.3, "trace_dir": folder / "traces"}
    try:
        with (
            HostileServer(hostile) as server,
            mock.patch.multiple(_http, **LIMITS, _SETUP_TIMEOUT_S=max(1.0, request_s)),
            mock.patch.object(request_attempt, "_TAIL_S", 0.2),
            mock.patch.dict(os.environ, {"OPENAI_API_KEY": KEY}),
        ):
            try:
                run({**values, "url": server.url}, ["tracekit", "collect"], lines.append)
            except TracekitError as caught:
                error = caught.message
                lines += [caught.message, caught.hint or ""]
        for line in lines:
            assert line.isprintable()
            assert len(line) < 2000
            assert KEY not in line
        found, requests = _checked(out) if out.exists() else (None, [])
        assert found is not None or error is not None
        return Ended(error, found, requests, server)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _checked(out):
    def refuse(text):
        raise AssertionError(f"{text} is no JSON")

    texts = [(out / name).read_text("utf-8") for name in ("run.json", "requests.jsonl")]
    assert KEY not in "".join(texts)
    assert max(map(len, texts)) < 10 << 20
    run, *requests = [
        json.loads(line, parse_constant=refuse) for line in (texts[0], *texts[1].splitlines())
    ]
    found = manifest.read(out)
    with tracekit.open(out, traces=False, cache=False) as trace:
        rows = trace.query("throughput").to_dicts()
        (row,) = trace.sql("SELECT rejected_count, outcome FROM run").to_dicts()
    assert row == {"rejected_count": 0, "outcome": run["outcome"]}
    assert [one["ok_count"] for one in rows] == [found.load.ok_count]
    return found, requests
