"""The generator of runs: its ground truth matches its files."""

import json
from decimal import Decimal

from made_runs import Faults, Late, Layout, Step, make_run

TINY = Step(forward_ns=100_000, backward_ns=200_000, optimizer_ns=50_000, kernels=1)


def kernels(path):
    events = json.loads(path.read_text(), parse_float=Decimal)["traceEvents"]
    found = [
        {**e["args"], "name": e["name"], "start": int(e["ts"] * 1000), "dur": int(e["dur"] * 1000)}
        for e in events
        if e.get("cat") == "kernel"
    ]
    return sorted(found, key=lambda kernel: kernel["start"])


def read_waits(run):
    """Return waits by the files: the duration of a collective beyond its shortest rank."""
    durations = {}
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


def test_one_slow_rank(tmp_path):
    """Rank 2 of four takes twice as long: the others wait 300 µs in the first all-reduce."""
    run = make_run(tmp_path, Layout(data=4), TINY, Faults(slow_ranks={2: 2.0}))
    assert run.truth.waits["0", 1] == {0: 300_000, 1: 300_000, 2: 0, 3: 300_000}
    assert run.truth.last["0", 1] == 2
    # The second follows at once, so no rank waits; the third follows after 350 µs of work.
    assert set(run.truth.waits["0", 2].values()) == {0}
    assert run.truth.waits["0", 3] == {0: 350_000, 1: 350_000, 2: 0, 3: 350_000}
    assert read_waits(run) == run.truth.waits


def test_waits_in_the_files_match_the_ground_truth(tmp_path):
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


def test_the_bubble_of_a_pipeline(tmp_path):
    """Each of four stages idles for three forward and three backward passes."""
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
