"""A server that is lost under the load: what was answered is kept, and said to be a part."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _stand_in_command import stand_in_command
from processes import wait_for

import tracekit
from tracekit import manifest
from tracekit.errors import WorkloadError

Run = Callable[..., Any]


@pytest.fixture
def attached(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return a function that starts a server that is not ours to end, and returns its URL."""
    started: list[subprocess.Popen[bytes]] = []

    def start(**quirks: Any) -> str:
        words, url = stand_in_command(tmp_path, **quirks)
        started.append(subprocess.Popen(words))
        wait_for((tmp_path / "port").exists)
        return url

    yield start
    for process in started:
        process.kill()
        process.wait()


def records(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "requests.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


ONE_BY_ONE = {"warmup_requests": 0, "concurrency": 1}


def test_a_server_of_ours_that_is_killed(serve: Run, tmp_path: Path) -> None:
    words, url = stand_in_command(tmp_path, behavior=["ok"] * 5 + ["die"])
    with pytest.raises(WorkloadError) as caught:
        serve(None, engine="lightllm", launch=shlex.join(words), url=url, **ONE_BY_ONE)
    folder = tmp_path / "run"
    run = manifest.read(folder)
    assert run.outcome == "incomplete"
    assert run.reason is not None
    assert run.reason.startswith(
        "the server ended with signal SIGKILL (its log is logs/server.log); the figures are of the "
        "5 of 8 requests (62 %) that were answered, within "
    )
    assert caught.value.message == f"{folder}: incomplete: {run.reason}"
    found = records(folder)
    outcomes = Counter(record["outcome"] for record in found)
    assert outcomes["ok"] == 5
    assert outcomes["cancelled"] + outcomes["broken_stream"] + outcomes["refused"] == 3
    assert len(found) == 8
    load = run.load
    assert load is not None
    assert (load.ok_count, load.failed_count, load.request_count) == (5, 3, 8)
    last_ns = max(record["end_ns"] for record in found if record["outcome"] == "ok")
    assert load.lost_ns is not None
    assert load.lost_ns >= last_ns
    with tracekit.open(folder, traces=False, cache=False) as trace:
        (row,) = trace.query("throughput").to_dicts()
        latency = trace.query("latency").to_dicts()
        (in_table,) = trace.sql("SELECT outcome, load_lost_ns FROM run").to_dicts()
    assert (row["outcome"], row["answered_pct"], row["left_out_count"]) == ("incomplete", 62.5, 3)
    assert {one["outcome"] for one in latency} == {"incomplete"}
    assert in_table == {"outcome": "incomplete", "load_lost_ns": load.lost_ns}


def test_it_ends_the_load_and_does_not_wait_for_requests_that_are_due_later(
    serve: Run, tmp_path: Path
) -> None:
    words, url = stand_in_command(tmp_path, behavior=["ok", "die"])
    with pytest.raises(WorkloadError):
        # The last request would be due in a quarter of an hour.
        serve(
            None,
            engine="lightllm",
            launch=shlex.join(words),
            url=url,
            warmup_requests=0,
            requests=1000,
            arrival="constant:1",
            no_profile=True,
        )
    reasons = Counter(record["reason"] for record in records(tmp_path / "run"))
    assert reasons["the server had ended before it was sent"] == 998


def test_a_server_that_is_not_ours(
    serve: Run, attached: Callable[..., str], tmp_path: Path
) -> None:
    url = attached(behavior=["ok"] * 5 + ["die"])
    with pytest.raises(WorkloadError, match="run: incomplete: the server was lost under the load"):
        serve(None, engine="lightllm", url=url, **ONE_BY_ONE)
    run = manifest.read(tmp_path / "run")
    assert run.reason is not None
    assert run.reason.startswith(
        "the server was lost under the load: Connection refused; the figures are of the 5 of 8 "
    )
    found = records(tmp_path / "run")
    assert [record["outcome"] for record in found[:5]] == ["ok"] * 5
    # Whether its socket was closed when the next one connected is chance.
    assert {record["outcome"] for record in found[5:]} <= {"broken_stream", "refused"}
    assert run.load is not None
    assert run.load.lost_ns == found[5]["end_ns"]


def test_a_server_that_is_lost_while_it_is_profiled(serve: Run, tmp_path: Path) -> None:
    words, url = stand_in_command(
        tmp_path, behavior=["ok"] * 9 + ["die"], profiling="torch_profiler", trace_dir="."
    )
    with pytest.raises(WorkloadError, match="incomplete"):
        serve(None, engine="lightllm", launch=shlex.join(words), url=url, **ONE_BY_ONE)
    run = manifest.read(tmp_path / "run")
    assert run.reason == (
        "the server ended with signal SIGKILL (its log is logs/server.log); the figures are of the "
        "whole load, what was to follow it is missing"
    )
    assert run.load is not None
    assert run.load.ok_count == 8
    assert run.traces == []


def test_a_server_that_answers_nothing_before_it_is_lost(serve: Run, tmp_path: Path) -> None:
    words, url = stand_in_command(tmp_path, behavior=["die"])
    with pytest.raises(WorkloadError, match="the server ended with signal SIGKILL"):
        serve(None, engine="lightllm", launch=shlex.join(words), url=url, **ONE_BY_ONE)
    run = manifest.read(tmp_path / "run")
    assert (run.outcome, run.tokens_per_s_mean) == ("failed", None)
    assert "; no request was answered: " in str(run.reason)


def test_the_command_line_says_so_and_exits_with_6(tmp_path: Path) -> None:
    words, url = stand_in_command(tmp_path, behavior=["ok"] * 3 + ["die"])
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tracekit", "collect", "--stage", "serve"),
            *("--engine", "lightllm", "--launch", shlex.join(words), "--url", url),
            *("--requests", "4", "--prompt-len", "8", "--max-new-tokens", "4"),
            *("--warmup-requests", "0", "--concurrency", "1", "--out", str(tmp_path / "run")),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 6
    assert done.stdout == ""
    assert "3 of 4 requests answered" in done.stderr
    assert "\nlatency: p50 " in done.stderr
    assert f"error: {tmp_path / 'run'}: incomplete: the server ended with signal" in done.stderr
    assert "Traceback" not in done.stderr


def test_openai_needs_no_list_of_models_where_the_model_is_named(
    stand_in: Callable[..., Any], serve: Run
) -> None:
    server = stand_in("openai", has_models=False)
    run = serve(server, served_model="mine", no_profile=True)
    assert run.manifest.outcome == "ok"
    assert run.manifest.model.name == "mine"
    assert server.seen()["bodies"][0]["model"] == "mine"


def test_without_a_name_the_hint_tells_of_it(stand_in: Callable[..., Any], serve: Run) -> None:
    with pytest.raises(WorkloadError) as caught:
        serve(stand_in("openai", has_models=False), startup_timeout=0.3)
    assert "it answers 404" in caught.value.message
    assert caught.value.hint is not None
    assert "--served-model" in caught.value.hint


def test_a_server_that_went_and_came_back(stand_in: Callable[..., Any]) -> None:
    """Requests that found no server are a part of the load that was never served."""
    from tracekit.collectors.serving.engines.lightllm import create
    from tracekit.collectors.serving.plan import LoadResult
    from tracekit.collectors.serving.records import RequestRecord
    from tracekit.redaction import Redactor

    engine = create({"url": stand_in("lightllm").url}, Redactor([]))
    answered = RequestRecord(0, outcome="ok", end_ns=5)
    refused = [RequestRecord(n, outcome="refused", end_ns=10 + n) for n in (1, 2)]
    result = LoadResult([answered, *refused], 0, 20)
    assert engine._loss(result) == "2 requests found no server, which answers again"
    assert result.lost_ns == 11
    # One whose connection broke, or that was too slow, was served by a server that is there.
    others = [
        RequestRecord(3, outcome="broken_stream", end_ns=5),
        RequestRecord(4, outcome="timeout"),
    ]
    assert engine._loss(LoadResult([answered, *others], 0, 20)) is None
