"""Reads the memory timeline that torch.profiler exports as raw JSON, which HTA reads too.

`export_memory_timeline("….raw.json.gz")` writes a list of [ns, action, bytes, category], the time
-1 for what was there before (torch/profiler/_memory_profiler.py of PyTorch). It tells no address: a
release is taken for that of the youngest block of its size and category, which leaves the sums of
the categories as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_CATEGORIES = (
    *("parameters", "optimizer state", "inputs", "temporary", "activations", "gradients"),
    *("autograd detail", "unknown"),
)


class MemoryTimeline:
    """The kind of file that :class:`tracekit.ingest.pickled_trace.PickleReader` asks for events.

    Args:
        content: the decoded file. It does not say of which device it is: that is taken for 0.
    """

    def __init__(self, content: Sequence[Sequence[int]]) -> None:
        self._rows = content

    def metadata(self) -> dict[str, object]:
        """Return what it says of itself."""
        return {"profile_memory": True}

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Yield an allocator event for each row, in its order, and the time of them all."""
        times = [at_ns for at_ns, *_ in self._rows if at_ns >= 0]
        first_ns = min(times, default=0)
        yield recorded_span("memory timeline", 0, first_ns, max(times, default=0))
        blocks: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        allocated = 0
        for number, (at_ns, _action, change, category) in enumerate(self._rows, start=1):
            same = blocks[abs(change), category]
            address = number
            if change > 0:
                same.append(number)
            elif same:
                address = same.pop()
            allocated += change
            yield {
                "ph": "i",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": 0,
                "tid": 0,
                "ts": max(at_ns, first_ns),
                "args": {
                    "Device Id": 0,
                    "Addr": address,
                    "Bytes": change,
                    "Total Allocated": allocated,
                    "Category": _CATEGORIES[category],
                },
            }


def recorded_span(name: str, device: int, first_ns: int, last_ns: int) -> Mapping[str, Any]:
    """Return the event that stands for a whole recording: times count from its start."""
    return {
        "ph": "X",
        "cat": "memory_recording",
        "name": name,
        "pid": 0,
        "tid": device,
        "ts": first_ns,
        "dur": last_ns - first_ns,
    }
