"""Traces with injected changes, as ground truth for comparisons.

Times are integer nanoseconds. Inserted time delays later events, and prolongs running ones. If only
one kernel is running, no other GPU work changes.
"""

from __future__ import annotations

import copy
import gzip
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

Event = dict[str, Any]

_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})


class Injected:
    """A modifiable trace whose events have `start` and `end` in ns."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.top = {key: value for key, value in document.items() if key != "traceEvents"}
        self.events: list[Event] = []
        for event in document["traceEvents"]:
            event = copy.copy(event)
            if "ts" in event:
                event["start"] = _ns(event.pop("ts"))
                if "dur" in event:
                    event["end"] = event["start"] + _ns(event.pop("dur"))
            self.events.append(event)

    @classmethod
    def of(cls, path: Path) -> Injected:
        """Read a trace file with exact times."""
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        return cls(json.loads(text, parse_float=Decimal))

    def write(self, path: Path) -> Path:
        """Write the trace with exact times."""
        events = []
        for event in self.events:
            event = copy.copy(event)
            if "start" in event:
                start, end = event.pop("start"), event.pop("end", None)
                event["ts"] = Decimal(start) / 1000
                if end is not None:
                    event["dur"] = Decimal(end - start) / 1000
            events.append(event)
        encoder = msgspec.json.Encoder(decimal_format="number")
        path.write_bytes(encoder.encode({**self.top, "traceEvents": events}))
        return path

    def work(self) -> list[Event]:
        found = [event for event in self.events if event.get("cat") in _DEVICE]
        return sorted(found, key=lambda event: event["start"])

    def insert(self, moments: Iterable[tuple[int, int]]) -> None:
        """Insert time: pairs of a timestamp (before any insertion) and a duration in ns.

        Device work that ends at a timestamp is prolonged; other events are not.
        """
        ordered = sorted(moments)
        at = [moment for moment, _ in ordered]
        sums = [0]
        for _, added_ns in ordered:
            sums.append(sums[-1] + added_ns)
        for event in self.events:
            if "start" not in event:
                continue
            start = event["start"]
            # Events that begin at the timestamp are delayed; GPU work that ends there is prolonged.
            event["start"] = start + sums[bisect_right(at, start)]
            if "end" in event:
                look = bisect_right if event.get("cat") in _DEVICE else bisect_left
                event["end"] += max(sums[look(at, event["end"])], sums[bisect_right(at, start)])

    def lengthen(self, is_meant: Callable[[Event], bool], ppm: int) -> int:
        """Prolong device events by `ppm` millionths, rounded down; return the sum in ns."""
        moments = [
            (event["end"], (event["end"] - event["start"]) * ppm // 1_000_000)
            for event in self.work()
            if is_meant(event)
        ]
        self.insert(moments)
        return sum(added_ns for _, added_ns in moments)

    def rename(self, names: Callable[[str], str]) -> None:
        """Rename device events."""
        for event in self.work():
            event["name"] = names(event["name"])

    def launch_of(self, work: Event) -> Event:
        correlation = work["args"]["correlation"]
        return next(
            event
            for event in self.events
            if event.get("cat") in ("cuda_runtime", "cuda_driver")
            and event.get("args", {}).get("correlation") == correlation
        )

    def add_copy(self, behind: Event, dur_ns: int) -> None:
        """Add a copy directly after a device event, launched at the same place."""
        launch = self.launch_of(behind)
        end = behind["end"]
        self.insert([(end, dur_ns)])
        # The insertion prolonged the event, but the time belongs to the copy.
        behind["end"] = end
        correlation = 1 + max(
            (e["args"]["correlation"] for e in self.events if "correlation" in e.get("args", {})),
            default=0,
        )
        place = {key: behind["args"][key] for key in ("device", "stream")}
        added = {
            "ph": "X",
            "cat": "gpu_memcpy",
            "name": "Memcpy DtoD (Device -> Device)",
            "pid": behind["pid"],
            "tid": behind["tid"],
            "start": end,
            "end": end + dur_ns,
            "args": {**place, "correlation": correlation, "bytes": 4096},
        }
        call = copy.deepcopy(launch)
        call["name"] = "cudaMemcpyAsync"
        call["args"]["correlation"] = correlation
        call["start"] = call["end"] = launch["end"]
        self.events += [added, call]

    def fuse(self, first: Event, second: Event, name: str) -> int:
        """Fuse two adjacent kernels; return the gap between them in ns."""
        gap_ns: int = second["start"] - first["end"]
        first["end"], first["name"] = second["end"], name
        launch = self.launch_of(second)
        self.events = [
            event for event in self.events if event is not second and event is not launch
        ]
        return gap_ns


def _ns(value: int | float | Decimal) -> int:
    found = Decimal(str(value)) * 1000
    assert found == int(found), f"{value} is not an integer number of ns"
    return int(found)
