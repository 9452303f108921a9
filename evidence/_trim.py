"""Cut a trace of torch's profiler down to its first steps, so that it can be brought back.

What is kept is kept as it stands, byte for byte: the text of each event is copied. A device event
is kept if the call that launched it is.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_STEP = re.compile(r"(?:tk/step/|ProfilerStep#)\d+")
_SPACE = re.compile(r"[\s,]*")
_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"})
_LAUNCH = frozenset({"cuda_runtime", "cuda_driver"})
_MARK = "tracekit_trimmed"


def trim(source: Path, target: Path, step_count: int = 1) -> bool:
    """Write a trace that holds the first steps of another.

    Args:
        source: `.json.gz`, as the profiler of torch writes it.
        target: `.json.gz`.
        step_count: how many steps to keep.

    Returns:
        Whether anything was cut; if not (no marks of steps, or no more of them), nothing is
        written.
    """
    text = gzip.decompress(source.read_bytes()).decode("utf-8", "surrogateescape")
    head = _EVENTS.search(text)
    if head is None:
        return False
    events = list(_events(text, head.end()))
    steps = sorted(
        (event["ts"], event["ts"] + event["dur"])
        for _, _, event in events
        if event.get("ph") == "X"
        and event.get("cat") == "user_annotation"
        and _STEP.fullmatch(str(event.get("name")))
    )
    # Both kinds of marks may be there, one inside of the other.
    starts = [step for n, step in enumerate(steps) if n == 0 or step[0] >= steps[n - 1][1]]
    if len(starts) <= step_count:
        return False
    begin, end = starts[0][0], starts[step_count][0]
    kept = _kept_correlations(events, begin, end)
    tail = text.index("]", events[-1][1])
    mark = f'"{_MARK}": "the first {step_count} of {len(starts)} steps",\n'
    with gzip.open(target, "wt", 9, encoding="utf-8", errors="surrogateescape") as file:
        file.write(text[: head.start()] + mark + text[head.start() : head.end()])
        separator = "\n"
        for first, last, event in events:
            if _is_kept(event, begin, end, kept):
                file.write(separator + text[first:last])
                separator = ",\n"
        file.write("\n" + text[tail:])
    return True


def _events(text: str, start: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield where each event begins and ends in the text, and the event."""
    decoder = json.JSONDecoder()
    at = start
    while True:
        found = _SPACE.match(text, at)
        at = found.end() if found else at
        if text[at] == "]":
            return
        event, end = decoder.raw_decode(text, at)
        yield at, end, event
        at = end


def _kept_correlations(
    events: list[tuple[int, int, dict[str, Any]]], begin: float, end: float
) -> set[Any]:
    """Return the correlations of the launches within some time."""
    return {
        event["args"].get("correlation")
        for _, _, event in events
        if event.get("cat") in _LAUNCH and begin <= event["ts"] < end and "args" in event
    }


def _is_kept(event: dict[str, Any], begin: float, end: float, kept: set[Any]) -> bool:
    phase, category = event.get("ph"), event.get("cat")
    if phase == "M" or "ts" not in event:
        return True
    if category in _DEVICE and "correlation" in event.get("args", {}):
        return event["args"]["correlation"] in kept
    if category == "ac2g":
        return event.get("id") in kept
    if category == "Trace":
        return True
    return bool(begin <= event["ts"] < end)
