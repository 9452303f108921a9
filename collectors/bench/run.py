"""A bench run: its folder, worker processes, and manifest.

Separate processes measure the points. After a crash, a hang, or the loss of a device, only one
point fails, and a new process continues. After an interrupt, the finished points remain as an
`incomplete` run.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracekit import manifest
from tracekit.errors import TracekitError, WorkloadError

from ..machine.hardware import accelerator_count, core_count
from ..process.distributed import place_in, process_group
from ..process.ending import signals_as_interrupt
from ..process.launch import Failure, run_ranks
from ..progress import ProgressLine
from ..run.environment import probe, require
from ..run.folder import RunFolder, default_target
from ..run.manifest import manifest_of
from . import worker
from .point import FILE_NAME, Point, line_of, to_text
from .settings import Settings, validated
from .worker import Part

Echo = Callable[[str], None]

_MAX_DEATHS = 3
# Load average per core above which a machine counts as busy.
_BUSY_SHARE = 0.5
_MAX_REASONS = 3
_WIDTH = 79


def run(what: str, values: Mapping[str, object], command: list[str], echo: Echo) -> Path | None:
    """Measure the selected points and return the run folder.

    With RANK and WORLD_SIZE in the environment, this process is one of the ranks that run
    collectives. Rank 0 also measures all other points; the other ranks return None.
    """
    settings, rest = validated(what, values)
    require({"torch": "torch"}, "tracekit bench")
    target = rest.get("out") or default_target("bench", what)
    place = place_in(os.environ)
    if place is not None and place.rank > 0:
        _take_part(settings, None)
        return None
    with signals_as_interrupt(), RunFolder(target, force=bool(rest.get("force"))) as folder:
        settings.write(folder.work / worker.SETTINGS)
        bench = _Bench(settings, folder)
        is_interrupted = False
        stopped = None
        try:
            if place is not None:
                # Collectives come first, because the other ranks measure nothing else.
                bench.parts.reverse()
                _take_part(settings, bench.parts[0])
                bench.measure(bench.parts[1])
            else:
                for part in bench.parts:
                    bench.measure(part)
        except KeyboardInterrupt:
            if not bench.has_lines():
                raise
            is_interrupted = True
            stopped = "interrupted"
        except Exception as error:
            # Under torchrun, tracekit cannot restart ranks, so the run ends with partial results.
            if place is None or isinstance(error, TracekitError) or not bench.has_lines():
                raise
            traceback.print_exc()
            stopped = f"a rank failed ({type(error).__name__}: {error})"
        result = bench.finish(command, stopped, None if place is None else place.world_size)
        folder.commit(result)
    for note in result.notes:
        echo(f"note: {note}")
    if is_interrupted:
        echo(f"{target}: {result.reason}")
        raise KeyboardInterrupt
    if result.outcome != "ok":
        raise WorkloadError(f"{target}: {result.reason}", hint=f"see the logs in {target}/logs")
    return target


def _take_part(settings: Settings, part: Part | None) -> None:
    place = place_in(os.environ)
    if place is None or "collective" not in settings.families:
        return
    with signals_as_interrupt():
        device = worker.device_for(settings, place)
        with process_group(place, device, None):
            worker.measure_together(settings, place, device, part, 0)


class _HangError(Exception):
    """A point exceeds the time limit."""


class _Bench:
    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        self._settings = settings
        self._folder = folder
        names = (worker.SINGLE, worker.COLLECTIVE)
        self.parts = [Part(folder.work, name, settings) for name in names]
        self._rank_count = 1
        self._load = os.getloadavg()[0]

    def has_lines(self) -> bool:
        return any(part.texts() for part in self.parts)

    def measure(self, part: Part) -> None:
        if not part.families:
            return
        rank_count = _rank_count(self._settings) if part.name == worker.COLLECTIVE else 1
        self._rank_count = max(self._rank_count, rank_count)
        deaths = 0
        while True:
            first = len(part.texts())
            failure, reason = self._run(part, first, rank_count)
            done, points = len(part.texts()), part.plan()
            if points is None:
                assert failure is not None
                raise WorkloadError(f"{self._folder.target}: nothing could be measured: {failure}")
            if done >= len(points):
                return
            deaths = deaths + 1 if done <= first + 1 else 1
            if failure is None or failure.exit_code != worker.LOST_DEVICE:
                _add_failed(part, [points[done]], reason)
                done += 1
            if deaths >= _MAX_DEATHS:
                reason = f"skipped: {deaths} processes failed in a row"
                _add_failed(part, points[done:], reason)
                return

    def _run(self, part: Part, first: int, rank_count: int) -> tuple[Failure | None, str]:
        limit_s = self._settings.most_point_s
        module = ["-m", "tracekit.collectors.bench.worker"]
        logs = self._folder.logs / (part.name if not first else f"{part.name}-{first}")
        logs.mkdir(exist_ok=True)
        # A single process keeps the user's OMP_WAIT_POLICY instead of the default for ranks.
        waiting = {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY")}
        with ProgressLine() as line:
            try:
                failure = run_ranks(
                    [*module, str(self._folder.work), part.name, str(first)],
                    rank_count,
                    logs,
                    environment=waiting if rank_count == 1 else {},
                    watch=_Watch(part, limit_s, line).look,
                )
            except _HangError:
                return None, f"no result within {limit_s:.0f} s"
        if failure is None:
            return None, "the process ended without a result"
        who = "the process" if rank_count == 1 else f"rank {failure.rank}"
        return failure, f"{who} died: {failure}"

    def finish(
        self, command: list[str], stopped: str | None, world_size: int | None
    ) -> manifest.Manifest:
        texts = [text for part in self.parts for text in part.texts()]
        lines = [{"bench_id": number, **json.loads(text)} for number, text in enumerate(texts)]
        with (self._folder.path / FILE_NAME).open("w", encoding="utf-8") as file:
            file.writelines(map(to_text, lines))
        rank_count = world_size or self._rank_count
        outcomes = Counter(line["outcome"] for line in lines)
        plans = [part.plan() for part in self.parts if part.families]
        # None if a part has no plan yet.
        planned = None if None in plans else sum(len(points or ()) for points in plans)
        outcome: manifest.Outcome = "ok"
        reason = None
        if stopped is not None:
            outcome = "incomplete"
            of_all = f" of {planned}" if planned is not None else ""
            reason = f"{stopped} after {len(lines)}{of_all} points"
        elif not outcomes["ok"]:
            outcome = "failed"
            why = lines[0]["reason"] if lines else "no point of that kind on this device"
            reason = f"no point could be measured: {why}"
        return manifest_of(
            "bench",
            "torch",
            command,
            outcome=outcome,
            reason=reason,
            parallel=manifest.Parallel(world_size=rank_count, data_size=rank_count),
            steps=manifest.Steps(repeat_count=0),
            environment=self._environment(),
            notes=[*_load_note(self._load), *_notes(lines, outcomes)] if outcomes["ok"] else [],
            extra={
                "families": list(self._settings.families),
                "seconds_per_point": self._settings.point_s,
                "width_pct": self._settings.width_pct,
                "planned_count": planned,
                "load_before": self._load,
            },
        )

    def _environment(self) -> manifest.Environment:
        try:
            members = json.loads((self._folder.work / worker.ENVIRONMENT).read_text("utf-8"))
        except OSError:
            return probe()
        return manifest.Environment(**members)


class _Watch:
    def __init__(self, part: Part, limit_s: float, line: ProgressLine) -> None:
        self._part = part
        self._limit_s = limit_s
        self._line = line
        self._points: list[Point] | None = None
        self._offset = self._done = 0
        self._since_s = time.monotonic()

    def look(self) -> None:
        if self._points is None:
            self._points = self._part.plan()
        with contextlib.suppress(OSError), self._part.lines.open("rb") as f:
            f.seek(self._offset)
            added = f.read()
            if added:
                self._offset += len(added)
                self._done += added.count(b"\n")
                self._since_s = time.monotonic()
        if self._points is not None and self._done < len(self._points):
            point = self._points[self._done]
            text = f"{point.family}: {self._done + 1} of {len(self._points)}  {point}"[:_WIDTH]
            self._line.show(text, topic=text)
        if time.monotonic() - self._since_s > self._limit_s:
            raise _HangError


def _add_failed(part: Part, points: Sequence[Point], reason: str) -> None:
    lines = [line_of(point, None, outcome="failed", reason=reason) for point in points]
    # Drop the incomplete line of a process that died while writing it.
    text = "".join(f"{text}\n" for text in part.texts()) + "".join(map(to_text, lines))
    part.lines.write_text(text, "utf-8")


def _rank_count(settings: Settings) -> int:
    if settings.rank_count is not None:
        return settings.rank_count
    is_on_gpus = settings.device != "cpu" and settings.backend != "gloo"
    return (accelerator_count() if is_on_gpus else 0) or 2


def _load_note(load: float) -> list[str]:
    cores = core_count()
    if load < _BUSY_SHARE * cores:
        return []
    note = f"other programs were running at the start (load {load:.1f} on {cores} cores)"
    return [f"{note}: host times are longer than the machine needs"]


def _notes(lines: list[dict[str, Any]], outcomes: Mapping[str, int]) -> list[str]:
    notes = []
    for outcome, meaning in (
        ("oom", "did not fit into memory"),
        ("unsupported", "are not supported here"),
        ("failed", "failed"),
    ):
        if not outcomes.get(outcome):
            continue
        reasons = Counter(line["reason"] for line in lines if line["outcome"] == outcome)
        shown = "; ".join(str(reason) for reason, _ in reasons.most_common(_MAX_REASONS))
        count = outcomes[outcome]
        notes.append(f"{count} point{'' if count == 1 else 's'} {meaning}: {shown}")
    return notes
