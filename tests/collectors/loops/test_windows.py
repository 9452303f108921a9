"""Several windows of profiled steps, and the choice of ranks that leave a trace."""

import signal

import pytest
from processes import wait_for

import tracekit

nightly = pytest.mark.nightly("requests of windows are tested in test_loop_parts.py")
STEPS = ("--warmup", "1", "--steps", "2", "--profile-steps", "2")


def step_numbers(run):
    with tracekit.open(run, cache=False) as trace:
        return sorted(set(trace.query("steps").column("step")))


def windows_of(run):
    return sorted(path.name for path in run.glob("step-*"))


@nightly
def test_windows_every_so_many_steps(loops):
    command = [*loops.collect(*STEPS, "--every", "4", "--windows", "3"), *loops.program("plain")]
    result = loops.start(command, env={"LOOP_STEPS": "30"}).end()
    assert result.exit_code == 0, result.stderr
    run = result.run.path
    # The profiler warms up in the fourth step after the last window.
    assert windows_of(run) == ["step-13", "step-20"]
    assert step_numbers(run) == [6, 7]
    assert step_numbers(run / "step-13") == [13, 14]
    assert step_numbers(run / "step-20") == [20, 21]
    assert "2 more windows" in result.stderr
    assert result.left == []


@nightly
@pytest.mark.parametrize(
    ("options", "count"), [(("--on-demand", "ask"), 3), (("--on-signal", "USR1"), 2)]
)
def test_a_window_on_demand(options, count, loops):
    """A file asks for three steps, or a signal that the program does not handle."""
    program = loops.program("signalled")
    process = loops.start([*loops.collect(*STEPS, *options), *program])
    wait_for((process.folder / "run" / "run.json").is_file)
    if count == 3:
        (process.folder / "ask").write_text("3")
    else:
        process.popen.send_signal(signal.SIGUSR1)
    traces = ".run.partial-*/step-*/rank0.json*"
    wait_for(lambda: [p for p in process.folder.glob(traces) if not p.name.endswith("partial")])
    process.wait_for("step 40 ")
    process.popen.send_signal(signal.SIGTERM)
    result = process.end()
    assert result.exit_code == 0, result.stderr
    (window,) = windows_of(result.run.path)
    first = int(window.removeprefix("step-"))
    assert step_numbers(result.run.path / window) == [first + n for n in range(count)]
    assert step_numbers(result.run.path) == [6, 7]
    assert not list(result.folder.glob(".run.request-*"))


@nightly
def test_only_the_chosen_ranks_leave_a_trace(loops, cli):
    command = [*loops.collect(*STEPS, "--ranks", "1"), *loops.program("ddp", ranks=2)]
    result = loops.start(command).end()
    assert result.exit_code == 0, result.stderr
    made = result.run.manifest
    assert made["outcome"] == "ok"
    assert result.run.traces == made["traces"] == ["rank1.json.gz"]
    assert [rank["trace"] for rank in made["ranks"]] == [None, "rank1.json.gz"]
    assert all(rank["wall_ns"] > 0 and rank["token_count"] > 0 for rank in made["ranks"])
    done = cli("breakdown", result.run.path)
    assert done.exit_code == 0, done.stderr
    assert "rank 1 of 2" in done.stdout
