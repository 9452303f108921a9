"""The kinds of hostile servers: one does one thing wrong, at one path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from _hostile_scripts import (
    KEY,
    NEW_TOKENS,
    STREAM,
    Hostile,
    Script,
    Step,
    answer,
    chunk,
    head,
    raw,
    stream,
    whole,
)

KINDS: dict[str, Callable[[Random], Hostile]] = {}


def kind(
    path: str, name: str | None = None, **members: Any
) -> Callable[[Callable[[Random], Script]], None]:
    """Register a script for one path as a kind of its own, under the function's name."""

    def register(make: Callable[[Random], Script]) -> None:
        called = name or make.__name__

        def hostile(random: Random) -> Hostile:
            return Hostile(called, scripts={path: make(random)}, **members)

        KINDS[called] = hostile

    return register


def drip(data: bytes) -> tuple[Step, ...]:
    return tuple(Step(bytes([byte]), pause_s=0.02) for byte in data)


# What does not depend on the random: scripts of one path, by name.
FIXED: dict[str, dict[str, Script]] = {
    "/health": {
        "drips_its_body": raw(head("200 OK", "Content-Length: 99999"), Step(b"x", True, 0.02)),
        "chunk_without_end": raw(
            head("200 OK", "Transfer-Encoding: chunked"),
            b"fffffffffff\r\n",
            Step(b"x" * 65536, True),
        ),
        "chunks_without_end": raw(
            head("200 OK", "Transfer-Encoding: chunked"), Step(b"4\r\nabcd\r\n" * 8192, True)
        ),
        "redirects_to_itself": whole(b"", "302 Found", "Location: /health"),
        "speaks_ssh": raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
        "speaks_before_it_is_asked": replace(whole(b"ok"), speaks_first=True),
        "line_without_end": raw(b"HTTP/1.1 200 ", Step(b"O" * 65536, True)),
        "header_without_end": raw(b"HTTP/1.1 200 OK\r\nX: ", Step(b"y" * 65536, True)),
        "a_million_headers": raw(b"HTTP/1.1 200 OK\r\n", Step(b"a: b\r\n" * 10_000, True)),
        "headers_in_thousands": raw(head("200 OK", *(f"h{number}: 1" for number in range(5000)))),
        "says_continue_for_ever": raw(Step(head("100 Continue") * 2000, True)),
        "accepts_and_is_silent": raw(end="hang"),
        "nothing_at_all": raw(),
        "unhealthy_with_escapes": whole(b"\x1b]0;pwned\x07\x1b[2J\r\n\xe2\x80\xae" * 40, "503 No"),
    },
    "/v1/models": {
        "list_without_end": raw(head(), b'{"data": [', Step(b'{"id": "m"},' * 5000, True)),
        "two_megabytes_of_lists": whole(
            b'{"data": [{"id": "m", "x": [' + b"[]," * 600_000 + b"1]}]}"
        ),
    },
    "/version": {
        "claims_our_own_members": answer(
            {"url": "http://evil", "launch": "rm -rf /", "api_key": KEY, "x": {"token": KEY}}
        ),
    },
    "/v1/completions": {
        "event_without_end": raw(STREAM, b"data: ", Step(b"x" * 65536, True)),
        "events_without_end": raw(STREAM, Step(chunk(1) * 200, True)),
        "empty_lines_of_data": raw(STREAM, Step(b"data:\n" * 10_000, True)),
        "answer_that_goes_on": raw(
            *(STREAM, *(chunk(count) for count in range(1, NEW_TOKENS + 1))),
            *(b"data: [DONE]\n\n", Step(b": still here\n\n", True, 0.02)),
        ),
        "drips_its_answer": Script((Step(STREAM), *drip(chunk(1))), end="hang"),
        "deep_event": stream(b'data: {"choices": ' + b"[" * 100_000 + b"\n\n"),
        "more_tokens_than_asked_for": stream(
            chunk(NEW_TOKENS, usage={"prompt_tokens": 4, "completion_tokens": 10**9})
        ),
        "sums_that_go_back": stream(
            chunk(2), chunk(1), chunk(NEW_TOKENS, usage={"completion_tokens": 0})
        ),
        "redirects_the_request": whole(
            b"", "307 Temporary Redirect", "Location: http://127.0.0.2:9/steal"
        ),
        "an_error_without_end": raw(head("500 No"), Step(b"\x1b[2J error " * 5000, True)),
    },
}

for path, scripts in FIXED.items():
    for name, script in scripts.items():
        kind(path, name)(lambda _, script=script: script)


@kind("/health")
def drips_its_head(random: Random) -> Script:
    return raw(b"HTTP/1.1 200 OK\r\n", Step(b"X: y\r\n"[random.randrange(6) :], True, 0.02))


@kind("/health")
def body_without_end(random: Random) -> Script:
    return raw(head(), Step(random.randbytes(65536), True))


@kind("/health")
def redirects_elsewhere(random: Random) -> Script:
    status = random.choice(["301 M", "302 F", "303 S", "307 T", "308 P"])
    return whole(b"", status, "Location: http://127.0.0.2:9/steal?x=\x1b[31m")


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
def resets(random: Random) -> Script:
    return raw(head()[: random.randrange(1, 12)], end="reset")


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


@kind("/version")
def pretends_to_be_compressed(random: Random) -> Script:
    return whole(random.randbytes(300), "200 OK", "Content-Encoding: gzip")


@kind("/info", engine="tgi")
def html_instead_of_json(random: Random) -> Script:
    return whole(b"<html>" + b"<b>" * 1000, "200 OK", "Content-Type: text/html")


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


@kind("/start_profile", is_profiled=True)
def profile_start_without_end(random: Random) -> Script:
    return raw(head(), Step(b"x" * 65536, True))


@kind("/stop_profile", is_profiled=True)
def profile_stop_breaks(random: Random) -> Script:
    return raw(b"HTTP/1.1 200", end="reset")


@kind("/start_profile", is_profiled=True)
def profile_is_refused_with_escapes(random: Random) -> Script:
    return whole(b"\x1b[31m\xff\xfe no" * 100, "418 No")
