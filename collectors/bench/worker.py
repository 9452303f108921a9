"""One process that measures: `python -m tracekit.collectors.bench.worker WORK PART FIRST`.

`run` starts it. WORK is the run's working folder with the settings; PART is `single` for what one
process measures and `collective` for what all ranks do together; FIRST is the number of the point
to begin with, 0 unless a process before ended in the middle. Rank 0 leaves the plan of the part, a
description of the machine, and a line for each point as soon as it is measured.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import TracekitError, WorkloadError

from ..process.distributed import Place, device_of, place_in, process_group
from ..process.parent import TO_LAUNCHER
from ..run.environment import probe
from .point import Point, to_text
from .settings import Settings

if TYPE_CHECKING:
    import torch

SETTINGS = "settings.json"
ENVIRONMENT = "environment.json"
STORE = "store"

SINGLE, COLLECTIVE = PARTS = ("single", "collective")

LOST_DEVICE = 75
"""Exit code of a worker whose device takes no work any more; its last line says why."""


def plan_path(work: Path, part: str) -> Path:
    """Return where the plan of a part lies."""
    return work / f"plan-{part}.json"


def lines_path(work: Path, part: str) -> Path:
    """Return where the lines of a part lie."""
    return work / f"lines-{part}.jsonl"


def read_plan(work: Path, part: str) -> list[Point] | None:
    """Return the plan of a part, None if none was made yet."""
    try:
        text = plan_path(work, part).read_text("utf-8")
    except OSError:
        return None
    return [Point(**members) for members in json.loads(text)]


def families_of(settings: Settings, part: str) -> tuple[str, ...]:
    """Return the families that a part measures."""
    return tuple(
        family for family in settings.families if (family == "collective") == (part == COLLECTIVE)
    )


def main(arguments: list[str]) -> int:
    """Measure and return the exit code: 0 if every point has its line."""
    TO_LAUNCHER.hold()
    work, part, first = Path(arguments[0]), arguments[1], int(arguments[2])
    settings = Settings.read(work / SETTINGS)
    place = place_in(os.environ)
    if place is None:
        raise WorkloadError("a worker needs RANK and WORLD_SIZE")
    exit_code = 0
    try:
        if part == SINGLE:
            _measure_single(settings, work, first)
        else:
            device = device_for(settings, place)
            with process_group(place, device, work / f"{STORE}-{first}"):
                measure_together(settings, place, device, work, first)
    except TracekitError as error:
        # For the launcher, which shows the last line that tells of an error.
        sys.stderr.write(f"{type(error).__name__}: {error.message}\n")
        exit_code = error.exit_code
    except Exception as error:  # noqa: BLE001 - the log has it, the exit code says it
        from .measuring import LostDeviceError

        traceback.print_exc()
        exit_code = LOST_DEVICE if isinstance(error, LostDeviceError) else WorkloadError.exit_code
    # Interpreter shutdown with live communicators can hang or crash; everything is on disk.
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(exit_code)


def device_for(settings: Settings, place: Place) -> torch.device:
    """Return where a rank measures, and make it the current device.

    Raises:
        WorkloadError: a GPU was asked for, and there is none.
    """
    import torch

    on_cpu = settings.device == "cpu" or settings.backend == "gloo"
    if on_cpu:
        return torch.device("cpu")
    device = device_of(place)
    if device.type != "cuda" and "cuda" in (settings.device, _device_of_backend(settings)):
        raise WorkloadError("torch finds no GPU here")
    return device


def _device_of_backend(settings: Settings) -> str | None:
    return "cuda" if settings.backend == "nccl" else None


def measure_together(
    settings: Settings, place: Place, device: torch.device, work: Path | None, first: int
) -> None:
    """Measure the collectives as one of the ranks; the process group is there.

    Args:
        settings: what was asked for.
        place: which rank this is.
        device: its device.
        work: takes the plan and the lines of rank 0.
        first: the number of the point to begin with.
    """
    from .collectives import Group
    from .measuring import measure
    from .plan import plan

    points = plan(settings, device, "collective", place.world_size)
    own_work = work if place.rank == 0 else None
    _leave_plan(own_work, COLLECTIVE, points)
    lines = measure(points[first:], device, settings, Group(device))
    _leave_lines(own_work, COLLECTIVE, lines)


def _measure_single(settings: Settings, work: Path, first: int) -> None:
    from .measuring import measure
    from .plan import plan

    # Not by `backend`, which is of collectives.
    device = device_for(dataclasses.replace(settings, backend=None), Place(0, 0, 1))
    families = families_of(settings, SINGLE)
    points = [point for family in families for point in plan(settings, device, family, 1)]
    _leave_plan(work, SINGLE, points)
    _leave_lines(work, SINGLE, measure(points[first:], device, settings))


def _leave_plan(work: Path | None, part: str, points: Sequence[Point]) -> None:
    if work is None:
        return
    environment = dataclasses.asdict(probe())
    (work / ENVIRONMENT).write_text(json.dumps(environment), "utf-8")
    path = plan_path(work, part)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps([dataclasses.asdict(point) for point in points]), "utf-8")
    partial.replace(path)


def _leave_lines(work: Path | None, part: str, lines: Any) -> None:
    if work is None:
        for _ in lines:
            continue
        return
    with lines_path(work, part).open("a", encoding="utf-8") as file:
        for line in lines:
            file.write(to_text(line))
            file.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
