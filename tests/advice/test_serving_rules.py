"""Advice about loads on serving engines, of which each step takes 10 ms and 2 for each request."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_result import CliResult
from traces_by_hand import call, kernel, span, work

import tracekit
from tracekit.prediction.advising import Advised

Tiny = Callable[..., Path]
MakeRun = Callable[..., Path]
MS = 1_000_000
PROMPT, ANSWER = 16, 8
_LOAD = {"request_count": 24, "prompt_token_count": PROMPT, "max_new_token_count": ANSWER}


def _load(limit: int, gap_ms: int, in_flight: int = 1_000, count: int = 24) -> list[dict[str, Any]]:
    """Return requests that come every so often, of which so many run in a step."""
    requests = [
        {
            "request_id": number, "outcome": "ok", "is_warmup": False, "is_profiled": False,
            "prompt_token_count": PROMPT, "prompt_source": "token_ids",
            "output_token_count": ANSWER, "arrival_ns": number * gap_ms * MS,
            "token_ns": [], "steps": [[0, 0]],
        }
        for number in range(count)
    ]  # fmt: skip
    now = step = done = sent = 0
    running: list[dict[str, Any]] = []
    queue: list[dict[str, Any]] = []
    while done < count:

        def due(sent: int, done: int, now: int) -> bool:
            return sent < count and sent - done < in_flight and requests[sent]["arrival_ns"] <= now

        if not running and not queue and not due(sent, done, now):
            now = requests[sent]["arrival_ns"]
        while due(sent, done, now):
            # The client sends once an answer is there, or when the request is wanted.
            requests[sent]["sent_ns"] = (
                now
                if sent - done == in_flight - 1 and sent >= in_flight
                else max(requests[sent]["arrival_ns"], 0)
            )
            queue.append(requests[sent])
            sent += 1
        step += 1
        while queue and len(running) < limit:
            running.append(queue.pop(0))
            running[-1]["steps"] = [[step, step + ANSWER - 1]]
        now += (10 + 2 * len(running)) * MS
        for one in running:
            one["token_ns"].append(now)
        for one in [each for each in running if len(each["token_ns"]) == ANSWER]:
            one |= {"first_token_ns": one["token_ns"][0], "end_ns": now}
            running.remove(one)
            done += 1
    return requests


def _advised(make_run: MakeRun, requests: list[dict[str, Any]], **load: Any) -> Advised:
    load = {"arrival": "constant:100"} | _LOAD | load
    engine = {"max_requests_per_batch": load.pop("limit", 1_000), "page_size": 16,
              "max_batch_tokens": 4096, "num_blocks": load.pop("blocks", 4096)}  # fmt: skip
    folder = make_run(
        str(load["arrival"]), requests, stage="serve", engine="transformers", load=load,
        extra={"engine": engine | {"scheduler_type": "fifo"}},
    )  # fmt: skip
    with tracekit.open(folder, cache=False) as trace:
        return trace.advise()


def test_a_batch_that_is_too_small(make_run: MakeRun) -> None:
    slow, quick = _load(2, 30), _load(4, 30)
    advised = _advised(make_run, slow, limit=2)
    first = advised.advice[0]
    assert first.candidate.rule == "advice_serving_queue"
    assert first.candidate.changes == ("batch limit=4",)
    assert (first.figure, advised.before_ns) == ("mean TTFT", 0)
    before, after = (
        sum(one["first_token_ns"] - one["arrival_ns"] for one in load) / len(load)
        for load in (slow, quick)
    )
    assert first.prediction.before_ns == pytest.approx(before)
    low, high = first.range_pct
    assert low <= 100 * (1 - after / before) <= high
    assert first.load is not None
    assert first.load.low["tpot_mean_ns"] <= 17 * MS <= first.load.high["tpot_mean_ns"]
    row = advised.as_result().to_dicts()[0]
    assert row["step_gain_ns"] is None
    assert row["brings"].startswith("mean TTFT 300.167 ms → ")


def test_a_client_that_holds_requests_back(make_run: MakeRun) -> None:
    load = _load(1_000, 20, in_flight=2)
    first = _advised(make_run, load, concurrency=2).advice[0]
    assert first.candidate.changes == ("batch limit=4",)
    assert first.candidate.place == "client, before requests are sent"
    # All at once, it is meant to.
    assert _advised(make_run, load, concurrency=2, arrival="burst").advice == ()


def test_a_load_that_is_served_at_once(make_run: MakeRun) -> None:
    assert _advised(make_run, _load(8, 200), limit=8) == Advised(0, 0, (), ())


def test_what_came_of_a_load(make_run: MakeRun, cli: Callable[..., CliResult]) -> None:
    loads = {"slow": (_load(2, 30), 2), "quick": (_load(4, 30), 4)}
    for name, (requests, limit) in loads.items():
        _advised(make_run, requests, limit=limit, arrival=name)
    folder = make_run("other").parent
    slow, quick = (folder / name for name in loads)
    told = cli("advise", slow).stdout
    assert f"verify after the change: tracekit advise {slow} --against CHANGED" in told
    assert "tracekit predict" not in told
    (row,) = cli("advise", slow, "--against", quick, "--format", "json").json()
    assert (row["figure"], row["change"]) == ("mean TTFT", "batch limit=4")
    before, after = (
        sum(one["first_token_ns"] - one["arrival_ns"] for one in requests)
        for requests, _ in loads.values()
    )
    assert row["measured_gain_pct"] == pytest.approx(100 * (1 - after / before))
    assert row["measured_low_pct"] <= row["measured_gain_pct"] <= row["measured_high_pct"]
    assert row["outcome"] == "holds"
    # The same again is no gain, and no noise either.
    same = cli("advise", slow, "--against", slow, "--format", "json")
    assert same.json()[0]["measured_gain_pct"] == pytest.approx(0)


def test_requests_that_name_no_steps(make_run: MakeRun, cli: Callable[..., CliResult]) -> None:
    requests = [one | {"steps": None} for one in _load(2, 30)]
    server = {"launch": "vllm serve tiny --max-num-seqs 2 --port 1"}
    load = _LOAD | {"arrival": "constant:30", "server": server}
    folder = make_run("served", requests, stage="serve", engine="vllm", load=load)
    told = cli("advise", folder).stdout
    assert told.startswith("no change is predicted to gain over 1 %\nnot known: requests wait ")
    assert "as at most 2 run at once: served: its requests do not name the steps" in " ".join(
        told.split()
    )


def _steps(*each: tuple[str, float]) -> list[dict[str, Any]]:
    """Return steps in a row as vLLM names them, each with a kernel as long as it."""
    events, at = [], 0.0
    for number, (name, took) in enumerate(each, 1):
        events += [
            span("user_annotation", f"execute_{name}", at, at + took),
            *work(at + 1, at + 2, at + took - 1, number),
        ]
        at += took
    return events


def _rows(path: Path, rule: str) -> list[dict[str, Any]]:
    with tracekit.open(path, cache=False) as trace:
        return trace.query(f"advice_serving_{rule}").to_dicts()


DECODE, MIXED = ("context_0(0)_generation_4(4)", 100), ("context_1(512)_generation_4(4)", 900)


def test_prompts_that_hold_up_decoding(tiny_trace: Tiny) -> None:
    (row,) = _rows(tiny_trace(_steps(*(3 * [DECODE, MIXED]), DECODE)), "prefill")
    # A part that takes as long as a step that decodes: 512 tokens take 800 µs more.
    assert row["change"] == "batch tokens=64"
    assert row["what"] == (
        "3 steps read prompts, 512 tokens in 0.900 ms in the median, while up to 4 requests "
        "decode, which alone takes 0.100 ms"
    )
    assert row["cost_ns"] == 3 * 800_000 * 4
    short = ("context_1(64)_generation_4(4)", 250)
    (row,) = _rows(tiny_trace(_steps(*(3 * [DECODE, short, short]))), "prefill")
    assert row["change"] == "prefill apart"
    assert _rows(tiny_trace(_steps(*(3 * [DECODE, DECODE, DECODE, short]))), "prefill") == []


def test_steps_that_only_read_hold_up_who_decodes_before_and_after(tiny_trace: Tiny) -> None:
    alone = ("context_1(512)_generation_0(0)", 900)
    path = tiny_trace(_steps(alone, DECODE, alone, DECODE, alone, DECODE, DECODE))
    (row,) = _rows(path, "prefill")
    # The first one held up nobody.
    assert row["cost_ns"] == 2 * 800_000 * 4


def test_decoding_without_a_graph(tiny_trace: Tiny) -> None:
    events = []
    for number, (count, name) in enumerate(
        [(8, "cudaGraphLaunch"), (8, "cudaGraphLaunch"), (64, "cudaLaunchKernel")], 1
    ):
        at = 100 * number
        step = f"execute_context_0(0)_generation_{count}({count})"
        events += [
            span("user_annotation", step, at, at + 90),
            call(at + 40, at + 41, number, name),
            kernel("k", at + 42, at + 80, number),
        ]
    (row,) = _rows(tiny_trace(events), "graphs")
    assert row["what"] == (
        "1 of 3 decoding steps run without a graph, with 64 to 64 requests; devices wait 0.062 ms "
        "in them"
    )
    assert _rows(tiny_trace(events[:6]), "graphs") == []


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("tk/stage/schedule", "scheduling"),
        ("/x/vllm/v1/core/sched/scheduler.py(352): schedule", "scheduling"),
        ("/x/sglang/srt/layers/sampler.py(61): forward", "sampling"),
        ("/x/vllm/v1/engine/detokenizer.py(90): update", "making text of tokens"),
    ],
)
def test_what_an_engine_does_on_the_host(tiny_trace: Tiny, name: str, place: str) -> None:
    category = "user_annotation" if name.startswith("tk/") else "python_function"
    events = [*work(0, 2, 100, 1), span(category, name, 105, 195), *work(200, 202, 300, 2)]
    # Where the kernel of a launch is not recorded, the device may have worked.
    assert _rows(tiny_trace([*events, call(101, 103, 9)]), "host") == []
    path = tiny_trace(events)
    (row,) = _rows(path, "host")
    assert row["place"].endswith(place)
    assert row["cost_ns"] == 90_000
    with tracekit.open(path, cache=False) as trace:
        (first,) = (
            one for one in trace.advise().advice if one.candidate.rule == "advice_serving_host"
        )
    # 81 of 298 µs, and at most 90.
    assert first.prediction.gain_pct == pytest.approx(27.2, abs=0.1)
    assert first.range_pct[1] > 30.2


def test_requests_that_are_sent_back(tiny_trace: Tiny) -> None:
    name = "/x/vllm/v1/core/sched/scheduler.py(959): _preempt_request"
    events = [*work(0, 2, 100, 1), span("python_function", name, 5, 6)]
    (row,) = _rows(tiny_trace(events), "limits")
    assert row["what"] == f"1 calls of {name}: requests lose what was computed of them"
    assert _rows(tiny_trace(events[:-1]), "limits") == []


def test_prompts_in_steps_that_are_full(make_run: MakeRun) -> None:
    folder = make_run("served", _load(2, 30), stage="serve", engine="vllm", load=_LOAD,
                      traces=["rank0.json"])  # fmt: skip
    full, rest = ("context_1(512)_generation_0(0)", 100), ("context_1(99)_generation_0(0)", 50)
    for steps, expected in (
        ([full, full, full, rest, DECODE], ["batch tokens=1024"]),
        # A prompt in each, and no more of it.
        ([full, DECODE, full, DECODE, full, DECODE], []),
    ):
        events = json.dumps({"traceEvents": _steps(*steps)})
        (folder / "rank0.json").write_text(events, "utf-8")
        assert [row["change"] for row in _rows(folder, "limits")] == expected


def test_a_worker_that_waits_for_its_engine(tiny_trace: Tiny) -> None:
    wait = "/x/vllm/distributed/device_communicators/shm_broadcast.py(830): acquire_read"
    path = tiny_trace(
        [
            *work(0, 2, 100, 1),
            span("python_function", wait, 105, 195),
            span("python_function", "<built-in function sched_yield>", 106, 194),
            *work(200, 202, 300, 2),
        ]
    )
    with tracekit.open(path, cache=False) as trace:
        advised = trace.advise()
    assert "advice_python" not in {one.candidate.rule for one in advised.advice}
    assert [one.place for one, _ in advised.undecided] == [
        "waiting for another process of the engine"
    ]
