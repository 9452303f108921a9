"""The profile of a server: its window, and traces that come late, in parts, or not at all."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tracekit.collectors.serving.engines.lightllm import NVTX_NOTE, OFF_NOTE

Run = Callable[..., Any]
Servers = Callable[..., Any]


def trace_of(folder: Path, rank: int) -> Any:
    with gzip.open(folder / f"rank{rank}.json.gz") as file:
        return json.load(file)


def test_lightllm_traces_that_appear_late_and_grow_are_waited_for(
    stand_in: Servers, serve: Run, tmp_path: Path
) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    old = traces / "lightllm-model_backend-node0_dev0_tid1.1.pt.trace.json.gz"
    old.write_bytes(gzip.compress(b'{"traceEvents": [], "of": "an earlier run"}'))
    server = stand_in(
        "lightllm",
        profiling="torch_profiler",
        trace_dir=str(traces),
        trace_count=2,
        trace_delay_s=0.3,
        trace_grow_s=0.6,
    )
    run = serve(server, trace_dir=traces)
    assert run.manifest.traces == ["rank0.json.gz", "rank1.json.gz"]
    assert run.load.profile_note is None
    for rank in (0, 1):
        assert trace_of(run.folder, rank)["distributedInfo"]["rank"] == rank
    calls = server.seen()["calls"]
    assert calls.index("GET /profiler_start") < calls.index("GET /profiler_stop")
    # What was picked up stays where the server wrote it.
    assert len(list(traces.iterdir())) == 3
    assert (run.manifest.parallel.tensor_size, run.manifest.parallel.world_size) == (2, 2)


def test_the_load_is_sent_again_for_the_profile(
    stand_in: Servers, serve: Run, tmp_path: Path
) -> None:
    """What is measured runs without the profiler; a short load is profiled completely."""
    server = stand_in("lightllm", profiling="torch_profiler", trace_dir=str(tmp_path / "t"))
    run = serve(server, trace_dir=tmp_path / "t")
    profiled = [request for request in run.all_requests if request["is_profiled"]]
    assert [request["request_id"] for request in profiled] == list(range(10, 18))
    assert {request["outcome"] for request in profiled} == {"ok"}
    calls = [call for call in server.seen()["calls"] if call != "GET /health"]
    assert calls.index("GET /profiler_start") == 1 + 2 + 8  # server info, warm-up, load
    load = run.load
    assert load.wall_ns < load.window_start_ns < load.window_end_ns
    assert load.window_start_ns <= min(request["arrival_ns"] for request in profiled)
    assert max(request["end_ns"] for request in profiled) <= load.window_end_ns
    with tracekit.open(run.folder) as trace:
        assert trace.sql("SELECT count(*) AS n FROM event").to_dicts() == [{"n": 200}]


def test_the_window_is_where_it_was_asked_for(
    stand_in: Servers, serve: Run, tmp_path: Path
) -> None:
    """It begins after the 4th finished request and lasts for 4 more; then the load ends."""
    server = stand_in(
        "lightllm", profiling="torch_profiler", trace_dir=str(tmp_path / "t"), token_gap_s=0.02
    )
    run = serve(
        server, trace_dir=tmp_path / "t", requests=24, concurrency=2, profile_after="4",
        profile_for="4",
    )  # fmt: skip
    profiled = [request for request in run.all_requests if request["is_profiled"]]
    assert 8 <= len(profiled) <= 12
    before = [r for r in profiled if r["end_ns"] <= run.load.window_start_ns]
    inside = [
        r for r in profiled if run.load.window_start_ns < r["end_ns"] <= run.load.window_end_ns
    ]
    assert 4 <= len(before) <= 6
    assert 4 <= len(inside) <= 6
    assert run.load.ok_count == 24


def test_a_window_that_never_comes_is_noted(stand_in: Servers, serve: Run, tmp_path: Path) -> None:
    server = stand_in("lightllm", profiling="torch_profiler", trace_dir=str(tmp_path / "t"))
    run = serve(server, trace_dir=tmp_path / "t", profile_after="3600s")
    assert "3600 s" in run.load.profile_note
    assert run.load.window_start_ns is None
    assert "GET /profiler_start" not in server.seen()["calls"]


def test_lightllm_without_profiling_says_how_to_get_one(stand_in: Servers, serve: Run) -> None:
    server = stand_in("lightllm")
    run = serve(server)
    assert run.manifest.outcome == "ok"
    assert run.load.profile_note == OFF_NOTE
    assert f"note: {OFF_NOTE}" in run.lines
    assert run.load.ok_count == 8
    assert not [request for request in run.all_requests if request["is_profiled"]]


def test_a_refused_start_is_a_note_and_not_a_failure(
    stand_in: Servers, serve: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If LightLLM does not report its arguments, only a 400 says that profiling is off."""
    from tracekit.collectors.serving.engine import EngineFacts
    from tracekit.collectors.serving.engines.lightllm import LightLlm

    monkeypatch.setattr(LightLlm, "facts", lambda *_: EngineFacts())
    server = stand_in("lightllm")
    run = serve(server, trace_dir=tmp_path)
    assert run.load.profile_note == OFF_NOTE
    assert "GET /profiler_start" in server.seen()["calls"]
    assert "GET /profiler_stop" not in server.seen()["calls"]
    assert run.load.ok_count == 8


