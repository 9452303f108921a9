"""A training run: its folder, ranks, manifest, and summary."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracekit import manifest
from tracekit.errors import StoreError, TracekitError, WorkloadError
from tracekit.units import GB

from ..loop.report import first_failure, read_reports
from ..machine import memory
from ..machine.hardware import accelerator_count
from ..model.models import display_name
from ..process import distributed
from ..process.distributed import Place
from ..process.ending import signals_as_interrupt
from ..process.launch import Failure, run_ranks
from ..run.environment import require
from ..run.folder import RunFolder, default_target
from ..run.manifest import rate_text, step_cost
from . import worker
from .result import RankResult, make_manifest
from .spec import TrainingSpec, make_spec

Echo = Callable[[str], None]


def run(values: Mapping[str, Any], command: list[str], echo: Echo) -> Path:
    """Run training and return the run folder.

    With RANK and WORLD_SIZE in the environment, this process is one of the ranks. Otherwise, it
    starts the ranks and never imports torch.
    """
    place = distributed.place_in(os.environ)
    spec = make_spec(values, command, world_size=place.world_size if place else None)
    _require_packages(spec)
    target = values.get("out") or default_target(
        spec.stage, display_name(spec.model, spec.layer_count), spec.opt_text.replace(":", "-")
    )
    if place is not None:
        return _run_in_place(spec, place, target, bool(values.get("force")), echo)
    with RunFolder(target, force=bool(values.get("force"))) as folder:
        spec.write(folder.work / worker.SPEC)
        kill_count = memory.kernel_kill_count()
        failure = run_ranks(
            ["-m", "tracekit.collectors.training.worker", str(folder.work)],
            spec.rank_count,
            folder.logs,
            watch=_progress_reader(folder.work / worker.PROGRESS, echo),
        )
        results = read_reports(folder.work, RankResult)
        if failure is not None and failure.exit_code == StoreError.exit_code:
            raise StoreError(
                f"{target}: the run folder cannot be written: No space left on device",
                hint="free space, or use another --out; partial files were removed",
            )
        if failure is None:
            run = make_manifest(spec, results)
        else:
            run = _failed_manifest(spec, results, failure, kill_count)
        folder.commit(run)
    if run.outcome != "ok":
        _raise_outcome(run, target)
    for line in summary(run, target):
        echo(line)
    return target


def _require_packages(spec: TrainingSpec) -> None:
    needed = {"torch": "torch", "transformers": "transformers"}
    option = f"--opt {spec.opt_text}"
    if spec.engine == "deepspeed":
        needed["deepspeed"] = "deepspeed"
    if spec.engine == "megatron":
        if not accelerator_count():
            raise WorkloadError("--engine megatron needs CUDA devices, but this machine has none")
        needed["megatron.core"] = "megatron-core"
        option = "--engine megatron"
    if spec.opt.is_quantized:
        needed["bitsandbytes"] = "bitsandbytes"
    if spec.opt.adapter:
        needed["peft"] = "peft"
    require(needed, option)


def _failed_manifest(
    spec: TrainingSpec, results: Sequence[RankResult], failure: Failure, kill_count: int
) -> manifest.Manifest:
    outcome: manifest.Outcome = "failed"
    first = first_failure(results)
    if first is not None and first.outcome == "oom":
        outcome, reason = "oom", f"rank {first.rank}: {first.reason}"
    elif memory.was_killed_for_memory(failure.exit_code, kill_count):
        outcome = "oom"
        reason = f"rank {failure.rank}: killed by the kernel, out of memory"
    # If the reported rank left a result, the first failed rank is the cause. Otherwise, a signal
    # killed the reported rank.
    elif first is not None and any(
        one.rank == failure.rank and one.outcome == "failed" for one in results
    ):
        reason = f"rank {first.rank} of {spec.rank_count} failed: {first.reason}"
    else:
        reason = f"rank {failure.rank} of {spec.rank_count} died: {failure}"
    return make_manifest(spec, results, outcome=outcome, reason=reason)


def _progress_reader(path: Path, echo: Echo) -> Callable[[], None]:
    """Return a function that echoes the new complete lines of a file."""
    shown = 0

    def show_new() -> None:
        nonlocal shown
        try:
            with path.open(encoding="utf-8") as file:
                file.seek(shown)
                text = file.read()
        except OSError:
            return
        whole = text[: text.rfind("\n") + 1]
        shown += len(whole.encode())
        for line in whole.splitlines():
            echo(line)

    return show_new


def _run_in_place(spec: TrainingSpec, place: Place, target: Path, force: bool, echo: Echo) -> Path:
    """Train as the rank assigned by a launcher; rank 0 creates the shared folder."""
    device = distributed.device_of(place)
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals_as_interrupt())
        stack.enter_context(distributed.process_group(place, device, None))
        folder = RunFolder(target, force=force)
        refusal: TracekitError | None = None
        if place.rank == 0:
            try:
                stack.enter_context(folder)
            except TracekitError as error:
                refusal = error
        path = distributed.from_first_rank(None if refusal else str(folder.path))
        if path is None:
            raise refusal or WorkloadError(f"{target}: rank 0 could not create the run folder")
        folder.join(Path(path))
        say = echo if place.rank == 0 else lambda _: None
        result = worker.run_rank(spec, place, folder.path, folder.work, say=say)
        if result.outcome != "ok":
            _record_failure(spec, folder, result)
        distributed.barrier(device)  # once all ranks have arrived, all results are on disk
        if place.rank == 0:
            run = make_manifest(spec, read_reports(folder.work, RankResult))
            folder.commit(run)
            for line in summary(run, target):
                echo(line)
    return target


def _record_failure(spec: TrainingSpec, folder: RunFolder, result: RankResult) -> None:
    """Raise the error; only the first failed rank, which has the cause, writes the manifest."""
    run = make_manifest(
        spec,
        read_reports(folder.work, RankResult),
        outcome="oom" if result.outcome == "oom" else "failed",
        reason=f"rank {result.rank} of {spec.rank_count}: {result.reason}",
    )
    with contextlib.suppress(StoreError, FileNotFoundError):
        folder.commit(run)
    _raise_outcome(run, folder.target)


def _raise_outcome(run: manifest.Manifest, target: Path) -> None:
    if run.outcome == "oom":
        raise WorkloadError(
            f"{target}: out of memory: {run.reason}",
            hint=f"recorded as a result; {_needs_less(run)}",
        )
    raise WorkloadError(
        f"{target}: {run.reason}", hint=f"see the logs of the ranks in {target}/logs"
    )


def _needs_less(run: manifest.Manifest) -> str:
    used = set((run.opt or "").split("+"))
    methods = [method for method in ("R", "Z3", "O") if method not in used]
    ways = [f"{' or '.join(methods)} in --opt"] if methods else []
    if (run.batch_size or 1) > 1:
        ways.insert(0, "a smaller --batch-size")
    return f"try {', or '.join([*ways, 'a smaller model or --seq-len'])}"


def summary(run: manifest.Manifest, target: Path) -> list[str]:
    size = manifest.peak_bytes(run)
    memory = "peak memory unknown" if size is None else f"peak {size / GB:.2f} GB per rank"
    ranks = "1 rank" if run.parallel.world_size == 1 else f"{run.parallel.world_size} ranks"
    what = f"{run.stage} {run.model.name if run.model else ''} {run.opt} ({run.engine}), {ranks}"
    lines = [f"{what}: {rate_text(run)}, {memory}"]
    overhead = run.overhead
    if overhead and overhead.plain_step_ns:
        plain = [ns for repeat in run.repeats for ns in repeat.step_ns]
        basis = "the figures above are without the profiler and ranges"
        lines.append(f"{step_cost(overhead, plain)}; {basis}")
    lines += [f"note: {note}" for note in run.notes]
    lines.append(f"show the time breakdown: tracekit breakdown {target}")
    return lines
