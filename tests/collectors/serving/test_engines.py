"""Each engine's protocol, against a stand-in that speaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

ENGINES = ("lightllm", "vllm", "sglang", "tgi", "openai")

Run = Callable[..., Any]
Servers = Callable[..., Any]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_request_is_answered_and_every_token_timed(
    engine: str, stand_in: Servers, serve: Run
) -> None:
    run = serve(stand_in(engine), no_profile=True)
    assert run.manifest.outcome == "ok"
    assert run.manifest.engine == engine
    assert [request["request_id"] for request in run.all_requests] == list(range(10))
    assert [request["is_warmup"] for request in run.all_requests] == 8 * [False] + 2 * [True]
    for request in run.requests:
        assert request["outcome"] == "ok"
        assert request["reason"] is None
        assert request["attempt_count"] == 1
        assert request["output_token_count"] == len(request["token_ns"]) == 6
        assert request["token_counts"] is None
        instants = [request["sent_ns"], request["first_token_ns"], *request["token_ns"]]
        assert instants == sorted(instants)
        assert request["first_token_ns"] == request["token_ns"][0]
        assert request["end_ns"] >= request["token_ns"][-1]
        assert 0 <= request["arrival_ns"] <= request["sent_ns"]
    for request in run.all_requests[8:]:
        assert request["arrival_ns"] <= request["sent_ns"] < request["end_ns"] < 0


@pytest.mark.parametrize("engine", ENGINES)
def test_the_manifest_holds_load_and_throughput(engine: str, stand_in: Servers, serve: Run) -> None:
    server = stand_in(engine)
    run = serve(server, no_profile=True, arrival="constant:200", concurrency=4, seed=3)
    load = run.load
    assert (load.request_count, load.prompt_token_count, load.max_new_token_count) == (8, 16, 6)
    assert (load.arrival, load.concurrency, load.warmup_count) == ("constant:200", 4, 2)
    assert (load.ok_count, load.failed_count) == (8, 0)
    assert load.server["url"] == server.url
    ends, sent = ([request[key] for request in run.requests] for key in ("end_ns", "sent_ns"))
    interval_ns = max(ends) - min(sent)
    assert interval_ns <= load.wall_ns
    assert run.manifest.tokens_per_s_mean == pytest.approx(8 * 6 * 1e9 / interval_ns)
    # The same as the analysis says.
    assert run.manifest.repeats[0].wall_ns == interval_ns
    assert run.manifest.seed == 3
    assert run.manifest.sequence_length == 16
    arrivals = [request["arrival_ns"] for request in run.requests]
    assert arrivals[0] >= 0
    assert [arrival - arrivals[0] for arrival in arrivals] == [
        index * 5_000_000 for index in range(8)
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_events_that_are_cut_anywhere_are_read(engine: str, stand_in: Servers, serve: Run) -> None:
    run = serve(stand_in(engine, behavior=["split"]), no_profile=True)
    assert {request["outcome"] for request in run.requests} == {"ok"}
    assert {len(request["token_ns"]) for request in run.requests} == {6}


def test_lightllm_gets_ids_and_greedy_parameters(stand_in: Servers, serve: Run) -> None:
    server = stand_in("lightllm")
    run = serve(server, no_profile=True)
    body = server.seen()["bodies"][0]
    assert len(body["inputs"]) == 16
    assert all(isinstance(token, int) for token in body["inputs"])
    assert body["parameters"] == {"max_new_tokens": 6, "do_sample": False, "ignore_eos": True}
    assert run.load.prompt_source == "token_ids"
    assert run.manifest.model.name == "stand-in-7b"
    assert run.manifest.precision == "bf16"
    assert run.load.server["hf_token"] == "(not kept)"


def test_vllm_counts_tokens_that_come_several_at_once(stand_in: Servers, serve: Run) -> None:
    run = serve(stand_in("vllm", tokens_per_event=4), no_profile=True)
    for request in run.requests:
        assert request["token_counts"] == [4, 2]
        assert len(request["token_ns"]) == 2
        assert request["output_token_count"] == 6
        assert request["engine_request_id"] == "cmpl-1"


def test_sglang_keeps_no_secret_and_no_momentary_state(stand_in: Servers, serve: Run) -> None:
    run = serve(stand_in("sglang"), no_profile=True)
    assert run.load.server["api_key"] == "(not kept)"
    assert "internal_states" not in run.load.server
    assert "very-secret" not in (run.folder / "run.json").read_text()
    assert run.manifest.attention_backend == "flashinfer"


def test_tgi_prompts_are_text_as_long_as_asked(stand_in: Servers, serve: Run) -> None:
    """Its words count one and a half tokens: asked and corrected until the number is right."""
    server = stand_in("tgi", extra_prompt_tokens=1)
    run = serve(server, no_profile=True, prompt_len=40)
    assert run.load.prompt_source == "usage"
    assert {request["prompt_token_count"] for request in run.requests} == {40}
    assert {request["prompt_source"] for request in run.requests} == {"usage"}
    assert run.notes == []
    texts = [body["inputs"] for body in server.seen()["bodies"]]
    assert all(isinstance(text, str) for text in texts)


def test_a_length_that_words_cannot_give_is_noted(stand_in: Servers, serve: Run) -> None:
    run = serve(stand_in("tgi"), no_profile=True, prompt_len=38)
    assert {request["prompt_token_count"] for request in run.requests} <= {37, 39}
    (note,) = run.notes
    assert note.endswith("tokens instead of 38, which no number of words gives")


def test_openai_falls_back_to_text(stand_in: Servers, serve: Run) -> None:
    """Ids are in the API; a server that refuses them gets words."""
    server = stand_in("openai")
    run = serve(server, no_profile=True)
    assert run.load.prompt_source == "usage"
    assert server.seen()["calls"][:3] == [
        "GET /v1/models",
        "GET /v1/models",
        "POST /v1/completions",
    ]
    assert isinstance(server.seen()["bodies"][0]["prompt"], list)
    assert isinstance(server.seen()["bodies"][1]["prompt"], str)
    assert run.load.profile_note == "no profile: --no-profile"


def test_openai_uses_ids_where_they_are_taken(stand_in: Servers, serve: Run) -> None:
    server = stand_in("vllm")
    run = serve(server, engine="openai")
    assert run.load.prompt_source == "token_ids"
    assert run.load.profile_note.startswith("no profile: the OpenAI API has none")
    assert run.manifest.traces == []


def test_a_prompt_that_the_engine_counts_otherwise_is_noted(stand_in: Servers, serve: Run) -> None:
    run = serve(stand_in("vllm", extra_prompt_tokens=1), no_profile=True)
    assert {request["prompt_token_count"] for request in run.requests} == {17}
    assert {request["prompt_source"] for request in run.requests} == {"usage"}
    assert run.notes == ["the engine counts 17 to 17 tokens in prompts of 16 ids"]


def test_answers_that_end_early_are_noted(stand_in: Servers, serve: Run) -> None:
    run = serve(stand_in("vllm", stop_after_tokens=4), no_profile=True)
    assert {request["output_token_count"] for request in run.requests} == {4}
    assert run.notes == [
        "8 of 8 answers have fewer tokens than asked for, 4 at least: the model ended them"
    ]


def test_members_can_be_added_to_the_request(stand_in: Servers, serve: Run) -> None:
    server = stand_in("vllm")
    serve(server, no_profile=True, request_body='{"min_tokens": 6}', vocab_size=600)
    body = server.seen()["bodies"][0]
    assert body["min_tokens"] == 6
    assert max(body["prompt"]) < 600


def test_warm_up_load_and_profile_have_different_prompts(stand_in: Servers, serve: Run) -> None:
    """A server that caches prefixes must not know what it is profiled with."""
    server = stand_in("lightllm")
    serve(server, requests=1, warmup_requests=1, no_profile=True)
    first, second = (body["inputs"] for body in server.seen()["bodies"][:2])
    assert first != second
