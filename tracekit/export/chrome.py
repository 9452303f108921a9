"""A trace as Chrome's JSON, for the viewers that read nothing else.

The format: "Trace Event Format" (Google, 2016). What it cannot say: groups of tracks lie in
processes and no deeper; a counter has no unit; slices that overlap need a thread of their own. Its
times are in µs: they are written with three decimals, which are exact as text, and count from the
start of the export, because viewers read them as doubles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tracekit.export.chrome_encoder import ChromeEncoder
from tracekit.export.exporting import export
from tracekit.export.packets import BLOCK_BYTES
from tracekit.export.scene import Row
from tracekit.export.selection import Scope, Selection
from tracekit.export.written import Exported

if TYPE_CHECKING:
    from tracekit.trace import Trace

LOST = (
    "Chrome's JSON has no groups within groups and no units of counters: "
    "tracekit export perfetto has them"
)

_MAX_TEXTS = 200_000
"""The JSON of further names is made each time: memory has to stay bounded."""


def export_chrome(
    trace: Trace,
    write: Callable[[bytes], object],
    selection: Selection | None = None,
    *,
    args: bool = True,
) -> Exported:
    """Write traces as Chrome's JSON; the arguments and errors are those of export_perfetto()."""
    firsts = dict(trace.sql("SELECT trace_id, first_ts_ns FROM trace").rows)

    def writer_of(scope: Scope) -> ChromeWriter:
        origin_ns = min(firsts[part.trace_id] + part.shift_ns for part in scope.parts)
        return ChromeWriter(write, origin_ns)

    return export(trace, writer_of, selection, args=args, lost=LOST)


class ChromeWriter:
    """Writes the events of one JSON file in blocks.

    Args:
        write: takes a block.
        origin_ns: the time that is 0 in the file, ns on the axis of the export.
    """

    def __init__(self, write: Callable[[bytes], object], origin_ns: int) -> None:
        self._number = 0
        self._groups: dict[int, str] = {}
        self._texts: dict[str, bytes] = {}
        self._encoder = ChromeEncoder(write, BLOCK_BYTES, origin_ns, self._texts, self._text_of)
        head = b'{"baseTimeNanoseconds": %d, "traceEvents": [\n' % origin_ns
        # Something has to stand before the first comma.
        self._encoder.add(b'{"ph": "M", "name": "tracekit", "pid": 0, "args": {}}', head)

    @property
    def slice_count(self) -> int:
        """Slices written so far."""
        return self._encoder.slice_count

    def group(self, name: str, parent: int = 0, rank: int = 0, about: str = "") -> int:
        """Write a group of tracks: a process; return its number."""
        del rank
        self._number += 1
        whole = f"{self._groups[parent]} · {name}" if parent else name
        self._groups[self._number] = whole
        self._named("process_name", self._number, 0, "name", whole)
        # Numbers are given in the order in which the groups shall stand.
        self._named("process_sort_index", self._number, 0, "sort_index", self._number)
        if about:
            self._named("process_labels", self._number, 0, "labels", about)
        return self._number

    def track(
        self, name: str, parent: int, rank: int, about: str = "", *, is_flat: bool = False
    ) -> Any:
        """Return a track for slices; it has a thread with its first slice."""
        del about

        def new_lane(lane: int) -> bytes:
            self._number += 1
            thread = self._number
            whole = name if lane == 0 else f"{name} · {lane + 1}"
            self._named("thread_name", parent, thread, "name", whole)
            self._named("thread_sort_index", parent, thread, "sort_index", rank)
            return b'"pid": %d, "tid": %d' % (parent, thread)

        return self._encoder.track(new_lane, is_flat)

    def slices(self, track: Any, rows: Iterable[Row], skip: int) -> int:
        """Write slices; those of a track come by start, of equal starts the longer first."""
        return self._encoder.slices(track, rows, skip)

    def finish(self, track: Any) -> None:
        """Say that no more slices come on a track."""
        self._encoder.finish(track)

    def instants(self, track: Any, rows: Iterable[Row], skip: int) -> int:
        """Write marks on a track."""
        return self._encoder.instants(track, rows, skip)

    def counter(self, name: str, parent: int, rank: int, unit: str) -> bytes:
        """Return what the values of a counter begin with; its unit is part of its name."""
        del rank
        whole = json.dumps(f"{name} ({unit})" if unit else name).encode()
        return b'{"ph": "C", "pid": %d, "name": %b, ' % (parent, whole)

    def values(self, counter: bytes, rows: Iterable[Row], skip: int) -> None:
        """Write the values that a counter has, each from a time on."""
        self._encoder.values(counter, rows, skip)

    def flush(self) -> None:
        """Write the end of the file."""
        self._encoder.add(b"\n]}\n", b"")
        self._encoder.flush()

    def _named(self, what: str, process: int, thread: int, key: str, value: str | int) -> None:
        self._encoder.add(
            b'{"ph": "M", "name": "%b", "pid": %d, "tid": %d, "args": {"%b": %b}}'
            % (what.encode(), process, thread, key.encode(), json.dumps(value).encode())
        )

    def _text_of(self, text: str) -> bytes:
        found = json.dumps(text).encode()
        if len(self._texts) < _MAX_TEXTS:
            self._texts[text] = found
        return found
