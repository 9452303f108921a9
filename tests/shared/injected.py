"""Traces with injected changes, as ground truth for comparisons.

Times are integer nanoseconds. Inserted time delays later events, and prolongs running ones. If only
one kernel is running, no other GPU work changes.
"""

import copy
import json
from bisect import bisect_left, bisect_right

_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})


class Injected:
    """A modifiable trace whose events have `start` and `end` in ns."""

    def __init__(self, events):
        self.events = [
            event | {"start": round(1000 * event["ts"])}
            | {"end": round(1000 * (event["ts"] + event["dur"]))}
            for event in events
        ]  # fmt: skip

    def write(self, path):
        """Write the trace with exact times."""
        events = [
            event | {"ts": event["start"] / 1000, "dur": (event["end"] - event["start"]) / 1000}
            for event in self.events
        ]
        path.write_text(json.dumps({"traceEvents": events}), "utf-8")
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
            start = event["start"]
            # Events that begin at the timestamp are delayed; GPU work that ends there is prolonged.
            event["start"] = start + sums[bisect_right(at, start)]
            look = bisect_right if event["cat"] in _DEVICE else bisect_left
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
            if event["cat"] == "cuda_runtime" and event["args"]["correlation"] == correlation
        )

    def add_copy(self, behind, dur_ns):
        """Add a copy directly after a device event, launched at the same place."""
        launch, end = self.launch_of(behind), behind["end"]
        self.insert([(end, dur_ns)])
        # The insertion prolonged the event, but the time belongs to the copy.
        behind["end"] = end
        added, call = copy.deepcopy([behind, launch])
        added |= {"cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)"}
        added |= {"start": end, "end": end + dur_ns}
        call |= {"name": "cudaMemcpyAsync", "start": launch["end"], "end": launch["end"]}
        added["args"]["correlation"] = call["args"]["correlation"] = 9_999
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