def test_lightllm_nvtx_mode_is_recorded(stand_in: Servers, serve: Run) -> None:
    server = stand_in("lightllm", profiling="nvtx")
    run = serve(server)
    assert run.load.profile_note == NVTX_NOTE
    assert run.load.server["enable_profiling"] == "nvtx"
    assert run.load.window_start_ns is not None
    assert run.load.window_end_ns is not None
    assert run.manifest.traces == []
    assert "GET /profiler_stop" in server.seen()["calls"]


def test_without_a_trace_folder_there_is_no_profile(stand_in: Servers, serve: Run) -> None:
    server = stand_in("lightllm", profiling="torch_profiler")
    run = serve(server)
    assert "--trace-dir" in run.load.profile_note
    assert "GET /profiler_start" not in server.seen()["calls"]


def test_a_trace_that_does_not_come_is_noted(stand_in: Servers, serve: Run, tmp_path: Path) -> None:
    server = stand_in("lightllm", profiling="torch_profiler", trace_dir=str(tmp_path / "there"))
    here = tmp_path / "here"
    here.mkdir()
    run = serve(server, trace_dir=here, trace_timeout=0.5)
    assert str(here) in run.load.profile_note
    assert run.manifest.traces == []
    assert run.manifest.outcome == "ok"


def test_a_trace_that_is_never_complete_is_not_taken(
    stand_in: Servers, serve: Run, tmp_path: Path
) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    whole = gzip.compress(b'{"traceEvents": []}')

    def write_half() -> None:
        time.sleep(0.3)
        path = traces / "lightllm-model_backend-node0_dev1_tid1.9.pt.trace.json.gz"
        path.write_bytes(whole[:-3])

    server = stand_in("lightllm", profiling="torch_profiler", trace_dir=str(traces), trace_count=1)
    writer = threading.Thread(target=write_half)
    writer.start()
    run = serve(server, trace_dir=traces, trace_timeout=2)
    writer.join()
    assert run.manifest.traces == ["rank0.json.gz"]
    assert "of 2 traces" in run.load.profile_note


def test_vllm_traces_without_that_of_the_front_end(
    stand_in: Servers, serve: Run, tmp_path: Path
) -> None:
    traces = tmp_path / "traces"
    server = stand_in("vllm", profiling="torch", trace_dir=str(traces), trace_count=2)
    run = serve(server, trace_dir=traces)
    assert run.manifest.traces == ["rank0.json.gz", "rank1.json.gz"]
    assert trace_of(run.folder, 1)["distributedInfo"]["rank"] == 1
    assert len(list(traces.iterdir())) == 3
    assert "POST /start_profile" in server.seen()["calls"]


def test_vllm_without_a_profiler_says_so(stand_in: Servers, serve: Run, tmp_path: Path) -> None:
    run = serve(stand_in("vllm"), trace_dir=tmp_path)
    assert "--profiler-config" in run.load.profile_note
    assert run.load.ok_count == 8


def test_sglang_is_told_where_to_write(stand_in: Servers, serve: Run) -> None:
    run = serve(stand_in("sglang", trace_count=2))
    assert run.manifest.traces == ["rank0.json.gz", "rank1.json.gz"]
    assert trace_of(run.folder, 1)["distributedInfo"]["rank"] == 1
    assert sorted(path.name for path in run.folder.iterdir()) == [
        "logs", "rank0.json.gz", "rank1.json.gz", "requests.jsonl", "run.json",
    ]  # fmt: skip


def test_tgi_offers_no_profile(stand_in: Servers, serve: Run) -> None:
    assert serve(stand_in("tgi")).load.profile_note.startswith("no profile")
