"""`tracekit.collect` around one's own loop: a whole run folder or none, and the loop untouched."""

from __future__ import annotations

import gc
import gzip
import json
import os
import subprocess
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

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
from tracekit.collectors.session import Collection, collect  # noqa: E402
from tracekit.comparison.measures import plain_steps  # noqa: E402

STEPS = {"warmup": 1, "steps": 2, "profile_steps": 2}
NEEDED = 1 + 2 + 2 + 1 + 2
BACKWARD = torch.autograd.backward
CALL = nn.Module.__call__


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.head = nn.Linear(16, 32)

    def forward(self, input_ids: Any) -> Any:
        return self.head(self.embed(input_ids))


class Loop:
    """A training loop, and whether it is as it was afterwards."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.batches = [torch.arange(16).reshape(2, 8) for _ in range(20)]

    def train(self, batch: Any) -> None:
        loss = nn.functional.cross_entropy(self.model(batch).flatten(0, 1), batch.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def assert_untouched(self) -> None:
        for module in self.model.modules():
            assert not module._forward_hooks
            assert not module._forward_pre_hooks
        assert torch.autograd.backward is BACKWARD
        assert not _global_optimizer_pre_hooks
        assert not _global_optimizer_post_hooks
        assert ranges.open_count() == 0
        assert not torch.autograd._profiler_enabled()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.assert_untouched()


def span_names(folder: Path, rank: int = 0) -> Counter[str]:
    trace = json.loads(gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes()))
    return Counter(event.get("name", "") for event in trace["traceEvents"])


def test_a_loop_over_batches(loop: Loop, tmp_path: Path, capsys: Any) -> None:
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
    assert run.model is not None
    assert run.model.name == run.model.model_class == "Model"
    assert run.model.parameter_count == 32 * 16 + 16 * 32 + 32
    assert (run.batch_size, run.sequence_length, run.precision) == (2, 8, "fp32")
    assert run.steps == manifest.Steps(1, 4, 1, 2), "two before the profiled ones and two after"
    (repeat,) = run.repeats
    assert repeat.tokens_per_s == pytest.approx(4 * 16 * 1e9 / sum(repeat.step_ns))
    overhead = run.overhead
    assert overhead is not None
    assert overhead.plain_step_ns == round(median(repeat.step_ns))
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
    assert names["tk/module/forward/head#Linear"] == 2
    assert names["tk/step/6"] == names["tk/step/7"] == 1
    assert "tracekit: see where the time went: tracekit breakdown " in capsys.readouterr().err


def test_the_trace_breaks_down(
    loop: Loop, tmp_path: Path, opened: Callable[[Path], tracekit.Trace]
) -> None:
    with collect(model=loop.model, out=tmp_path / "run", **STEPS) as step:
        for batch in step(loop.batches):
            loop.train(batch)
    phases = {row["phase"] for row in opened(tmp_path / "run").query("phases").to_dicts()}
    assert {"forward", "backward", "optimizer"} <= phases


def test_steps_one_by_one(loop: Loop, tmp_path: Path) -> None:
    with collect(loop.model, out=tmp_path / "run", name="mine", stage="pretrain", **STEPS) as step:
        while not step.is_done:
            with step():
                loop.train(loop.batches[0])
    run = manifest.read(tmp_path / "run")
    assert run.stage == "pretrain"
    assert run.model is not None
    assert run.model.name == "mine"


def test_a_loss_that_is_made_in_each_step(loop: Loop, tmp_path: Path) -> None:
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


def test_the_model_can_go_after_the_block(tmp_path: Path) -> None:
    model = Model()
    with collect(model=model, out=tmp_path / "run", **STEPS) as step:
        while not step.is_done:
            with step():
                model(torch.ones(2, 8, dtype=torch.long)).sum().backward()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert step.folder == tmp_path / "run"


@pytest.mark.parametrize("number", [0, NEEDED - 1])
def test_a_fork_is_left_alone(loop: Loop, tmp_path: Path, number: int) -> None:
    with collect(model=loop.model, out=tmp_path / "run", **STEPS) as step:
        for at, batch in enumerate(step(loop.batches)):
            if at == number:
                child = os.fork()
                if not child:  # a worker of a data loader
                    # Once another test has compiled something, our function stays and does nothing.
                    is_torchs = has_compiled() or nn.Module.__call__ is CALL
                    os._exit(0 if is_torchs and step.is_done else 1)
                assert os.waitpid(child, 0)[1] == 0
            loop.train(batch)
    assert manifest.read(tmp_path / "run").outcome == "ok"


def test_an_error_in_the_loop_is_recorded(loop: Loop, tmp_path: Path) -> None:
    for failing, traces in ((0, []), (NEEDED - 1, ["rank0.json.gz"])):
        with (
            pytest.raises(KeyError, match="on purpose"),
            collect(model=loop.model, out=tmp_path / f"run{failing}", **STEPS) as step,
        ):
            run_until(loop, step, failing, KeyError)
        loop.assert_untouched()
        run = manifest.read(tmp_path / f"run{failing}")
        assert (run.outcome, run.reason) == ("failed", "rank 0: KeyError: 'on purpose'")
        assert run.traces == traces
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run0", f"run{NEEDED - 1}"]


def run_until(loop: Loop, step: Collection, failing: int, error: type[BaseException]) -> None:
    for number, batch in enumerate(step(loop.batches)):
        loop.train(batch)
        if number == failing:
            raise error("on purpose")


def test_ctrl_c_is_recorded(loop: Loop, tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        collect(model=loop.model, out=tmp_path / "run", **STEPS) as step,
    ):
        run_until(loop, step, NEEDED - 2, KeyboardInterrupt)
    run = manifest.read(tmp_path / "run")
    assert (run.outcome, run.reason) == ("failed", "rank 0: KeyboardInterrupt: on purpose")


def test_an_error_after_the_recorded_steps_is_the_outcome(loop: Loop, tmp_path: Path) -> None:
    with (
        pytest.raises(KeyError),
        collect(model=loop.model, out=tmp_path / "run", **STEPS) as step,
    ):
        run_until(loop, step, NEEDED + 1, KeyError)
    run = manifest.read(tmp_path / "run")
    assert run.outcome == "failed"
    assert run.reason == "rank 0: KeyError: 'on purpose', after it was recorded"
    assert run.traces == ["rank0.json.gz"]
    assert run.repeats, "its figures are kept"


def test_memory_that_runs_out_is_recorded(loop: Loop, tmp_path: Path) -> None:
    def exhausted(_: str) -> RuntimeError:
        return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with (
        pytest.raises(torch.OutOfMemoryError),
        collect(model=loop.model, out=tmp_path / "run", **STEPS) as step,
    ):
        run_until(loop, step, 4, exhausted)  # type: ignore[arg-type]
    run = manifest.read(tmp_path / "run")
    assert run.outcome == "oom"
    assert run.reason == "rank 0: CUDA out of memory. Tried to allocate 2.00 GiB"
    assert run.traces == []


def test_a_loop_that_is_too_short(loop: Loop, tmp_path: Path, capsys: Any) -> None:
    with collect(model=loop.model, out=tmp_path / "run", **STEPS) as step:
        for batch in step(loop.batches[: NEEDED - 2]):
            loop.train(batch)
    run = manifest.read(tmp_path / "run")
    assert run.outcome == "failed"
    assert run.reason == (
        "rank 0: the loop ended after 6 steps, but 8 are needed: 1 to warm up, 2 timed, 2 with "
        "ranges, 1 for the profiler to warm up and 2 profiled"
    )
    assert run.overhead is not None
    assert run.overhead.plain_step_ns, "what was measured is kept"
    assert f"tracekit: {run.reason}\n" in capsys.readouterr().err


def test_a_loop_that_ends_among_the_profiled_steps(loop: Loop, tmp_path: Path) -> None:
    with collect(model=loop.model, out=tmp_path / "run", **STEPS) as step:
        for batch in step(loop.batches[: NEEDED - 1]):
            loop.train(batch)
    run = manifest.read(tmp_path / "run")
    assert run.steps.profiled_count == 1
    assert "1 of 2 steps were profiled" in run.notes


@pytest.mark.parametrize("after_count", [0, 1, 2])
def test_steps_are_timed_after_the_profiled_ones_as_far_as_there_are_any(
    loop: Loop, tmp_path: Path, after_count: int
) -> None:
    with collect(model=loop.model, out=tmp_path / "run", **STEPS) as step:
        for batch in step(loop.batches[: NEEDED + after_count]):
            loop.train(batch)
        assert step.is_done == (after_count == 2)
    run = manifest.read(tmp_path / "run")
    assert run.outcome == "ok"
    assert run.steps.profiled_count == 2
    assert run.overhead is not None
    assert run.overhead.plain_after_count == after_count
    assert len(run.repeats[0].step_ns) == run.steps.measured_count == 2 + after_count
    assert [rank.token_count for rank in run.ranks] == [16 * (2 + after_count)]


def test_what_cannot_be_asked(loop: Loop, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^steps is 0, but must be 1 or more$"):
        collect(model=loop.model, out=tmp_path / "run", steps=0)
    with pytest.raises(UsageError, match=r"^tracekit\.collect\(…\) is not a step"):
        next(collect(model=loop.model, out=tmp_path / "run")([1]))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("keep")
    with (
        pytest.raises(UsageError, match="exists and is no run folder"),
        collect(model=loop.model, out=tmp_path / "run", **STEPS),
    ):
        pass
    assert (tmp_path / "run" / "mine.txt").read_text() == "keep"


def test_optimizers_that_are_none_of_torch(loop: Loop, tmp_path: Path) -> None:
    class Mine:
        def step(self) -> None:
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


def test_a_loop_without_tokens(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    with collect(model=model, out=tmp_path / "run", **STEPS) as step:
        while not step.is_done:
            with step():
                model(torch.ones(2, 4)).sum().backward()
    run = manifest.read(tmp_path / "run")
    (repeat,) = run.repeats
    assert repeat.tokens_per_s is run.tokens_per_s_mean is None
    assert run.overhead is not None
    assert run.overhead.plain_step_ns == round(median(repeat.step_ns))
    assert repeat.wall_ns == sum(repeat.step_ns)
    with tracekit.open(tmp_path / "run") as trace:
        assert plain_steps([trace]) == [float(ns) for ns in repeat.step_ns]
        (row,) = trace.query("run").to_dicts()
    assert (row["repeat_count"], row["mean_tokens_per_s"]) == (1, None)
    assert "the model is given no token ids, so there is no figure in tokens/s" in run.notes


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
# On a busy machine gloo's threads abort now and then when the process ends in the usual way.
torch.distributed.barrier()
os._exit(0)
"""


