"""The profile of a server: its window, and late, partial, or missing traces."""

import asyncio
import gzip
import json
import os
import signal
import threading
import time

import pytest
from trace_files import read_trace

import tracekit
from tracekit.collectors.serving.engine import EngineFacts
from tracekit.collectors.serving.engines.lightllm import NVTX_NOTE, OFF_NOTE, LightLlm
from tracekit.collectors.serving.engines.sglang import Sglang
from tracekit.collectors.serving.engines.vllm import Vllm
from tracekit.collectors.serving.http.client import HttpClient
from tracekit.collectors.serving.http.generator import LoadGenerator
from tracekit.collectors.serving.http.trace_pickup import TraceFolder, is_complete
from tracekit.collectors.serving.plan import LoadPlan, Mark, ProfilePlan, Prompt
from tracekit.redaction import Redactor


def test_lightllm_traces_that_appear_late_and_grow_are_waited_for(stand_in, serve, tmp_path):
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
        assert read_trace(run.folder / f"rank{rank}.json.gz")["distributedInfo"]["rank"] == rank
    calls = server.seen()["calls"]
    assert calls.index("GET /profiler_start") < calls.index("GET /profiler_stop")
    # Copied traces remain where the server wrote them.
    assert len(list(traces.iterdir())) == 3
    assert (run.manifest.parallel.tensor_size, run.manifest.parallel.world_size) == (2, 2)


def test_the_load_is_sent_again_for_the_profile(stand_in, serve, tmp_path):
    """The measured load runs without the profiler; a short load is profiled completely."""
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


def test_the_window_is_at_the_requested_position(stand_in, serve, tmp_path):
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


@pytest.mark.parametrize(
    ("engine", "quirks", "values", "note", "is_started"),
    [
        ("lightllm", {}, {}, OFF_NOTE, False),
        ("lightllm", {"profiling": "nvtx"}, {}, NVTX_NOTE, True),
        ("lightllm", {"profiling": "torch_profiler"}, {}, "--trace-dir", False),
        (
            "lightllm",
            {"profiling": "torch_profiler", "trace_dir": "there"},
            {"trace_dir": ".", "trace_timeout": 0.5},
            "0.5 s",
            True,
        ),
        (
            "lightllm",
            {"profiling": "torch_profiler", "trace_dir": "there"},
            {"trace_dir": ".", "profile_after": "3600s"},
            "3600 s",
            False,
        ),
        ("vllm", {}, {"trace_dir": "."}, "--profiler-config", False),
        ("tgi", {}, {}, "no profile", False),
    ],
)
def test_a_missing_profile_is_noted(
    engine, quirks, values, note, is_started, stand_in, serve, tmp_path
):
    place = {"trace_dir": str(tmp_path / "there")} if "trace_dir" in quirks else {}
    server = stand_in(engine, **(quirks | place))
    run = serve(server, **values)
    assert (run.manifest.outcome, run.load.ok_count, run.manifest.traces) == ("ok", 8, [])
    assert note in run.load.profile_note
    assert f"note: {run.load.profile_note}" in run.lines
    assert (run.load.window_start_ns is not None) == is_started
    calls = server.seen()["calls"]
    assert ("GET /profiler_stop" in calls) == is_started
    if not quirks:
        assert not [one for one in run.all_requests if one["is_profiled"]]


def test_a_refused_start_is_noted(stand_in, serve, tmp_path, monkeypatch):
    """If LightLLM does not report its arguments, only a 400 says that profiling is off."""
    monkeypatch.setattr(LightLlm, "facts", lambda *_: EngineFacts())
    server = stand_in("lightllm")
    run = serve(server, trace_dir=tmp_path)
    assert (run.load.profile_note, run.load.ok_count) == (OFF_NOTE, 8)
    assert "GET /profiler_start" in server.seen()["calls"]
    assert "GET /profiler_stop" not in server.seen()["calls"]


@pytest.mark.parametrize("after", [None, Mark(duration_ns=1)])
def test_a_profile_is_stopped_if_its_start_is_interrupted(after, stand_in):
    class Interrupted(HttpClient):
        async def ask(self, method, path, *more):
            if path == "/profiler_start":
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(3600)
            return await super().ask(method, path, *more)

    server = stand_in("lightllm", profiling="torch_profiler", token_gap_s=0.1)
    prompts = [Prompt(2, [5, 6])] * 3
    profile = ProfilePlan(after=after)
    plan = LoadPlan(prompts, [0] * 3, 4, profile_prompts=prompts, profile=profile)
    client, start = Interrupted(server.url), LightLlm.start_profile
    result = LoadGenerator(LightLlm(), client, plan, lambda _: None, start_call=start).run()
    assert result.interrupted
    assert "GET /profiler_stop" in server.seen()["calls"]


