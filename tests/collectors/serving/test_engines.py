"""The protocol of each engine, against a stand-in that speaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tracekit.errors import WorkloadError

ENGINES = ("lightllm", "vllm", "sglang", "tgi", "openai")

Run = Callable[..., Any]
Servers = Callable[..., Any]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_load(engine: str, stand_in: Servers, serve: Run) -> None:
    """Every request is answered and every token timed; the manifest holds load and throughput."""
    server = stand_in(engine)
    run = serve(server, no_profile=True, arrival="constant:200", concurrency=4, seed=3)
    made, load = run.manifest, run.load
    assert (made.outcome, made.engine, made.seed, made.sequence_length) == ("ok", engine, 3, 16)
    assert (load.request_count, load.prompt_token_count, load.max_new_token_count) == (8, 16, 6)
    assert (load.arrival, load.concurrency, load.warmup_count) == ("constant:200", 4, 2)
    assert (load.ok_count, load.failed_count, load.server["url"]) == (8, 0, server.url)
    requests = run.all_requests
    assert [request["request_id"] for request in requests] == list(range(10))
    assert [request["is_warmup"] for request in requests] == 8 * [False] + 2 * [True]
    for request in run.requests:
        assert (request["outcome"], request["reason"], request["attempt_count"]) == ("ok", None, 1)
        assert request["output_token_count"] == len(request["token_ns"]) == 6
        assert request["token_counts"] is None
        times = [request["sent_ns"], request["first_token_ns"], *request["token_ns"]]
        assert times == sorted(times)
        assert request["first_token_ns"] == request["token_ns"][0]
        assert request["end_ns"] >= request["token_ns"][-1]
        assert 0 <= request["arrival_ns"] <= request["sent_ns"]
    for request in requests[8:]:
        assert request["arrival_ns"] <= request["sent_ns"] < request["end_ns"] < 0
    ends, sent = ([request[key] for request in run.requests] for key in ("end_ns", "sent_ns"))
    interval_ns = max(ends) - min(sent)
    assert made.repeats[0].wall_ns == interval_ns <= load.wall_ns
    assert made.tokens_per_s_mean == pytest.approx(8 * 6 * 1e9 / interval_ns)
    arrivals = [request["arrival_ns"] for request in run.requests]
    assert [arrival - arrivals[0] for arrival in arrivals] == [n * 5_000_000 for n in range(8)]


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
    assert "38" in note


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


def test_openai_uses_ids_where_they_are_taken(stand_in: Servers, serve: Run) -> None:
    server = stand_in("vllm")
    run = serve(server, engine="openai")
    assert run.load.prompt_source == "token_ids"
    assert run.load.profile_note.startswith("no profile")
    assert run.manifest.traces == []


def test_a_prompt_that_the_engine_counts_otherwise_is_noted(stand_in: Servers, serve: Run) -> None:
    run = serve(stand_in("vllm", extra_prompt_tokens=1), no_profile=True)
    assert {request["prompt_token_count"] for request in run.requests} == {17}
    assert {request["prompt_source"] for request in run.requests} == {"usage"}
    (note,) = run.notes
    assert "17 to 17" in note


def test_answers_that_end_early_are_noted(stand_in: Servers, serve: Run) -> None:
    run = serve(stand_in("vllm", stop_after_tokens=4), no_profile=True)
    assert {request["output_token_count"] for request in run.requests} == {4}
    (note,) = run.notes
    assert "8 of 8" in note


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


def test_openai_without_a_list_of_models_needs_the_name(stand_in: Servers, serve: Run) -> None:
    server = stand_in("openai", has_models=False)
    with pytest.raises(WorkloadError, match="404") as caught:
        serve(server, startup_timeout=0.3)
    assert "--served-model" in str(caught.value.hint)
    run = serve(server, served_model="mine", no_profile=True)
    assert (run.manifest.outcome, run.manifest.model.name) == ("ok", "mine")
    assert server.seen()["bodies"][0]["model"] == "mine"
