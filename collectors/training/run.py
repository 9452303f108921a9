"""A training run as a whole: its folder, its ranks, its manifest, what is said about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracekit import manifest
from tracekit.errors import StoreError, WorkloadError

from ..machine import memory
from ..machine.hardware import accelerator_count
from ..model.models import display_name
from ..process.distributed import place_in
from ..process.launch import Failure, run_ranks
from ..run.environment import require
from ..run.folder import RunFolder, default_target
from . import worker
from .in_place import run_in_place
from .outcome import raise_outcome, summary
from .result import RankResult, make_manifest, read_results
from .spec import TrainingSpec, make_spec

Echo = Callable[[str], None]


def run(values: Mapping[str, Any], command: list[str], echo: Echo) -> Path:
    """Run what the arguments ask for and return the run folder.

    With RANK and WORLD_SIZE in the environment this process is one of the ranks; else it starts
    them and never loads torch itself.

    Raises:
        WorkloadError: a package is missing; a rank failed or ran out of memory, which the run
            folder records.
    """
    place = place_in(os.environ)
    spec = make_spec(values, command, world_size=place.world_size if place else None)
    _require_packages(spec)
    target = values.get("out") or default_target(
        spec.stage,
        display_name(spec.model, spec.layer_count),
        spec.opt_text.replace(":", "-"),
    )
    if place is not None:
        return run_in_place(spec, place, target, bool(values.get("force")), echo)
    with RunFolder(target, force=bool(values.get("force"))) as folder:
        spec.write(folder.work / worker.SPEC)
        kill_count = memory.kernel_kill_count()
        failure = run_ranks(
            ["-m", "tracekit.collectors.training.worker", str(folder.work)],
            spec.rank_count,
            folder.logs,
            watch=_Progress(folder.work / worker.PROGRESS, echo).show_new,
        )
        results = read_results(folder.work, spec.rank_count)
        if failure is not None and failure.exit_code == StoreError.exit_code:
            raise StoreError(
                f"{target}: the run folder cannot be written: No space left on device",
                hint="free some space, or write elsewhere with --out; nothing was left behind",
            )
        if failure is None:
            run = make_manifest(spec, results)
        else:
            run = _failed_manifest(spec, results, failure, kill_count)
        folder.commit(run)
    if run.outcome != "ok":
        raise_outcome(run, target)
    for line in summary(run, target):
        echo(line)
    return target


def _require_packages(spec: TrainingSpec) -> None:
    """Make sure that everything is installed before anything is started."""
    needed = {"torch": "torch", "transformers": "transformers"}
    asked = f"--opt {spec.opt_text}"
    if spec.engine == "deepspeed":
        needed["deepspeed"] = "deepspeed"
    if spec.engine == "megatron":
        if not accelerator_count():
            raise WorkloadError("--engine megatron needs CUDA devices, and there are none here")
        needed["megatron.core"] = "megatron-core"
        asked = "--engine megatron"
    if spec.opt.is_quantized:
        needed["bitsandbytes"] = "bitsandbytes"
    if spec.opt.adapter:
        needed["peft"] = "peft"
    require(needed, asked)


def _failed_manifest(
    spec: TrainingSpec, results: Sequence[RankResult], failure: Failure, kill_count: int
) -> manifest.Manifest:
    """Return the manifest of a run in which a rank failed."""
    out_of_memory = [result for result in results if result.outcome == "oom"]
    if out_of_memory:
        first = min(out_of_memory, key=lambda result: result.ended_unix_ns)
        return make_manifest(
            spec, results, outcome="oom", reason=f"rank {first.rank}: {first.reason}"
        )
    if memory.was_killed_for_memory(failure.exit_code, kill_count):
        reason = f"rank {failure.rank}: killed by the kernel, which had no memory left"
        return make_manifest(spec, results, outcome="oom", reason=reason)
    # The rank that a signal ended left no result; else the one that failed first is the cause.
    failed = [result for result in results if result.outcome == "failed"]
    has_result = any(result.rank == failure.rank for result in failed)
    if failed and has_result:
        first = min(failed, key=lambda result: result.ended_unix_ns)
        reason = f"rank {first.rank} of {spec.rank_count} failed: {first.reason}"
    else:
        last = failure.last_error()
        reason = f"rank {failure.rank} of {spec.rank_count} died: {failure.how}"
        reason += f" ({last})" if last else ""
    return make_manifest(spec, results, outcome="failed", reason=reason)


class _Progress:
    """Passes on what rank 0 says that it is doing."""

    def __init__(self, path: Path, echo: Echo) -> None:
        self._path = path
        self._echo = echo
        self._shown = 0

    def show_new(self) -> None:
        """Show the lines that came since the last call."""
        try:
            with self._path.open(encoding="utf-8") as file:
                file.seek(self._shown)
                text = file.read()
        except OSError:
            return
        whole = text[: text.rfind("\n") + 1]
        self._shown += len(whole.encode())
        for line in whole.splitlines():
            self._echo(line)
