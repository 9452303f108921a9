"""`tracekit.collect` around a loop: a complete run folder or none, and an unchanged loop."""

import gc
import os
import sys
import weakref
from collections import Counter

import pytest
from processes import finished
from trace_files import read_trace

import tracekit
from tracekit import manifest
from tracekit.errors import UsageError

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.optim.optimizer import (  # noqa: E402
    _global_optimizer_post_hooks,
    _global_optimizer_pre_hooks,
)

from tracekit.collectors import ranges  # noqa: E402
from tracekit.collectors.calls import module_calls  # noqa: E402
from tracekit.collectors.calls.dynamo_bypass import has_compiled  # noqa: E402
from tracekit.collectors.session import collect  # noqa: E402
from tracekit.comparison.measures import unprofiled_steps  # noqa: E402

STEPS = {"warmup": 1, "steps": 2, "profile_steps": 2}
NEEDED = 1 + 2 + 2 + 1 + 2
BACKWARD = torch.autograd.backward
CALL = nn.Module.__call__


def small_model():
    return nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))


class Loop:
    def __init__(self):
        torch.manual_seed(0)
        self.model = small_model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.batches = [torch.arange(16).reshape(2, 8) for _ in range(20)]

    def train(self, batch):
        loss = nn.functional.cross_entropy(self.model(batch).flatten(0, 1), batch.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def assert_untouched(self):
        for module in self.model.modules():
            assert not module._forward_hooks
            assert not module._forward_pre_hooks
        assert torch.autograd.backward is BACKWARD
        assert not _global_optimizer_pre_hooks
        assert not _global_optimizer_post_hooks
        assert ranges.open_count() == 0
        assert not torch.autograd._profiler_enabled()


@pytest.fixture
def loop():
    made = Loop()
    yield made
    made.assert_untouched()


def span_names(folder, rank=0):
    events = read_trace(folder / f"rank{rank}.json.gz")["traceEvents"]
    return Counter(event.get("name", "") for event in events)


def test_a_loop_over_batches(loop, tmp_path, capsys):
    seen = 0
    with collect(model=loop.model, out=tmp_path / "run", **STEPS) as step:
        for batch in step(loop.batches):
            loop.train(batch)
            seen += 1
            if seen == NEEDED - 1:
                assert not step.is_done
        assert step.is_done
    assert step.folder == tmp_path / "run"
    assert seen == len(loop.batches), "the loop is not cut short"
    run = manifest.read(tmp_path / "run")
    assert run.outcome == "ok"
    assert run.stage == "custom"
    assert run.engine == "torch"
    assert run.model.name == run.model.model_class == "Sequential"
    assert run.model.parameter_count == 32 * 16 + 16 * 32 + 32
    assert (run.batch_size, run.sequence_length, run.precision) == (2, 8, "fp32")
    assert run.steps == manifest.Steps(1, 4, 1, 2), "two before the profiled ones and two after"
    (repeat,) = run.repeats
    assert repeat.tokens_per_s == pytest.approx(4 * 16 * 1e9 / sum(repeat.step_ns))
    overhead = run.overhead
    assert overhead.plain_step_ns in repeat.step_ns
    assert overhead.plain_after_count == 2
    bounds = (overhead.plain_step_low_ns, overhead.plain_step_high_ns)
    assert min(repeat.step_ns) <= bounds[0] <= overhead.plain_step_ns <= bounds[1]
    assert {*overhead.plain_phase_ns} == {"data", "forward", "backward", "optimizer"}
    assert sum(overhead.plain_phase_ns.values()) <= max(repeat.step_ns)
    assert run.overhead.ranges_step_ns
    assert run.overhead.profiled_step_ns
    assert run.peak_memory[0].host_bytes
    assert run.traces == ["rank0.json.gz"]
    names = span_names(tmp_path / "run")
    for name in ("data", "forward", "backward", "optimizer"):
        assert names[f"tk/phase/{name}"] == 2, name
    assert names["tk/module/forward/1#Linear"] == 2
    assert names["tk/step/6"] == names["tk/step/7"] == 1
    assert "tracekit breakdown " in capsys.readouterr().err
    with tracekit.open(tmp_path / "run", cache=False) as trace:
        phases = {row["phase"] for row in trace.query("phases").to_dicts()}
    assert {"forward", "backward", "optimizer"} <= phases


def test_a_loss_that_is_made_in_each_step(loop, tmp_path):
    gone, listener_counts = [], set()
    out = tmp_path / "run"
    with collect(model=loop.model, out=out, backward_ranges=True, **STEPS) as step:
        for batch in step(loop.batches):
            criterion = nn.CrossEntropyLoss()
            criterion(loop.model(batch).flatten(0, 1), batch.flatten()).backward()
            loop.optimizer.step()
            loop.optimizer.zero_grad()
            gone.append(weakref.ref(criterion))
            del criterion
            if not step.is_done:
                listener_counts.add(len(module_calls._listeners))
                assert not [one for one in gone if one() is not None]
    assert max(listener_counts) == 2, "of the loop, and of ranges"
    names = span_names(out)
    losses = {name for name in names if name.startswith("tk/") and "Loss" in name}
    passes = ("forward", "backward")
    assert losses == {f"tk/module/{one}/CrossEntropyLoss#CrossEntropyLoss" for one in passes}


def test_single_steps_and_a_model_that_is_freed_after_the_block(tmp_path):
    model = small_model()
    with collect(model, out=tmp_path / "run", name="mine", stage="pretrain", **STEPS) as step:
        while not step.is_done:
            with step():
                model(torch.ones(2, 8, dtype=torch.long)).sum().backward()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    run = manifest.read(tmp_path / "run")
    assert run.stage == "pretrain"
    assert run.model.name == "mine"


@pytest.mark.parametrize("number", [0, NEEDED - 1])
def test_a_fork_is_left_alone(loop, tmp_path, number):
    with collect(model=loop.model, out=tmp_path / "run", **STEPS) as step:
        for at, batch in enumerate(step(loop.batches)):
            if at == number:
                child = os.fork()
                if not child:  # a worker of a data loader
                    # After another test has compiled something, tracekit's function stays.
                    is_torchs = has_compiled() or nn.Module.__call__ is CALL
                    os._exit(0 if is_torchs and step.is_done else 1)
                assert os.waitpid(child, 0)[1] == 0
            loop.train(batch)
    assert manifest.read(tmp_path / "run").outcome == "ok"


@pytest.mark.parametrize(
    ("failing", "error", "outcome", "reason", "traces"),
    [
        (0, KeyError, "failed", "rank 0: KeyError: 'on purpose'", []),
        (NEEDED - 1, KeyError, "failed", "rank 0: KeyError: 'on purpose'", ["rank0.json.gz"]),
        (NEEDED + 1, KeyError, "failed", "rank 0: KeyError: 'on purpose', ", ["rank0.json.gz"]),
        (4, torch.OutOfMemoryError, "oom", "rank 0: CUDA out of memory", []),
        (NEEDED - 2, KeyboardInterrupt, "failed", "rank 0: KeyboardInterrupt: on purpose", None),
    ],
)
def test_an_error_in_the_loop_is_recorded(failing, error, outcome, reason, traces, loop, tmp_path):
    with pytest.raises(error), collect(model=loop.model, out=tmp_path / "run", **STEPS) as step:
        run_until(loop, step, failing, error)
    loop.assert_untouched()
    run = manifest.read(tmp_path / "run")
    assert run.outcome == outcome
    assert str(run.reason).startswith(reason)
    assert traces in (None, run.traces)
    assert bool(run.repeats) or failing < 4
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def run_until(loop, step, failing, error):
    for number, batch in enumerate(step(loop.batches)):
        loop.train(batch)
        if number == failing:
            is_memory = error is torch.OutOfMemoryError
            raise error("CUDA out of memory" if is_memory else "on purpose")


@pytest.mark.parametrize(
    ("count", "outcome", "profiled"), [(NEEDED - 2, "failed", 0), (NEEDED - 1, "ok", 1)]
)
def test_a_loop_that_is_too_short(count, outcome, profiled, loop, tmp_path):
    with collect(model=loop.model, out=tmp_path / "run", **STEPS) as step:
        for batch in step(loop.batches[:count]):
            loop.train(batch)
    run = manifest.read(tmp_path / "run")
    assert (run.outcome, len(run.traces)) == (outcome, profiled)
    assert run.overhead.plain_step_ns, "the measured steps are kept"
    if profiled:
        assert run.steps.profiled_count == profiled
        assert [note for note in run.notes if note.startswith("1 of 2 steps")]


@pytest.mark.parametrize("after_count", [0, 1, 2])
def test_steps_after_the_profiled_ones_are_timed(loop, tmp_path, after_count):
    with collect(model=loop.model, out=tmp_path / "run", **STEPS) as step:
        for batch in step(loop.batches[: NEEDED + after_count]):
            loop.train(batch)
        assert step.is_done == (after_count == 2)
    run = manifest.read(tmp_path / "run")
    assert run.outcome == "ok"
    assert run.steps.profiled_count == 2
    assert run.overhead.plain_after_count == after_count
    assert len(run.repeats[0].step_ns) == run.steps.measured_count == 2 + after_count
    assert [rank.token_count for rank in run.ranks] == [16 * (2 + after_count)]


def test_wrong_arguments(loop, tmp_path):
    with pytest.raises(UsageError, match="Module"):
        collect(model=None, out=tmp_path / "run")
    with pytest.raises(UsageError, match="steps"):
        collect(model=loop.model, out=tmp_path / "run", steps=0)
    with pytest.raises(UsageError):
        next(collect(model=loop.model, out=tmp_path / "run")([1]))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("keep")
    with (
        pytest.raises(UsageError, match="is not a run folder"),
        collect(model=loop.model, out=tmp_path / "run", **STEPS),
    ):
        pass
    assert (tmp_path / "run" / "mine.txt").read_text() == "keep"


def test_an_optimizer_unknown_to_torch(loop, tmp_path):
    class Mine:
        def step(self):
            with torch.no_grad():
                for parameter in loop.model.parameters():
                    parameter -= 0.1 * parameter.grad

    mine = Mine()
    with collect(model=loop.model, optimizer=mine, out=tmp_path / "run", **STEPS) as step:
        for batch in step(loop.batches):
            loop.model(batch).sum().backward()
            mine.step()
    assert span_names(tmp_path / "run")["tk/phase/optimizer"] == 2
    assert "step" not in vars(mine)


def test_a_loop_without_tokens(tmp_path):
    model = nn.Linear(4, 4)
    with collect(model=model, out=tmp_path / "run", **STEPS) as step:
        while not step.is_done:
            with step():
                model(torch.ones(2, 4)).sum().backward()
    run = manifest.read(tmp_path / "run")
    (repeat,) = run.repeats
    assert repeat.tokens_per_s is run.tokens_per_s_mean is None
    assert run.overhead.plain_step_ns in repeat.step_ns
    assert repeat.wall_ns == sum(repeat.step_ns)
    with tracekit.open(tmp_path / "run") as trace:
        assert unprofiled_steps([trace]) == [float(ns) for ns in repeat.step_ns]
        (row,) = trace.query("run").to_dicts()
    assert (row["repeat_count"], row["mean_tokens_per_s"]) == (1, None)
    assert [note for note in run.notes if "tokens/s" in note]


RANKS = """
import os, sys, torch
from torch import nn
from tracekit.collectors.session import collect
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with collect(model=model, out=sys.argv[1], warmup=1, steps=2, profile_steps=2) as step:
    for number, batch in enumerate(step([torch.arange(16).reshape(2, 8)] * 9)):
        if sys.argv[2:] == [f"{rank}"] and number == 5:
            raise KeyError("on purpose")
        model(batch).sum().backward()
        optimizer.step()
# The threads of gloo may abort the process when it ends in the usual way.
torch.distributed.barrier()
os._exit(0)
"""


@pytest.mark.nightly("two ranks run in the gate in loops/test_matrix.py")
@pytest.mark.parametrize("failing", [None, 0, 1])
def test_two_ranks_write_one_folder(failing, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(RANKS)
    runs = tmp_path / "runs"
    runs.mkdir()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = ["--nproc-per-node", "2", str(script), str(runs / "run")]
    words += [] if failing is None else [str(failing)]
    result = finished(*launcher, *words)
    assert [path.name for path in runs.iterdir()] == ["run"]
    run = manifest.read(runs / "run")
    assert run.parallel.world_size == 2
    if failing is not None:
        assert result.returncode == 1
        assert (run.outcome, run.reason) == ("failed", f"rank {failing}: KeyError: 'on purpose'")
        assert failing in [held.rank for held in run.ranks]
        return
    assert result.returncode == 0, result.stderr
    assert (run.engine, run.parallel.data_size) == ("ddp", 2)
    assert run.traces == ["rank0.json.gz", "rank1.json.gz"]
    assert [memory.rank for memory in run.peak_memory] == [0, 1]
    for rank in (0, 1):
        names = span_names(runs / "run", rank)
        assert names["tk/module/forward/1#Linear"] == names["tk/phase/backward"] == 2
