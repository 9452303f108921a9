"""Traces with injected changes, as ground truth for comparisons.

Times are integer nanoseconds. Inserted time delays later events, and prolongs running ones. If only
one kernel is running, no other GPU work changes.
"""

import copy
import gzip
import json
from bisect import bisect_left, bisect_right
from decimal import Decimal

import msgspec

_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})


class Injected:
    """A modifiable trace whose events have `start` and `end` in ns."""

    def __init__(self, document):
        self.top = {key: value for key, value in document.items() if key != "traceEvents"}
        self.events = []
        for event in document["traceEvents"]:
            event = copy.copy(event)
            if "ts" in event:
                event["start"] = _ns(event.pop("ts"))
                if "dur" in event:
                    event["end"] = event["start"] + _ns(event.pop("dur"))
            self.events.append(event)

    @classmethod
    def of(cls, path):
        """Read a trace file with exact times."""
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        return cls(json.loads(text, parse_float=Decimal))

    def write(self, path):
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

    def work(self):
        found = [event for event in self.events if event.get("cat") in _DEVICE]
        return sorted(found, key=lambda event: event["start"])

    def insert(self, moments):
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

    def lengthen(self, is_meant, ppm):
        """Prolong device events by `ppm` millionths, rounded down; return the sum in ns."""
        moments = [
            (event["end"], (event["end"] - event["start"]) * ppm // 1_000_000)
            for event in self.work()
            if is_meant(event)
        ]
        self.insert(moments)
        return sum(added_ns for _, added_ns in moments)

    def rename(self, names):
        """Rename device events."""
        for event in self.work():
            event["name"] = names(event["name"])

    def launch_of(self, work):
        correlation = work["args"]["correlation"]
        return next(
            event
            for event in self.events
            if event.get("cat") in ("cuda_runtime", "cuda_driver")
            and event.get("args", {}).get("correlation") == correlation
        )

    def add_copy(self, behind, dur_ns):
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

    def fuse(self, first, second, name):
        """Fuse two adjacent kernels; return the gap between them in ns."""
        gap_ns = second["start"] - first["end"]
        first["end"], first["name"] = second["end"], name
        launch = self.launch_of(second)
        self.events = [
            event for event in self.events if event is not second and event is not launch
        ]
        return gap_ns


def _ns(value):
    found = Decimal(str(value)) * 1000
    assert found == int(found), f"{value} is not an integer number of ns"
    return int(found)
