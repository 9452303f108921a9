"""The generator of runs itself: what it says is the truth is what the files say."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from made_runs import Faults, Late, Layout, MadeRun, Step, make_run, make_run_of_trace

TINY = Step(forward_ns=100_000, backward_ns=200_000, optimizer_ns=50_000, kernels=1)


def kernels(path: Path) -> list[dict[str, Any]]:
    events = json.loads(path.read_text(), parse_float=Decimal)["traceEvents"]
    found = [
        {**e["args"], "name": e["name"], "start": int(e["ts"] * 1000), "dur": int(e["dur"] * 1000)}
        for e in events
        if e.get("cat") == "kernel"
    ]
    return sorted(found, key=lambda kernel: kernel["start"])


def read_waits(run: MadeRun) -> dict[tuple[str, int], dict[int, int]]:
    """What ranks waited by the files alone: what a collective takes beyond the shortest of it."""
    durations: dict[tuple[str, int], dict[int, int]] = {}
    for path in run.paths:
        rank = int(path.name.removeprefix("rank").partition(".")[0])
        for kernel in kernels(path):
            if "Seq" in kernel and kernel["Collective name"] not in ("send", "recv"):
                key = (kernel["Process Group Name"], kernel["Seq"])
                durations.setdefault(key, {})[rank] = kernel["dur"]
    return {
        key: {rank: dur - min(of_ranks.values()) for rank, dur in of_ranks.items()}
        for key, of_ranks in durations.items()
    }


def test_a_run_that_one_can_work_out_in_the_head(tmp_path: Path) -> None:
    """Rank 2 of four works twice as long: the others wait 300 µs for it in the first all-reduce."""
    run = make_run(tmp_path, Layout(data=4), TINY, Faults(slow_ranks={2: 2.0}))
    assert run.truth.waits["0", 1] == {0: 300_000, 1: 300_000, 2: 0, 3: 300_000}
    assert run.truth.last["0", 1] == 2
    # The second one comes right behind it, so nobody waits; the third, behind 350 µs of work.
    assert set(run.truth.waits["0", 2].values()) == {0}
    assert run.truth.waits["0", 3] == {0: 350_000, 1: 350_000, 2: 0, 3: 350_000}
    assert read_waits(run) == run.truth.waits


def test_the_files_show_the_truth(tmp_path: Path) -> None:
    layout = Layout(data=4, tensor=2, expert=2, ranks_per_node=4)
    faults = Faults(
        slow_nodes={1: 1.5},
        late=(Late(3, "tensor", 2, 70_000),),
        slow_links={"2": 3.0},
        clock_ns={5: 3_000_000},
    )
    run = make_run(tmp_path, layout, TINY, faults)
    assert read_waits(run) == run.truth.waits
    assert run.truth.transfers["2", 1] == 3 * run.truth.transfers["1", 1]
    assert any(run.truth.waits["2", 3].values())
    first = [kernels(path)[0]["start"] for path in run.paths]
    assert [start - first[0] for start in first] == [0] * 5 + [3_000_000] + [0] * 2


def test_a_pipeline_has_the_bubble_that_it_must_have(tmp_path: Path) -> None:
    """Of four stages, each stands still for three forward and three backward passes."""
    for schedule in ("gpipe", "1f1b"):
        step = Step(
            forward_ns=1_000_000,
            backward_ns=2_000_000,
            microbatches=8,
            schedule=schedule,
            pass_ns=1,
            transfer_ns=4,
            kernels=1,
            steps=1,
        )
        run = make_run(tmp_path / schedule, Layout(pipeline=4), step)
        for rank in range(4):
            bubble = run.truth.waited_ns[rank]
            # Each pass between stages takes a nanosecond.
            assert abs(bubble - 3 * 3_000_000) < 100


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    faults = Faults(unreadable=frozenset({1}), missing=frozenset({3}))
    run = make_run(tmp_path, Layout(data=4), TINY, faults)
    assert [path.name for path in run.paths] == ["rank0.json", "rank1.json", "rank2.json"]
    assert b"traceEvents" not in run.paths[1].read_bytes()


def test_a_real_trace_as_what_every_rank_does(tmp_path: Path, public_traces: Path) -> None:
    """Nesting stays: every event that was in another one still is."""
    template = public_traces / "hta_ddp_nccl_metadata.json.gz"
    faults = Faults(slow_ranks={1: 1.4}, clock_ns={2: 12_345})
    run = make_run_of_trace(tmp_path, template, Layout(data=3), faults, max_events=20_000)
    assert len(run.truth.waits) > 10
    assert read_waits(run) == run.truth.waits
    assert {max(waits, key=lambda rank: -waits[rank]) for waits in run.truth.waits.values()} == {1}
    nested = []
    for path in run.paths:
        events = json.loads(path.read_text(), parse_float=Decimal)["traceEvents"]
        spans = [e for e in events if e.get("ph") == "X" and e["cat"] in ("cpu_op", "cuda_runtime")]
        open_until: dict[Any, list[Decimal]] = {}
        count = 0
        for event in spans:
            stack = open_until.setdefault(event["tid"], [])
            while stack and stack[-1] <= event["ts"]:
                stack.pop()
            count += len(stack)
            stack.append(event["ts"] + event["dur"])
        nested.append((len(spans), count))
    assert len(set(nested)) == 1
