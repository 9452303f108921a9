"""Host stacks for flame graphs: one line per stack, or a file for speedscope.

A stack consists of a thread and its nested spans: Python calls, ranges, ops, and runtime calls. If
stacks are weighted by device time, a stack ends in a kernel. Its weight in ns is the host self time
of the last span, or the device busy time of the kernel. So weights add up to the time that threads
spend in any span, or to the busy time of all devices.

Formats: collapsed stacks for flamegraph.pl (https://github.com/brendangregg/FlameGraph), and
speedscope's format (https://www.speedscope.app/file-format-schema.json).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct, field

from tracekit.export.packets import BLOCK_BYTES
from tracekit.trace import Trace

Weight = Literal["host", "device"]
"""Weight of a stack: self time of its last span, or busy time of its kernel."""

UNLAUNCHED = "(launch not in the trace)"

_ENDS = re.compile(r"[;\s]+")
"""Characters that separate frames or lines, and are replaced in names."""

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_ROWS = """
    SELECT trace_id, pid, tid, event_id, parent_id, kernel, coalesce(kernel, name), {weight}_ns
    FROM stack_frames
    WHERE kernel IS NULL OR {weight}_ns > 0
    ORDER BY place NULLS LAST, trace_id, kernel NULLS FIRST
"""
_THREADS = """
    SELECT s.trace_id, s.pid, s.tid, concat_ws(' ',
        if((SELECT count(*) FROM trace) > 1, 'rank ' || coalesce(r.rank, s.trace_id), NULL),
        coalesce(t.thread_name, 'thread'),
        if(contains(t.thread_name, s.tid::VARCHAR), NULL, coalesce(t.tid_text, s.tid::VARCHAR)))
    FROM (SELECT DISTINCT trace_id, pid, tid FROM host_spans) AS s
    INNER JOIN trace AS r USING (trace_id)
    LEFT JOIN thread AS t USING (trace_id, pid, tid)
"""


class Stacks(Struct):
    """Stacks as a tree: each node has a name, a parent (-1 for a thread), and a weight."""

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    weights_ns: list[int] = field(default_factory=list)
    _numbers: dict[tuple[int, str], int] = field(default_factory=dict)

    def node(self, parent: int, name: str) -> int:
        number = self._numbers.setdefault((parent, name), len(self.names))
        if number == len(self.names):
            self.names.append(name)
            self.parents.append(parent)
            self.weights_ns.append(0)
        return number

    def weighed(self) -> Iterator[tuple[list[str], int]]:
        """Yield each stack that has a weight, from the thread inward, with the weight in ns."""
        for number, weight_ns in enumerate(self.weights_ns):
            if weight_ns:
                path, at = [], number
                while at >= 0:
                    path.append(self.names[at])
                    at = self.parents[at]
                yield path[::-1], weight_ns


def read_stacks(trace: Trace, weight: Weight) -> Stacks:
    threads = {row[:3]: row[3] for row in trace.sql(_THREADS).rows}
    stacks = Stacks()
    # Open spans of the thread as pairs of event and node; the first pair is the thread itself.
    opened: list[tuple[int | None, int]] = []
    thread = None
    statement = _ROWS.format(weight="host" if weight == "host" else "wall")
    for *place, event_id, parent_id, kernel, name, weight_ns in trace.stream_sql(statement).rows:
        if tuple(place) != thread or not opened:
            thread = tuple(place)
            opened = [(None, stacks.node(-1, threads.get(thread, UNLAUNCHED)))]
        around = event_id if kernel is not None else parent_id
        while len(opened) > 1 and opened[-1][0] != around:
            opened.pop()
        node = stacks.node(opened[-1][1], name or "(unnamed)")
        stacks.weights_ns[node] += weight_ns
        if kernel is None:
            opened.append((event_id, node))
    return stacks


def write_collapsed(stacks: Stacks, write: Callable[[bytes], object]) -> None:
    """Write one line per stack: its frames, separated by `;`, then a space and the weight in ns."""
    lines = (
        f"{';'.join(_ENDS.sub(' ', name) for name in path)} {weight_ns}\n".encode()
        for path, weight_ns in stacks.weighed()
    )
    _write_blocks(lines, write)


def write_speedscope(stacks: Stacks, write: Callable[[bytes], object]) -> None:
    """Write JSON for speedscope: one sampled profile per thread, with every stack once."""
    _write_blocks(_speedscope(stacks), write)


def _speedscope(stacks: Stacks) -> Iterator[bytes]:
    numbers: dict[str, int] = {}
    profiles: dict[str, tuple[list[list[int]], list[int]]] = {}
    for (thread, *frames), weight_ns in stacks.weighed():
        samples, weights = profiles.setdefault(thread, ([], []))
        samples.append([numbers.setdefault(name, len(numbers)) for name in frames])
        weights.append(weight_ns)
    yield b'{"$schema": "%s", "exporter": "tracekit", "profiles": [' % _SCHEMA.encode()
    for place, (thread, (samples, weights)) in enumerate(profiles.items()):
        profile = {
            "type": "sampled",
            "name": thread,
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": sum(weights),
            "samples": samples,
            "weights": weights,
        }
        yield (",\n" if place else "\n").encode() + json.dumps(profile).encode()
    yield b'\n], "shared": {"frames": ['
    for place, name in enumerate(numbers):
        yield (",\n" if place else "\n").encode() + json.dumps({"name": name}).encode()
    yield b"\n]}}\n"


def _write_blocks(texts: Iterator[bytes], write: Callable[[bytes], object]) -> None:
    block = bytearray()
    for text in texts:
        block += text
        if len(block) >= BLOCK_BYTES:
            write(bytes(block))
            block.clear()
    write(bytes(block))
