"""Timeline events as packed text: columns of numbers, gzipped and base64-encoded."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tracekit.analysis.result import Result
from tracekit.palette import GREY, INK, KIND, PHASE
from tracekit.palette import classes as colours_of_classes
from tracekit.plot._encoding import of_number

_COLUMNS = ("start", "dur", "kind", "name", "class", "phase", "module", "event", "path")

_MAX_NAME = 400
"""Maximum length of a displayed name in characters, because template names can be very long."""

MAX_NAMES = 2_000_000
"""Maximum total length of all kernel names, and of all module names, in characters."""


class _Names:
    """Numbers for names; -1 means no name."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: str | None) -> int:
        if name is None:
            return -1
        return self.numbers.setdefault(name, len(self.numbers))

    def name_length(self) -> int:
        """Return the length to which names must be truncated to fit into :data:`MAX_NAMES`."""
        lengths = sorted(map(len, self.numbers))
        room = MAX_NAMES
        for at, length in enumerate(lengths):
            remaining = len(lengths) - at
            if length * remaining > room:
                return min(room // remaining, _MAX_NAME)
            room -= length
        return _MAX_NAME


_HOST = "host"
"""Kind of host ops, which have no class and no phase."""


def packed_events(result: Result, path: Result | None = None, host: Result | None = None) -> str:
    """Return the rows of analyses timeline_events and timeline_host as base64 of gzipped JSON.

    "path" is 1 for events on the critical path of the rank with the longest path. Starts are
    differences from the previous event of the same stream. Tiles (several events drawn as one) have
    separate lists: index, event count, and total duration. "cut" is the length to which names were
    truncated, or 0.
    """
    names, classes, phases, kinds, modules = (_Names() for _ in range(5))
    tracks: dict[tuple[Any, ...], dict[str, Any]] = {}
    last: dict[tuple[Any, ...], int] = {}
    on_path = _on_path(path)
    has_ranks = any(rank is not None for rank in result.column("rank"))
    word = of_number(result.column("device"))
    for row in [*result.rows, *_host_rows(host)]:
        trace_id, rank, device, stream, event_id, start, dur, kind = row[:8]
        name, klass, phase, module, count, busy = row[8:]
        key = (trace_id, device, stream)
        track = tracks.get(key)
        if track is None:
            of_rank = f"rank {'?' if rank is None else rank} · " if has_ranks else ""
            numbered = word if has_ranks else "device "
            where = of_rank + (device if device == _HOST else f"{numbered}{device}")
            track = {column: [] for column in _COLUMNS}
            track |= {
                "label": f"{where} · {'thread' if device in ('cpu', _HOST) else 'stream'} {stream}",
                "trace": trace_id,
                "tiles": [],
            }
            tracks[key] = track
            last[key] = 0
        if event_id is None:
            track["tiles"].append((len(track["start"]), count, busy))
        track["start"].append(start - last[key])
        last[key] = start
        track["dur"].append(dur)
        track["kind"].append(kinds.number(kind))
        track["name"].append(names.number(name))
        track["class"].append(classes.number(klass or "(short events)"))
        track["phase"].append(phases.number(phase or "(short events)"))
        track["module"].append(modules.number(module))
        track["event"].append(-1 if event_id is None else event_id)
        track["path"].append(int((rank, event_id) in on_path))
    name_length = min(names.name_length(), modules.name_length())
    content = {
        "tracks": [*tracks.values()],
        "names": [name[:name_length] for name in names.numbers],
        "modules": [name[:name_length] for name in modules.numbers],
        "cut": name_length
        if any(len(name) > name_length for name in (*names.numbers, *modules.numbers))
        else 0,
        "kinds": [*kinds.numbers],
        "classes": [*classes.numbers],
        "phases": [*phases.numbers],
        "colours": {
            "kind": [(KIND | {_HOST: INK})[kind].light for kind in kinds.numbers],
            "class": [colour.light for colour in colours_of_classes([*classes.numbers]).values()],
            "phase": [PHASE.get(phase, GREY).light for phase in phases.numbers],
        },
    }
    text = json.dumps(content, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


def _host_rows(host: Result | None) -> Iterator[tuple[Any, ...]]:
    """Yield host ops as rows of timeline_events, with a stream per thread."""
    for row in host.to_dicts() if host is not None else ():
        place = (row["trace_id"], row["rank"], _HOST, row["tid"], row["event_id"])
        times = (row["start_ns"], row["dur_ns"])
        yield (*place, *times, _HOST, row["name"], "(host)", "(host)", None, 1, row["dur_ns"])


def _on_path(path: Result | None) -> set[tuple[int | None, int]]:
    """Return rank and event_id of the events on the longest critical path."""
    if path is None or not path.rows:
        return set()
    rows = path.to_dicts()
    length: Counter[int | None] = Counter()
    for row in rows:
        length[row["rank"]] += row["path_ns"]
    ((longest, _),) = length.most_common(1)
    return {
        (row["of_rank"], row["event_id"])
        for row in rows
        if row["rank"] == longest and row["kind"] in ("work", "transfer")
    }


def event_counts(result: Result) -> Mapping[str, int]:
    """Return the number of individual events, of events in tiles, and of tiles."""
    place = result.column_names.index("event_id")
    counts = result.column_names.index("event_count")
    alone = sum(row[place] is not None for row in result.rows)
    in_tiles = sum(row[counts] for row in result.rows if row[place] is None)
    return {"alone": alone, "in_tiles": in_tiles, "tiles": len(result.rows) - alone}
