"""Each request ends with a recorded outcome, and a lost server leaves an incomplete run."""

import resource
import shlex
import subprocess
from collections import Counter

import pytest
from processes import wait_for

import tracekit
from tracekit.collectors.serving.engines.lightllm import LightLlm, create
from tracekit.collectors.serving.http.client import HttpClient
from tracekit.collectors.serving.http.engine import raise_file_limit
from tracekit.collectors.serving.http.generator import LoadGenerator
from tracekit.collectors.serving.plan import LoadPlan, LoadResult, Prompt
from tracekit.collectors.serving.records import RequestRecord
from tracekit.errors import UsageError, WorkloadError
from tracekit.redaction import Redactor

UNUSED_URL = "http://127.0.0.1:9"
ONE_BY_ONE = {"warmup_requests": 0, "concurrency": 1}


def test_half_of_the_requests_fail_and_all_are_recorded(stand_in, serve):
    server = stand_in("lightllm", behavior=["ok", "503", "reset", "ok", "reset", "ok"])
    run = serve(server, requests=60, warmup_requests=0, no_profile=True, error="incomplete")
    outcomes = Counter(request["outcome"] for request in run.requests)
    assert outcomes == {"ok": 30, "http_error": 10, "broken_stream": 20}
    assert run.manifest.outcome == "incomplete"
    assert (run.load.ok_count, run.load.failed_count) == (30, 30)
    for request in run.requests:
        assert request["end_ns"] >= request["sent_ns"]
        if request["outcome"] == "broken_stream":
            assert len(request["token_ns"]) == request["output_token_count"] == 3
    assert run.lines[2].startswith("failed: 20 broken_stream, 10 http_error")
    assert run.lines[3] == "figures of run"


@pytest.mark.parametrize(
    ("behavior", "outcome", "attempt_count", "least_ns"),
    [
        # Latency counts from the last attempt; Retry-After is obeyed.
        (["503", "reset", "ok"], "ok", 3, 100_000_000),
        (["429", "ok"], "ok", 2, 500_000_000),
        # This request would fail again.
        (["404", "ok"], "http_error", 1, 0),
    ],
)
def test_failed_requests_are_retried(behavior, outcome, attempt_count, least_ns, stand_in, serve):
    server = stand_in("lightllm", behavior=behavior, retry_after="1" if "429" in behavior else None)
    error = None if outcome == "ok" else outcome
    run = serve(server, requests=1, warmup_requests=0, retries=2, no_profile=True, error=error)
    (request,) = run.all_requests
    assert (request["outcome"], request["attempt_count"]) == (outcome, attempt_count)
    assert server.seen()["count"] == attempt_count
    assert request["sent_ns"] >= least_ns
    assert len(request["token_ns"]) == (6 if outcome == "ok" else 0)
    assert (request["reason"] is None) == (outcome == "ok")
    assert run.load.retry_count == 2


def test_a_run_without_an_answer_fails(stand_in, serve):
    run = serve(stand_in("lightllm", behavior=["503"]), no_profile=True, error="8 http_error")
    made = run.manifest
    assert (made.outcome, made.tokens_per_s_mean) == ("failed", None)
    assert "8 http_error" in str(made.reason)
    assert str(made.reason) in run.error.message
    assert str(run.folder / "requests.jsonl") in str(run.error.hint)
    assert [one["outcome"] for one in run.all_requests] == ["http_error"] * 10


def test_a_missing_server(serve, tmp_path):
    run = serve(
        None, engine="lightllm", url=UNUSED_URL, startup_timeout=0.3, error=f"^{UNUSED_URL}: "
    )
    assert "--launch" in str(run.error.hint)
    assert list(tmp_path.iterdir()) == []


def test_refused_connections_are_recorded():
    plan = LoadPlan([Prompt(2, [5, 6])] * 3, [0, 0, 0], 4, retry_count=1)
    result = LoadGenerator(LightLlm(), HttpClient(UNUSED_URL), plan, lambda _: None).run()
    assert [record.outcome for record in result.records] == ["refused"] * 3
    assert [record.attempt_count for record in result.records] == [2, 2, 2]
    assert {record.reason for record in result.records} == {"Connection refused"}
    assert all(record.sent_ns is not None for record in result.records)


def test_a_request_longer_than_the_engine_takes_is_refused(stand_in, serve):
    with pytest.raises(UsageError, match="2048"):
        serve(stand_in("vllm"), prompt_len=2040, max_new_tokens=9)


