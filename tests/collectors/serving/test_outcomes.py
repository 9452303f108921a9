"""Whatever goes wrong with a request, it ends with a recorded outcome, and the others go on."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracekit import manifest
from tracekit.errors import UsageError, WorkloadError

Run = Callable[..., Any]
Servers = Callable[..., Any]


@pytest.mark.parametrize(
    ("engine", "behavior", "outcome", "reason"),
    [
        ("lightllm", "429", "http_error", '{"message": "the server is busy"}'),
        ("lightllm", "503", "http_error", '{"message": "the server is busy"}'),
        ("lightllm", "reset", "broken_stream", "after 3 tokens: "),
        ("lightllm", "truncate", "broken_stream", "after 3 tokens: the stream ended without its"),
        ("lightllm", "garbage", "bad_response", "not an event of lightllm: "),
        ("lightllm", "error_event", "bad_response", "out of memory"),
        ("lightllm", "json", "bad_response", "application/json and no event stream: "),
        ("lightllm", "no_answer", "broken_stream", "before an answer: "),
        ("lightllm", "not_http", "bad_response", "no HTTP: "),
        ("lightllm", "silent", "timeout", "not done 0.5 s after it was sent"),
        ("lightllm", "stall", "timeout", "not done 0.5 s after it was sent"),
        ("vllm", "truncate", "broken_stream", "after 3 tokens: the stream ended without its"),
        ("vllm", "error_event", "bad_response", "out of memory"),
        ("sglang", "reset", "broken_stream", "after 3 tokens: "),
        ("tgi", "error_event", "bad_response", "generation: Request failed during generation"),
        ("openai", "truncate", "broken_stream", "after 3 tokens: the stream ended without its"),
    ],
)
def test_a_request_that_fails_says_how(
    engine: str, behavior: str, outcome: str, reason: str, stand_in: Servers, serve: Run
) -> None:
    # The probes of engines that take text, and the first half, are answered.
    behaviors = ["ok"] * 12 + [behavior] * 100
    run = serve(
        stand_in(engine, behavior=behaviors),
        no_profile=True,
        warmup_requests=0,
        requests=16,
        timeout=0.5,
        is_incomplete=True,
    )
    bad = [request for request in run.requests if request["outcome"] != "ok"]
    assert {request["outcome"] for request in bad} == {outcome}
    assert len(run.requests) == 16
    assert 0 < len(bad) < 16
    for request in bad:
        assert request["reason"].startswith(reason)
        assert request["end_ns"] >= request["sent_ns"]
        if "after 3 tokens" in reason or behavior == "stall":
            assert len(request["token_ns"]) == request["output_token_count"] == 3
    assert run.manifest.outcome == "incomplete"
    assert f"of the {16 - len(bad)} of 16 requests" in run.manifest.reason
    assert run.load.failed_count == len(bad)
    assert run.lines[2].startswith(f"failed: {len(bad)} {outcome} (")


def test_half_of_the_requests_fail_and_nothing_is_lost(stand_in: Servers, serve: Run) -> None:
    server = stand_in("lightllm", behavior=["ok", "503", "reset", "ok", "truncate", "ok"])
    run = serve(server, requests=60, warmup_requests=0, no_profile=True, is_incomplete=True)
    outcomes = Counter(request["outcome"] for request in run.requests)
    assert outcomes == {"ok": 30, "http_error": 10, "broken_stream": 20}
    assert "30 of 60 requests answered" in run.lines[1]
    assert run.lines[2].startswith("failed: 20 broken_stream, 10 http_error (mostly: ")
    assert run.lines[3] == "figures of run"


def test_a_connection_that_stays_open_behind_a_whole_answer_is_no_failure(
    stand_in: Servers, serve: Run
) -> None:
    server = stand_in("lightllm", behavior=["open"])
    run = serve(server, requests=2, warmup_requests=0, timeout=0.5, no_profile=True)
    assert [request["outcome"] for request in run.requests] == ["ok", "ok"]
    assert all(request["end_ns"] < 400_000_000 for request in run.requests)


def test_retries_are_made_when_asked_for(stand_in: Servers, serve: Run) -> None:
    server = stand_in("lightllm", behavior=["503", "reset", "ok"])
    run = serve(server, requests=1, warmup_requests=0, retries=2, no_profile=True)
    (request,) = run.requests
    assert (request["outcome"], request["attempt_count"]) == ("ok", 3)
    assert request["http_status"] == 200
    assert request["reason"] is None
    assert len(request["token_ns"]) == 6
    # Its latency counts from its last attempt: those that failed are not in it.
    assert request["sent_ns"] > 100_000_000
    assert run.load.retry_count == 2


def test_a_request_that_would_fail_again_is_not_retried(stand_in: Servers, serve: Run) -> None:
    server = stand_in("lightllm", behavior=["404", "ok", "garbage", "ok"])
    run = serve(
        server,
        requests=4,
        warmup_requests=0,
        concurrency=1,
        retries=3,
        no_profile=True,
        is_incomplete=True,
    )
    assert [request["attempt_count"] for request in run.requests] == [1, 1, 1, 1]
    assert server.seen()["count"] == 4


def test_the_server_says_how_long_to_wait(stand_in: Servers, serve: Run) -> None:
    server = stand_in("lightllm", behavior=["429", "ok"], retry_after="1")
    run = serve(server, requests=1, warmup_requests=0, retries=1, no_profile=True)
    (request,) = run.requests
    assert request["outcome"] == "ok"
    assert request["sent_ns"] >= 500_000_000


def test_a_run_without_an_answer_fails_and_leaves_the_reasons(
    stand_in: Servers, serve: Run, tmp_path: Path
) -> None:
    server = stand_in("lightllm", behavior=["503"])
    with pytest.raises(WorkloadError) as caught:
        serve(server, no_profile=True)
    folder = tmp_path / "run"
    message = 'no request was answered: 8 http_error (8 times: 503 {"message": '
    assert message in caught.value.message
    assert caught.value.hint == f"each request's outcome is in {folder}/requests.jsonl"
    run = manifest.read(folder)
    assert run.outcome == "failed"
    assert message in str(run.reason)
    assert run.tokens_per_s_mean is None
    lines = (folder / "requests.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["http_error"] * 10


def test_a_server_that_is_not_there(serve: Run, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(WorkloadError) as caught:
            serve(None, engine="lightllm", url=url, startup_timeout=0.3)
    assert caught.value.message == (
        f"{url}: no healthy lightllm server after 0.3 s: Connection refused"
    )
    assert caught.value.hint == "start the server first, or let tracekit do it with --launch"
    assert list(tmp_path.iterdir()) == []


def test_refused_connections_are_recorded() -> None:
    """The server dies under the load: later requests find nobody."""
    from tracekit.collectors.serving.engines.lightllm import LightLlm
    from tracekit.collectors.serving.http.client import HttpClient
    from tracekit.collectors.serving.http.generator import LoadGenerator
    from tracekit.collectors.serving.plan import LoadPlan, Prompt

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        plan = LoadPlan([Prompt(2, [5, 6])] * 3, [0, 0, 0], 4, retry_count=1)
        states: list[object] = []
        result = LoadGenerator(LightLlm(), HttpClient(url), plan, states.append).run()
    assert [record.outcome for record in result.records] == ["refused"] * 3
    assert [record.attempt_count for record in result.records] == [2, 2, 2]
    assert {record.reason for record in result.records} == {"Connection refused"}
    assert all(record.sent_ns is not None for record in result.records)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"engine": "llama"}, "--engine 'llama' is no serving engine"),
        ({"engine": "vllm", "url": "localhost:8000"}, "--url 'localhost:8000' is no address of a"),
        ({"arrival": "poisson"}, "--arrival 'poisson' is no arrival pattern"),
        ({"arrival": "poisson:-1"}, "--arrival poisson:-1: '-1' is no rate in requests per second"),
        ({"requests": 0}, "--requests is 0, which is not an integer of 1 or more"),
        ({"concurrency": 0}, "--concurrency is 0, which is not an integer of 1 or more"),
        ({"timeout": 0}, "--timeout is 0, which is not a number above 0"),
        ({"profile_after": "soon"}, "--profile-after 'soon' is no point in the load"),
        ({"launch": "true"}, "--launch is for a server, and --engine transformers has none"),
        ({"engine": "vllm", "request_body": "[1]"}, "--request-body is no JSON object"),
        ({"batch_size": 4}, "--batch-size is for --stage pretrain and finetune, not for serve"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    values: dict[str, Any], message: str, serve: Run, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        serve(None, **values)
    assert caught.value.message.startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_a_request_longer_than_the_engine_takes_is_refused(stand_in: Servers, serve: Run) -> None:
    with pytest.raises(UsageError) as caught:
        serve(stand_in("vllm"), prompt_len=2040, max_new_tokens=9)
    assert caught.value.message == (
        "a request of 2040 + 9 tokens is longer than the 2048 that the engine takes"
    )