def torchrun(script: Path, *arguments: str, python: str) -> subprocess.CompletedProcess[str]:
    command = [python, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    return subprocess.run(
        [*command, "--master-port", "29531", str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_ranks_write_one_folder(tmp_path: Path, python: Callable[[str], str]) -> None:
    script = tmp_path / "train.py"
    script.write_text(RANKS)
    runs = tmp_path / "runs"
    runs.mkdir()
    result = torchrun(script, str(runs / "run"), python=python("eager"))
    assert result.returncode == 0, result.stderr
    assert [path.name for path in runs.iterdir()] == ["run"]
    run = manifest.read(runs / "run")
    assert run.engine == "ddp"
    assert run.parallel == manifest.Parallel(world_size=2, data_size=2)
    assert run.traces == ["rank0.json.gz", "rank1.json.gz"]
    assert [memory.rank for memory in run.peak_memory] == [0, 1]
    for rank in (0, 1):
        names = span_names(runs / "run", rank)
        assert names["tk/module/forward/1#Linear"] == 2
        assert names["tk/phase/backward"] == 2


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_fails_is_the_reason(
    rank: int, tmp_path: Path, python: Callable[[str], str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(RANKS)
    runs = tmp_path / "runs"
    runs.mkdir()
    result = torchrun(script, str(runs / "run"), str(rank), python=python("eager"))
    assert result.returncode == 1
    assert "KeyError: 'on purpose'" in result.stderr
    assert [path.name for path in runs.iterdir()] == ["run"]
    run = manifest.read(runs / "run")
    assert (run.outcome, run.reason) == ("failed", f"rank {rank}: KeyError: 'on purpose'")
    assert run.parallel.world_size == 2
    assert rank in [held.rank for held in run.ranks]
