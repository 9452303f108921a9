"""Light steps follow the profiled ones on an accelerator, which is the CPU here."""

import itertools

import pytest
from trace_files import read_trace

import tracekit
from tracekit import manifest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity  # noqa: E402

from tracekit.collectors.loop.folder import LoopFolder  # noqa: E402
from tracekit.collectors.loop.plan import LoopPlan  # noqa: E402
from tracekit.collectors.loop.report import LoopReport  # noqa: E402
from tracekit.collectors.machine import accelerator  # noqa: E402
from tracekit.collectors.profiler.profile import Profile  # noqa: E402
from tracekit.collectors.session import collect  # noqa: E402

STEPS = {"warmup": 1, "steps": 2, "profile_steps": 2}
PROFILED = 1 + 2 + 2 + 1 + 2
LIGHT = 1 + 2
ALL = PROFILED + LIGHT + 2
NAME = "light/rank0.json.gz"


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(accelerator, "device_activities", lambda _: [ProfilerActivity.CPU])


def train(out, count=ALL, **options):
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with collect(model=model, out=out, **STEPS, **options) as step:
        for _ in range(count):
            with step():
                loss = model(torch.ones(4, 8)).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    assert not torch.autograd._profiler_enabled()
    return manifest.read(out), losses


def steps_in(run):
    with tracekit.open(run, cache=False) as trace:
        return [step for step in trace.query("steps").column("step") if step is not None]


@pytest.mark.usefixtures("device")
def test_light_steps_have_a_trace_of_their_own(tmp_path):
    run, losses = train(tmp_path / "run")
    assert losses == train(tmp_path / "other", light_steps=False)[1]
    # Noise may add a note on steps before and after the profile.
    notes = [note for note in run.notes if not note.startswith("steps took ")]
    assert (run.outcome, len(notes)) == ("ok", 1)
    assert (run.traces, run.light_traces) == (["rank0.json.gz"], [NAME])
    assert run.overhead.light_step_ns
    assert run.overhead.plain_after_count == 2
    light = read_trace(tmp_path / "run" / NAME)
    assert light["tracekit_is_light"] is True
    events = [event for event in light["traceEvents"] if event.get("ph") == "X"]
    assert not [event for event in events if event["name"].startswith("tk/")]
    bounds = light["tracekit_step_bounds_unix_ns"]
    assert bounds == sorted(bounds)
    assert len(bounds) == 3
    calls = [event for event in events if event["name"] == "aten::addmm"]
    starts = [light["baseTimeNanoseconds"] + 1_000 * event["ts"] for event in calls]
    steps = itertools.pairwise(bounds)
    assert [sum(begin <= at < end for at in starts) for begin, end in steps] == [1, 1]
    assert steps_in(tmp_path / "run") == [6, 7], "the light trace does not belong to the run"


@pytest.mark.parametrize("is_refused", [False, True])
def test_runs_without_light_steps(is_refused, tmp_path, request):
    """On a CPU, and where they are switched off."""
    if is_refused:
        request.getfixturevalue("device")
    run, _ = train(tmp_path / "run", light_steps=not is_refused)
    assert run.light_traces == []
    assert run.overhead.light_step_ns is None
    assert not (tmp_path / "run" / "light").exists()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(("count", "has_light"), [(1, False), (2, True)])
def test_a_loop_that_ends_among_them(tmp_path, count, has_light):
    run, _ = train(tmp_path / "run", PROFILED + count)
    assert run.outcome == "ok"
    assert run.traces == ["rank0.json.gz"]
    assert run.light_traces == [NAME] * has_light
    assert (run.overhead.light_step_ns is not None) == has_light
    assert run.overhead.plain_after_count == 0
    assert len(run.repeats[0].step_ns) == 2, "light steps are not unprofiled steps"
    assert steps_in(tmp_path / "run") == [6, 7]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("method", ["begin", "step", "end", "save"])
def test_an_error_in_light_steps_affects_nothing_else(tmp_path, method, monkeypatch):
    original = getattr(Profile, method)

    def fail(self):
        if self.path.parent.name == "light":
            raise RuntimeError("on purpose")
        return original(self)

    monkeypatch.setattr(Profile, method, fail)
    try:
        run, losses = train(tmp_path / "run")
    finally:
        monkeypatch.undo()
        while torch.autograd._profiler_enabled():  # of an end that failed
            torch.autograd._disable_profiler()
    assert run.outcome == "ok"
    assert [note for note in run.notes if "RuntimeError: on purpose" in note]
    assert (run.traces, run.light_traces) == (["rank0.json.gz"], [])
    # A profiler that could not be ended may still run, so later steps are not plain.
    assert run.overhead.plain_after_count == (0 if method == "end" else 2)
    assert steps_in(tmp_path / "run") == [6, 7]
    assert len(losses) == ALL


@pytest.mark.usefixtures("device")
def test_a_profiler_of_the_loop_comes_first(tmp_path):
    model, out = nn.Linear(8, 8), tmp_path / "run"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with collect(model=model, out=out, **STEPS) as step:
        for number in range(ALL + 2):
            if number == PROFILED + 2:
                theirs = torch.profiler.profile(activities=[ProfilerActivity.CPU])
                theirs.start()
            with step():
                model(torch.ones(4, 8)).sum().backward()
                optimizer.step()
            if number == PROFILED + 3:
                theirs.stop()
    run = manifest.read(out)
    assert [note for note in run.notes if "profiler" in note]
    assert (run.outcome, run.traces, run.light_traces) == ("ok", ["rank0.json.gz"], [])
    assert [event.name for event in theirs.events() if "addmm" in event.name]


def report(folder, rank):
    names = {"trace": f"rank{rank}.json", "light_trace": f"light/rank{rank}.json"}
    (folder / "light").mkdir(parents=True, exist_ok=True)
    for name in names.values():
        (folder / name).write_text("{}")
    return LoopReport(rank=rank, world_size=2, **names, job_id="job", is_recorded=True)


def test_fragments_of_a_job_have_all_of_them(tmp_path):
    for rank in (0, 1):
        folder = LoopFolder(tmp_path / "run", LoopPlan(), ["train"], f"{rank}", force=False)
        folder.open()
        run = folder.commit([report(folder.path, rank)], "ok", None)
        folder.end(run, 0, "ok", None)
        folder.close()
    run = manifest.read(tmp_path / "run")
    assert run.light_traces == ["light/rank0.json.gz", "light/rank1.json.gz"]
    assert all((tmp_path / "run" / name).is_file() for name in (*run.light_traces, *run.traces))
