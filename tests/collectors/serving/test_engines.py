"""The protocol of each engine, against a stand-in that speaks it."""

import json
from contextlib import suppress

import pytest
from msgspec import to_builtins

from tracekit.collectors.serving.engines.lightllm import LightLlm
from tracekit.collectors.serving.engines.openai import OpenAi
from tracekit.collectors.serving.engines.sglang import Sglang
from tracekit.collectors.serving.engines.tgi import Tgi
from tracekit.collectors.serving.engines.vllm import Vllm
from tracekit.collectors.serving.http.dialect import an_answer

ENGINES = ("lightllm", "vllm", "sglang", "tgi", "openai")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_load(engine, stand_in, serve):
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


def test_lightllm_gets_ids_and_greedy_parameters(stand_in, serve):
    server = stand_in("lightllm")
    run = serve(server, no_profile=True)
    first, *_, last = bodies = server.seen()["bodies"]
    assert all(isinstance(token, int) for token in first["inputs"])
    assert [len(body["inputs"]) for body in bodies] == [16, 16, 16]
    # A server that caches prefixes must not know the prompts of the load from the warm-up.
    assert first["inputs"] != last["inputs"]
    assert first["parameters"] == {"max_new_tokens": 6, "do_sample": False, "ignore_eos": True}
    assert (run.load.prompt_source, run.manifest.model.name) == ("token_ids", "stand-in-7b")
    assert run.manifest.precision == "bf16"
    assert run.load.server["hf_token"] == "(redacted)"


def test_vllm_counts_tokens_that_come_several_at_once(stand_in, serve):
    server = stand_in("vllm", tokens_per_event=4)
    run = serve(server, no_profile=True, request_body='{"min_tokens": 6}', vocab_size=600)
    for request in run.requests:
        assert request["token_counts"] == [4, 2]
        assert len(request["token_ns"]) == 2
        assert request["output_token_count"] == 6
        assert request["engine_request_id"] == "cmpl-1"
    # Members that the user adds.
    body = server.seen()["bodies"][0]
    assert body["min_tokens"] == 6
    assert max(body["prompt"]) < 600


def test_sglang_keeps_no_secret_and_no_momentary_state(stand_in, serve):
    run = serve(stand_in("sglang"), no_profile=True)
    assert run.load.server["api_key"] == "(redacted)"
    assert "internal_states" not in run.load.server
    assert run.manifest.attention_backend == "flashinfer"


def test_tgi_prompts_have_the_requested_length(stand_in, serve):
    """Words count one and a half tokens: the client asks until the number is right."""
    server = stand_in("tgi", extra_prompt_tokens=1)
    run = serve(server, no_profile=True, prompt_len=40)
    assert (run.load.prompt_source, run.notes) == ("usage", [])
    assert {request["prompt_token_count"] for request in run.requests} == {40}
    assert {request["prompt_source"] for request in run.requests} == {"usage"}
    assert all(isinstance(body["inputs"], str) for body in server.seen()["bodies"])


@pytest.mark.parametrize(
    ("engine", "quirks", "length", "counts", "note"),
    [
        # No number of words has 38 tokens.
        ("tgi", {}, 38, {37, 39}, "38"),
        ("vllm", {"extra_prompt_tokens": 1}, 16, {17}, "17 to 17"),
        ("vllm", {"stop_after_tokens": 4}, 16, {16}, "8 of 8"),
    ],
)
def test_other_token_counts_are_noted(engine, quirks, length, counts, note, stand_in, serve):
    run = serve(stand_in(engine, **quirks), no_profile=True, prompt_len=length)
    assert {request["prompt_token_count"] for request in run.requests} <= counts
    wanted = quirks.get("stop_after_tokens", 6)
    assert {request["output_token_count"] for request in run.requests} == {wanted}
    (only_note,) = run.notes
    assert note in only_note