@pytest.fixture
def few_open_files():
    """Set the limit of open files below the number of requests, as on most systems."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_open_files")
@pytest.mark.nightly("a load of a thousand requests")
def test_a_thousand_requests_at_once(stand_in, serve):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1200:
        pytest.skip("the system allows too few open files")
    # The gap keeps every answer under way until all requests have arrived.
    server = stand_in("lightllm", token_gap_s=1.0, behavior=[*["ok"] * 9, "reset"])
    load = {"requests": 1000, "prompt_len": 512, "max_new_tokens": 4, "no_profile": True}
    run = serve(server, **load, error="incomplete")
    assert server.seen()["most_in_flight"] == 1000
    outcomes = Counter(request["outcome"] for request in run.requests)
    assert outcomes == {"ok": 900, "broken_stream": 100}
    assert [request["request_id"] for request in run.requests] == list(range(1000))
    assert {len(r["token_ns"]) for r in run.requests if r["outcome"] == "ok"} == {4}
    client = run.manifest.extra["client"]
    assert set(client) == {"cpu_pct", "loop_lag_p99_ns", "loop_lag_max_ns"}


def test_more_connections_than_the_system_allows(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 256))
    with pytest.raises(WorkloadError, match="1128") as caught:
        raise_file_limit(1000)
    assert "--concurrency" in str(caught.value.hint)


@pytest.mark.parametrize("is_launched", [True, False])
def test_a_server_that_is_killed(is_launched, serve, stand_in_command, tmp_path):
    words, url = stand_in_command(behavior=["ok"] * 5 + ["die"])
    values = {"engine": "lightllm", "url": url, **ONE_BY_ONE}
    if is_launched:
        run = serve(None, launch=shlex.join(words), **values, error="incomplete")
        assert "SIGKILL" in str(run.manifest.reason)
    else:
        with subprocess.Popen(words) as process:
            wait_for((tmp_path / "port").exists, 300)
            run = serve(None, **values, error="incomplete")
            process.kill()
    outcomes = [record["outcome"] for record in run.all_requests]
    assert outcomes[:5] == ["ok"] * 5
    # The next connection may or may not find the socket closed.
    assert set(outcomes[5:]) <= {"broken_stream", "refused", *(["cancelled"] * is_launched)}
    load = run.load
    assert (load.ok_count, load.failed_count, load.request_count) == (5, 3, 8)
    assert load.lost_ns >= max(record["end_ns"] for record in run.all_requests[:5])
    assert is_launched or load.lost_ns == run.all_requests[5]["end_ns"]
    with tracekit.open(run.folder, traces=False, cache=False) as trace:
        (row,) = trace.query("throughput").to_dicts()
        latency = trace.query("latency").to_dicts()
        (in_table,) = trace.sql("SELECT outcome, load_lost_ns FROM run").to_dicts()
    assert (row["outcome"], row["answered_pct"], row["left_out_count"]) == ("incomplete", 62.5, 3)
    assert {one["outcome"] for one in latency} == {"incomplete"}
    assert in_table == {"outcome": "incomplete", "load_lost_ns": load.lost_ns}


def test_requests_that_are_due_later_are_not_waited_for(serve, stand_in_command):
    words, url = stand_in_command(behavior=["ok", "die"])
    # The last request would be due in a quarter of an hour.
    load = {"warmup_requests": 0, "requests": 1000, "arrival": "constant:1", "no_profile": True}
    run = serve(
        None, engine="lightllm", launch=shlex.join(words), url=url, error="incomplete", **load
    )
    outcomes = Counter(record["outcome"] for record in run.all_requests)
    assert outcomes["cancelled"] >= 998


def test_a_server_that_is_lost_while_it_is_profiled(serve, stand_in_command):
    quirks = {"behavior": ["ok"] * 9 + ["die"], "profiling": "torch_profiler", "trace_dir": "."}
    words, url = stand_in_command(**quirks)
    launch = {"engine": "lightllm", "launch": shlex.join(words), "url": url}
    run = serve(None, **launch, **ONE_BY_ONE, error="incomplete")
    assert (run.manifest.outcome, run.load.ok_count, run.manifest.traces) == ("incomplete", 8, [])


def test_a_server_that_went_and_came_back(stand_in):
    """Refused requests are a part of the load that was never served."""
    engine = create({"url": stand_in("lightllm").url}, Redactor([]))
    answered = RequestRecord(0, outcome="ok", end_ns=5)
    refused = [RequestRecord(n, outcome="refused", end_ns=10 + n) for n in (1, 2)]
    result = LoadResult([answered, *refused], 0, 20)
    assert engine._loss(result) is not None
    assert result.lost_ns == 11
    # A broken connection or slow answer shows that the server is running.
    broken = RequestRecord(3, outcome="broken_stream", end_ns=5)
    slow = RequestRecord(4, outcome="timeout")
    assert engine._loss(LoadResult([answered, broken, slow], 0, 20)) is None
