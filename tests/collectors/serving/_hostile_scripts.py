"""What a server says, request by request, and what one says that is as it should be."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

KEY = "sk-hostile-0123456789"
MODEL = "model"

NEW_TOKENS = 3


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