def test_an_interrupted_load_leaves_no_connection_open(stand_in):
    opened = []

    class Slow(HttpClient):
        count = 0

        async def connect(self):
            self.count += 1
            if self.count == 3:
                while len(opened) < 2:
                    await asyncio.sleep(0.001)
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(3600)
            opened.append(await super().connect())
            return opened[-1]

    plan = LoadPlan([Prompt(2, [5, 6])] * 3, [0] * 3, 4)
    result = LoadGenerator(LightLlm(), Slow(stand_in("lightllm").url), plan, lambda _: None).run()
    assert result.interrupted
    assert [one.is_open for one in opened] == [False] * 2


def test_an_incomplete_trace_is_not_copied(stand_in, serve, tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    whole = gzip.compress(b'{"traceEvents": []}')

    def write_half():
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


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_traces_of_other_engines(engine, stand_in, serve, tmp_path):
    """The front end of vLLM writes a trace of its own; SGLang receives the folder."""
    place = {} if engine == "sglang" else {"trace_dir": tmp_path / "traces"}
    quirks = {"profiling": "torch", "trace_dir": str(tmp_path / "traces")} if place else {}
    server = stand_in(engine, trace_count=2, **quirks)
    run = serve(server, **place)
    assert run.manifest.traces == ["rank0.json.gz", "rank1.json.gz"]
    assert read_trace(run.folder / "rank1.json.gz")["distributedInfo"]["rank"] == 1
    assert "POST /start_profile" in server.seen()["calls"]
    assert sorted(path.name for path in run.folder.iterdir()) == [
        "logs", "rank0.json.gz", "rank1.json.gz", "requests.jsonl", "run.json",
    ]  # fmt: skip


TRACE = json.dumps({"traceEvents": [{"name": f"op {index}"} for index in range(500)]}).encode()


def test_a_compressed_trace_is_complete_or_not(tmp_path):
    path = tmp_path / "t.json.gz"
    data = gzip.compress(TRACE)
    members = gzip.compress(TRACE[:100]) + gzip.compress(TRACE[100:])
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 0xFF
    sizes = (0, 1, 10, len(data) // 2, len(data) - 8, len(data) - 1)
    for bad in (*(data[:size] for size in sizes), members[:-5], damaged):
        path.write_bytes(bad)
        assert not is_complete(path)
    for good in (data, members):
        path.write_bytes(good)
        assert is_complete(path)
    assert not is_complete(tmp_path / "absent.json.gz")


def test_plain_traces_are_compressed_on_the_way(tmp_path):
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    target.mkdir()
    folder = TraceFolder(source, "*.json*", Vllm().trace_order, Redactor([]))
    (source / "rank0.1.pt.trace.json").write_bytes(TRACE)
    assert folder.collect(target, None, 5, lambda: None) == (["rank0.json.gz"], None)
    assert gzip.decompress((target / "rank0.json.gz").read_bytes()) == TRACE
    absent = TraceFolder(tmp_path / "no", "*.json*", Vllm().trace_order, Redactor([]))
    traces, note = absent.collect(target, 1, 0.1, lambda: None)
    assert (traces, f"{tmp_path}/no" in str(note)) == ([], True)


OF_LIGHTLLM = "lightllm-model_backend-node{}.1.pt.trace.json.gz"


@pytest.mark.parametrize(
    ("dialect", "names", "other"),
    [
        (
            LightLlm(),
            [OF_LIGHTLLM.format(at) for at in ("0_dev2_tid9", "0_dev10_tid8", "1_dev0_tid7")],
            "other.pt.trace.json.gz",
        ),
        (
            Vllm(),
            ["dp0_tp0_ep0_rank2.1.pt.trace.json.gz", "dp0_tp1_ep1_rank10.1.pt.trace.json.gz"],
            "host_1.async_llm.5.pt.trace.json.gz",
        ),
        (Vllm(), ["host_99.1.pt.trace.json.gz", "host_100.1.pt.trace.json.gz"], "1.async_llm.gz"),
        (
            Sglang(),
            ["17.5-TP-3-PP-0.trace.json.gz", "17.5-TP-0-PP-1.trace.json.gz"],
            "memory.json",
        ),
    ],
)
def test_traces_are_in_the_order_of_their_ranks(dialect, names, other):
    found = names[::-1]
    found.sort(key=lambda name: dialect.trace_order(name) or ())
    assert found == names
    assert dialect.trace_order(other) is None
