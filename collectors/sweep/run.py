"""Runs the cells of a sweep sequentially and reports their outcomes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from tracekit import manifest
from tracekit.errors import TraceError, UsageError, WorkloadError
from tracekit.units import GB

from ..command_line import given
from ..process.distributed import place_in
from ..process.ending import signals_as_interrupt
from ..run.manifest import rate_text
from .cell import CellLock, run_cell
from .grid import MAX_BATCH_SIZE, OPTIONS, Cell, difference, make_grid

Echo = Callable[[str], None]

# Enough to reach the memory peak: the first step creates the optimizer state, the second uses it.
_PROBE = {"warmup": 1, "steps": 1, "repeats": 1, "profile_steps": 1}
_FINISHED = ("ok", "oom")


class Sweep(Struct):
    cells: list[Cell]
    out: Path
    batch_limit: int
    force: bool = False

    def _finished(self, cell: Cell) -> manifest.Manifest | None:
        folder = self.out / cell.name
        if self.force or not os.path.lexists(folder):
            return None
        try:
            run = manifest.read(folder)
        except TraceError as error:
            raise UsageError(
                f"{folder} exists and is not a run folder ({error.message})",
                hint="remove it, or use another --out",
            ) from error
        if run.outcome not in _FINISHED:
            return None
        other = difference(cell, run)
        if other is not None:
            raise UsageError(
                f"{folder} contains a run with other arguments: {other}",
                hint="run it again with --force, or use another --out",
            )
        return run

    def run(self, echo: Echo) -> dict[str, manifest.Manifest]:
        """Run the cells; an interrupt leaves no partial run and no process."""
        finished = {cell.name: self._finished(cell) for cell in self.cells}
        results: dict[str, manifest.Manifest] = {}
        try:
            for number, cell in enumerate(self.cells, start=1):
                folder = self.out / cell.name
                label = f"[{number}/{len(self.cells)}] {cell.name}"
                run = finished[cell.name]
                if run is not None:
                    echo(f"{label}: skipped, already finished: {outcome_text(run)}")
                    results[cell.name] = run
                    continue
                echo(label)
                begin = time.monotonic()
                with CellLock(folder) as lock:
                    # A cell that an earlier sweep left running may have finished in the meantime.
                    run = self._finished(cell) or self._collect(cell, folder, lock, echo)
                wall_s = time.monotonic() - begin
                echo(f"  {outcome_text(run)} ({wall_s:.1f} s)")
                results[cell.name] = run
        except KeyboardInterrupt:
            echo(
                f"interrupted: {len(results)} of {len(self.cells)} cells are finished; "
                "run the same command to continue"
            )
            raise
        return results

    def _collect(self, cell: Cell, folder: Path, lock: CellLock, echo: Echo) -> manifest.Manifest:
        if not cell.is_max:
            return run_cell(cell, folder, cell.arguments(folder, force=self.force), lock)
        probes = self.out / f".{cell.name}.probes"
        # Remove probes left by a sweep that was killed.
        shutil.rmtree(probes, ignore_errors=True)
        try:
            return self._collect_largest(cell, folder, probes, lock, echo)
        finally:
            shutil.rmtree(probes, ignore_errors=True)

    def _collect_largest(
        self, cell: Cell, folder: Path, probes: Path, lock: CellLock, echo: Echo
    ) -> manifest.Manifest:
        failed: list[Path] = []

        def fits(batch_size: int) -> bool:
            probe = probes / f"bs{batch_size}"
            begin = time.monotonic()
            changes = {**_PROBE, "batch_size": batch_size, "force": False}
            run = run_cell(cell, probe, cell.arguments(probe, **changes), lock)
            text = "fits" if run.outcome == "ok" else outcome_text(run)
            echo(f"  batch size {batch_size}: {text} ({time.monotonic() - begin:.1f} s)")
            if run.outcome == "failed":
                failed.append(probe)
                raise _ProbeFailedError
            return run.outcome == "ok"

        try:
            batch_size = largest_batch(fits, self.batch_limit)
        except _ProbeFailedError:
            # The folder of the failed probe with its logs becomes the folder of the cell.
            shutil.rmtree(folder, ignore_errors=True)
            failed[0].rename(folder)
            return manifest.read(folder)
        if batch_size == self.batch_limit:
            echo(f"  larger sizes were not tried: --max-batch-size is {self.batch_limit}")
        while True:
            size = max(1, batch_size)
            arguments = cell.arguments(folder, batch_size=size, force=True)
            run = run_cell(cell, folder, arguments, lock)
            if run.outcome != "oom" or size == 1:
                return run
            # The full run has more steps than a probe and may need slightly more memory.
            batch_size = size - max(1, size // 16)
            echo(f"  batch size {size}: {outcome_text(run)}; taking {batch_size}")


class _ProbeFailedError(Exception):
    """A probe failed for a reason other than lack of memory."""


def make_sweep(values: Mapping[str, object]) -> Sweep:
    options = given(values, OPTIONS)
    if place_in(os.environ) is not None:
        raise UsageError(
            "a sweep starts its own ranks, but RANK and WORLD_SIZE are set",
            hint="run it without torchrun or deepspeed",
        )
    if "out" not in options:
        raise UsageError("--out is missing", hint="pass a folder for the runs")
    out: Path = options["out"]
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is not a folder")
    limit = options.get("max_batch_size", MAX_BATCH_SIZE)
    return Sweep(make_grid(options), out, limit, bool(options.get("force")))


def run_sweep(values: Mapping[str, object], echo: Echo) -> dict[str, manifest.Manifest]:
    sweep = make_sweep(values)
    with signals_as_interrupt():
        return sweep.run(echo)


def check(results: Mapping[str, manifest.Manifest]) -> None:
    failed = [name for name, run in results.items() if run.outcome == "failed"]
    if failed:
        raise WorkloadError(
            f"{len(failed)} of {len(results)} cells failed: {', '.join(failed)}",
            hint="the reasons are in run.json and logs/ of each folder; run the same "
            "command to repeat only these",
        )


def largest_batch(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest batch size that fits, or 0, by doubling from 1 and bisection."""
    fitting, too_large = 0, limit + 1
    while too_large - fitting > 1:
        if too_large > limit:
            size = min(max(1, 2 * fitting), limit)
        else:
            size = (fitting + too_large) // 2
        if fits(size):
            fitting = size
        else:
            too_large = size
    return fitting


def outcome_text(run: manifest.Manifest) -> str:
    if run.outcome == "oom":
        return f"out of memory: {run.reason}"
    if run.outcome == "failed":
        return f"failed: {run.reason}"
    size = manifest.peak_bytes(run)
    memory = "?" if size is None else f"{size / GB:.2f}"
    return f"{rate_text(run)}, {memory} GB, batch size {run.batch_size}"