def test_openai_gets_ids_or_else_text(stand_in, serve):
    """The API accepts ids; a server that refuses them gets words."""
    server = stand_in("openai")
    assert serve(server, no_profile=True).load.prompt_source == "usage"
    seen = server.seen()
    assert seen["calls"][:3] == ["GET /v1/models", "GET /v1/models", "POST /v1/completions"]
    assert [type(body["prompt"]) for body in seen["bodies"][:2]] == [list, str]
    run = serve(stand_in("vllm"), engine="openai", force=True)
    assert run.load.prompt_source == "token_ids"
    assert run.load.profile_note.startswith("no profile")
    assert run.manifest.traces == []


def test_openai_without_a_list_of_models_needs_the_name(stand_in, serve):
    server = stand_in("openai", has_models=False)
    assert "--served-model" in str(serve(server, startup_timeout=0.3, error="404").error.hint)
    run = serve(server, served_model="mine", no_profile=True)
    assert (run.manifest.outcome, run.manifest.model.name) == ("ok", "mine")
    assert server.seen()["bodies"][0]["model"] == "mine"


# What no member should be: other types, impossible sizes, and texts that a terminal acts on.
ODD = (None, True, -1, 0, 1.5, "x", [], {}, [[]], {"a": 1}, 2**70, "9" * 5000, 1e308, "../" * 99)
ODD = (*ODD, "\ud800", "\x00\x1b[2J", "\u202e", -(2**70))
ANSWERS = {
    "/v1/models": {"data": [{"id": "m", "root": "/no/such", "max_model_len": 64}]},
    "/version": {"version": "1"},
    "/info": {"model_id": "m", "max_total_tokens": 64},
    "/get_server_info": {"model_dir": "m", "tp": 1, "nnodes": 1, "data_type": "bfloat16"},
    "/server_info": {"model_path": "m", "tp_size": 2, "nnodes": 1, "context_length": 64},
}
CHUNK = {"choices": [{"text": "x", "finish_reason": None}], "error": None, "id": "c"}
CHUNK |= {"usage": {"prompt_tokens": 4, "completion_tokens": 2}}
TOKEN = {"token": {"id": 7, "count_output_tokens": 2, "prompt_tokens": 8}, "finished": True}
TOKEN |= {"generated_text": "x", "details": {"input_length": 8, "generated_tokens": 2}}


def variants(value):
    """Yield the value with one of its parts replaced by something odd."""
    yield from ODD
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            for other in variants(part):
                copy = value.copy()
                copy[key] = other
                yield copy


def texts_in(value):
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return [text for part in value for text in texts_in(part)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("dialect", [LightLlm, OpenAi, Sglang, Tgi, Vllm])
def test_odd_members_are_omitted(dialect):
    for path, good in ANSWERS.items():
        for odd in variants(good):
            replies = {at: json.dumps(of).encode() for at, of in (ANSWERS | {path: odd}).items()}
            facts = dialect().facts(lambda at, replies=replies: an_answer(replies.get(at, b"null")))
            assert 1 <= facts.parallel.node_count <= 65_536
            assert 1 <= facts.parallel.world_size <= 65_536
            assert 1 <= (facts.max_token_count or 1) < 2**31
            assert all(map(str.isprintable, texts_in(json.loads(json.dumps(to_builtins(facts))))))
    for odd in [part for good in (CHUNK, TOKEN) for part in variants(good)]:
        with suppress(ValueError):
            event = dialect().read_event(json.dumps(odd).encode())
            assert all(map(str.isprintable, texts_in(to_builtins(event))))
            for count in (event.token_count, event.prompt_token_count, event.output_token_count):
                assert count is None or 0 <= count < 2**31


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 100_000, '{"a":' * 100_000, "[" * 900 + "]" * 900, "[" + "[]," * 100_000 + "1]"),
        *(
            "NaN",
            "[-Infinity, 1e999]",
            "9" * 5000,
            '{"\\u202e": "\\ud800"}',
            '"' + "é" * 9000 + '"',
        ),
    ],
    ids=range(9),
)
def test_odd_json_is_harmless(text):
    with suppress(ValueError):
        value = an_answer(text.encode())
        json.dumps(value, allow_nan=False)
        assert all(part.isprintable() and len(part) <= 4096 for part in texts_in(value))
    for dialect in (LightLlm, Tgi, Vllm):
        with pytest.raises(ValueError):  # noqa: PT011 - its text is the server's
            dialect().read_event(b'{"choices": ' + text.encode())
