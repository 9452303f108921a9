"""Benchmark worker: `python -m tracekit.collectors.bench.worker WORK PART FIRST`.

PART is `single` (one device) or `collective`. FIRST is the number of the first point to measure: 0,
or later after a failed process. Rank 0 writes the plan of the part, a description of the machine,
and a line of JSON after each point.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tracekit.errors import TracekitError, WorkloadError

from ..process.distributed import Place, device_of, process_group
from ..process.launch import run_as_rank
from ..run.environment import probe
from ..run.manifest import write_atomically
from .point import Point, to_text
from .settings import Settings

if TYPE_CHECKING:
    import torch

SETTINGS = "settings.json"
ENVIRONMENT = "environment.json"
STORE = "store"

SINGLE, COLLECTIVE = "single", "collective"

LOST_DEVICE = 75
"""Exit code of a worker whose device is unusable; its last line contains the reason."""


class Part:
    def __init__(self, work: Path, name: str, settings: Settings) -> None:
        self.name = name
        self.families = [
            family
            for family in settings.families
            if (family == "collective") == (name == COLLECTIVE)
        ]
        self._work = work
        self._plan = work / f"plan-{name}.json"
        self.lines = work / f"lines-{name}.jsonl"

    def plan(self) -> list[Point] | None:
        try:
            text = self._plan.read_text("utf-8")
        except OSError:
            return None
        return [Point(**members) for members in json.loads(text)]

    def texts(self) -> list[str]:
        """Return the complete lines; a truncated last line is omitted."""
        try:
            text = self.lines.read_text("utf-8")
        except OSError:
            return []
        return text.split("\n")[:-1]

    def write_plan(self, points: Sequence[Point]) -> None:
        environment = msgspec.to_builtins(probe())
        (self._work / ENVIRONMENT).write_text(json.dumps(environment), "utf-8")
        write_atomically(self._plan, json.dumps([msgspec.to_builtins(point) for point in points]))

    def write_lines(self, lines: Iterable[Mapping[str, Any]]) -> None:
        with self.lines.open("a", encoding="utf-8") as file:
            for line in lines:
                file.write(to_text(line))
                file.flush()


def main(work: Path, name: str, first: int, place: Place) -> int:
    settings = Settings.read(work / SETTINGS)
    part = Part(work, name, settings)
    try:
        if name == SINGLE:
            _measure_single(settings, part, first)
        else:
            device = device_for(settings, place)
            with process_group(place, device, work / f"{STORE}-{first}"):
                measure_together(settings, place, device, part, first)
    except TracekitError as error:
        # The launcher shows the last error line of the log.
        sys.stderr.write(f"{type(error).__name__}: {error.message}\n")
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - logged, and reported by the exit code
        from .measuring import LostDeviceError

        traceback.print_exc()
        return LOST_DEVICE if isinstance(error, LostDeviceError) else WorkloadError.exit_code
    return 0


def device_for(settings: Settings, place: Place) -> torch.device:
    import torch

    if settings.device == "cpu" or settings.backend == "gloo":
        return torch.device("cpu")
    device = device_of(place)
    if device.type != "cuda" and (settings.device == "cuda" or settings.backend == "nccl"):
        raise WorkloadError("torch finds no GPU on this machine")
    return device


def measure_together(
    settings: Settings, place: Place, device: torch.device, part: Part | None, first: int
) -> None:
    from .collectives import Group
    from .measuring import measure
    from .plan import plan

    points = plan(settings, device, "collective", place.world_size)
    lines = measure(points[first:], device, settings, Group(device))
    if place.rank == 0 and part is not None:
        part.write_plan(points)
        part.write_lines(lines)
    else:
        for _ in lines:
            continue


def _measure_single(settings: Settings, part: Part, first: int) -> None:
    from .measuring import measure
    from .plan import plan

    # The device does not depend on `backend`, which is only for collectives.
    device = device_for(replace(settings, backend=None), Place(0, 0, 1))
    points = [point for family in part.families for point in plan(settings, device, family, 1)]
    part.write_plan(points)
    part.write_lines(measure(points[first:], device, settings))


if __name__ == "__main__":
    run_as_rank(partial(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
