"""Rank of a training run: `python -m tracekit.collectors.training.worker FOLDER`."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tracekit.errors import StoreError, WorkloadError

from ..process.distributed import Place, device_of, process_group
from ..process.launch import run_as_rank
from ..run.folder import disk_cause
from .result import RankResult
from .spec import TrainingSpec

SPEC = "spec.json"
PROGRESS = "progress"
STORE = "store"


def main(work: Path, place: Place) -> int:
    spec = TrainingSpec.read(work / SPEC)
    say = _progress(work) if place.rank == 0 else lambda _: None
    try:
        result = run_rank(spec, place, work.parent, work, say=say)
    except OSError as error:
        if disk_cause(error) is None:
            raise
        return StoreError.exit_code
    return 0 if result.outcome == "ok" else WorkloadError.exit_code


def run_rank(
    spec: TrainingSpec, place: Place, folder: Path, work: Path, *, say: Callable[[str], None]
) -> RankResult:
    """Train as one rank and write its result, including most errors."""
    result = RankResult(rank=place.rank, world_size=place.world_size)
    try:
        from .train import train

        device = device_of(place)
        with process_group(place, device, work / STORE):
            train(spec, place, device, folder, result, say)
    except Exception as error:
        full = disk_cause(error)
        if full is not None:
            raise full from error
        traceback.print_exc()
        result.note_error(error)
    result.ended_unix_ns = time.time_ns()
    result.write(work)
    return result


def _progress(work: Path) -> Callable[[str], None]:
    def say(line: str) -> None:
        with contextlib.suppress(OSError), (work / PROGRESS).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    return say


if __name__ == "__main__":
    run_as_rank(partial(main, Path(sys.argv[1])))
