"""Runs items side by side where they may be, each in a process of its own, within a time.

Three lanes: an item of `gpu` has the device to itself, because it measures; items of `shared` run
side by side, a few at once; items of `cpu` look at what another left and need no device. Items
start in their order, but one of `cpu` goes ahead as soon as the item before it is done.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evidence import _records
from evidence._plan import Item

_TOKEN = "EVIDENCE_ITEM"
_POLL_S = 0.1
_GRACE_S = 5.0
_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may run at once, and until when.

    Attributes:
        shared_count: items of the lane `shared` at once.
        cpu_count: items of the lane `cpu` at once.
        start_by: the monotonic time after which only the last items start.
        end_by: when everything is ended.
    """

    shared_count: int
    cpu_count: int
    start_by: float
    end_by: float


@dataclass(slots=True)
class _Running:
    item: Item
    process: subprocess.Popen[bytes]
    token: str
    began: float
    limit_s: float
    log: Path


@dataclass(slots=True)
class Schedule:
    """The items of a part on their way.

    Args:
        items: in the order of their worth.
        limits: how many at once, how long.
        command_of: returns the command of an item and the file that it writes its record to.
        environment: of all processes.
        logs: folder for what each says.
        tell: takes a line for people.
    """

    items: Sequence[Item]
    limits: Limits
    command_of: Callable[[Item], tuple[list[str], Path]]
    environment: Mapping[str, str]
    logs: Path
    tell: Callable[[str], None]
    rows: list[dict[str, Any]] = field(default_factory=list)
    _running: list[_Running] = field(default_factory=list)
    _records: dict[str, Path] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def run(self) -> list[dict[str, Any]]:
        """Run what time allows, and return the rows of all items, in the order of the plan."""
        waiting = list(self.items)
        try:
            while waiting or self._running:
                self._settle()
                self._leave_out(waiting)
                for item in self._startable(waiting):
                    waiting.remove(item)
                    self._start(item)
                time.sleep(_POLL_S)
        finally:
            for one in self._running:
                end_all(one.token)
                one.process.wait()
        order = {item.name: number for number, item in enumerate(self.items)}
        return sorted(self.rows, key=lambda row: order[row["item"]])

    def _leave_out(self, waiting: list[Item]) -> None:
        """Leave out what can no longer start."""
        now = time.monotonic()
        for item in list(waiting):
            limit = self.limits.end_by if item.is_last else self.limits.start_by
            if now + item.least_s > limit:
                waiting.remove(item)
                self._finish(item, [_records.row(item.name, "left out", "no time was left")])

    def _startable(self, waiting: list[Item]) -> list[Item]:
        """Return the items that may start now, with those that run and with each other."""
        lanes = [one.item.lane for one in self._running]
        found: list[Item] = []
        is_blocked = False
        for item in waiting:
            if item.is_last and (self._running or found or item is not waiting[0]):
                continue
            if item.lane == "cpu":
                is_due = item.after is None or item.after in self._done
                if is_due and lanes.count("cpu") < self.limits.cpu_count:
                    found.append(item)
                    lanes.append("cpu")
                continue
            free = "gpu" not in lanes and (
                "shared" not in lanes
                if item.lane == "gpu"
                else lanes.count("shared") < self.limits.shared_count
            )
            if is_blocked or not free:
                is_blocked = True
                continue
            found.append(item)
            lanes.append(item.lane)
        return found

    def _start(self, item: Item) -> None:
        command, record = self.command_of(item)
        self._records[item.name] = record
        token = uuid.uuid4().hex
        log = self.logs / f"{item.slug}.log"
        now = time.monotonic()
        self.tell(f"start   {item.name}")
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**self.environment, _TOKEN: token},
                start_new_session=True,
            )
        end_by = self.limits.end_by if item.is_last else self.limits.start_by
        limit_s = min(item.limit_s, max(item.least_s, end_by - now))
        self._running.append(_Running(item, process, token, now, limit_s, log))

    def _settle(self) -> None:
        """Take what has ended, and end what takes too long."""
        now = time.monotonic()
        for one in list(self._running):
            code = one.process.poll()
            is_late = now - one.began > one.limit_s or now > self.limits.end_by
            if code is None and not is_late:
                continue
            end_all(one.token)
            one.process.wait()
            self._running.remove(one)
            seconds = time.monotonic() - one.began
            rows = _records.read(self._records[one.item.name])
            if code is None:
                reason = f"ended after its time limit of {one.limit_s:.0f} s"
            else:
                how = f"exit code {code}" if code >= 0 else f"signal {-code}"
                reason = f"ended by {how}"
            if code != 0 or not rows:
                last = _last_line(one.log)
                rows.append(
                    _records.row(
                        one.item.name, "failed", f"{reason}: {last}" if last else reason, seconds
                    )
                )
                rows[-1]["case"] = (
                    f"{one.item.name} (as a whole)" if len(rows) > 1 else one.item.name
                )
            self._finish(one.item, rows, seconds)

    def _finish(self, item: Item, rows: list[dict[str, Any]], seconds: float = 0.0) -> None:
        self._done.add(item.name)
        self.rows += rows
        outcomes = [row["outcome"] for row in rows]
        counted = ", ".join(
            f"{outcomes.count(name)} {name}" for name in _records.OUTCOMES if name in outcomes
        )
        self.tell(f"end     {item.name}: {counted}, {seconds:.0f} s")
        for row in rows:
            if row["outcome"] != "ok":
                self.tell(f"        {row['case']}: {row['outcome']}: {row['reason']}")


def end_all(token: str) -> None:
    """End every process that was started with a token in its environment: ask, then kill."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        found = _pids(token)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        deadline = time.monotonic() + _GRACE_S
        while _pids(token) and time.monotonic() < deadline:
            time.sleep(0.05)


def _pids(token: str) -> list[int]:
    mark = f"{_TOKEN}={token}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (path / "environ").read_bytes().split(b"\0"):
                state = (path / "stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
                if state not in ("Z", "X"):
                    found.append(int(path.name))
    return found


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
