"""A real trace as what every rank of a made-up run does.

Its collectives cut its time into stretches. On another rank a stretch takes as long as that rank
needs for it, and a collective until the last rank is there; whatever else happens is moved along,
in order, as if the clock of the file went faster or slower. So everything keeps its nesting, and
what runs beside a collective takes longer with it.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from made_runs.files import collective_kernel, us
from made_runs.simulation import Done
from made_runs.step import Collective, Op, Work

Event = dict[str, Any]

_KINDS = (
    ("reducescatter", re.compile(r"(?i)reduce_?scatter")),
    ("allgather", re.compile(r"(?i)all_?gather")),
    ("allreduce", re.compile(r"(?i)all_?reduce")),
    ("alltoall", re.compile(r"(?i)all_?to_?all|send_?recv")),
)
_LEAST_TRANSFER_NS = 1_000


def kind_of(event: Event) -> str | None:
    """Return which collective a kernel is; None for any other event."""
    if event.get("cat") != "kernel" or not re.search(r"(?i)nccl|rccl", str(event.get("name"))):
        return None
    text = str(event.get("args", {}).get("Collective name") or event["name"])
    return next((kind for kind, pattern in _KINDS if pattern.search(text)), "allreduce")


class Template:
    """A trace that is read once.

    Args:
        path: the file, plain or gzip.
        dimension: which group of a rank a collective kernel is one of; "data" for all by default.
        max_events: take no more events than this, the first ones in time.
    """

    def __init__(
        self,
        path: Path,
        dimension: Callable[[Event], str] | None = None,
        max_events: int | None = None,
    ) -> None:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            read = json.load(file, parse_float=Decimal)["traceEvents"]
        spans = [event for event in read if event.get("ph") == "X" and "ts" in event]
        self.plain = [
            json.dumps(event, default=_number) for event in read if event.get("ph") == "M"
        ]
        spans.sort(key=lambda event: event["ts"])
        spans = spans[:max_events]
        starts = [_ns(event["ts"]) for event in spans]
        ends = [s + _ns(event.get("dur", 0)) for s, event in zip(starts, spans, strict=True)]
        first = min(starts)
        self.starts = [start - first for start in starts]
        self.ends = [end - first for end in ends]
        self.length_ns = max(self.ends)
        self.collectives: list[int] = []
        self._ops: list[Collective] = []
        busy_until = 0
        for place, event in enumerate(spans):
            kind = kind_of(event)
            # One that runs beside another moves along with it.
            if kind is None or self.starts[place] < busy_until:
                continue
            busy_until = self.ends[place]
            dur_ns = max(self.ends[place] - self.starts[place], _LEAST_TRANSFER_NS)
            nelems = int(event.get("args", {}).get("In msg nelems") or 1_000_000)
            group = dimension(event) if dimension else "data"
            self._ops.append(Collective(group, kind, nelems, dur_ns, "other"))  # type: ignore[arg-type]
            self.collectives.append(place)
        self._texts = [_halves(event) for event in spans]
        self._events = {place: spans[place] for place in self.collectives}
        bounds = [0]
        for place in self.collectives:
            bounds += [self.starts[place], self.ends[place]]
        self._bounds = [*bounds, self.length_ns]
        self._at = [
            (self._stretch(start), self._stretch(end))
            for start, end in zip(self.starts, self.ends, strict=True)
        ]

    def _stretch(self, time_ns: int) -> int:
        return min(bisect_right(self._bounds, time_ns) - 1, len(self._bounds) - 2)

    def program(self) -> list[list[Op]]:
        """Return the one step of every rank: stretches of work, and collectives between them."""
        ops: list[Op] = []
        for place, op in enumerate(self._ops):
            start, end = self._bounds[2 * place], self._bounds[2 * place + 1]
            ops += [Work("stretch", "other", end - start), op]
        ops.append(Work("stretch", "other", self._bounds[-1] - self._bounds[-2]))
        return [ops]

    def events(self, done: Sequence[Done], clock_ns: int) -> Iterator[str]:
        """Yield the events of a rank as JSON."""
        met = [one for one in done if one.group is not None]
        bounds = [done[0].start_ns]
        for one in met:
            bounds += [one.start_ns, one.end_ns]
        bounds.append(done[-1].end_ns)
        own = self._bounds
        lengths = [max(b - a, 1) for a, b in pairwise(own)]
        now = [b - a for a, b in pairwise(bounds)]

        def moved(time_ns: int, stretch: int) -> int:
            into = time_ns - own[stretch]
            return bounds[stretch] + into * now[stretch] // lengths[stretch]

        yield from self.plain
        collective = dict(zip(self.collectives, met, strict=True))
        for place, (head, tail) in enumerate(self._texts):
            one = collective.get(place)
            if one is not None:
                yield self._collective(place, one, clock_ns)
                continue
            at_start, at_end = self._at[place]
            start = moved(self.starts[place], at_start)
            dur = moved(self.ends[place], at_end) - start
            yield f'{head}{us(start + clock_ns)}, "dur": {us(dur)}{tail}'

    def _collective(self, place: int, one: Done, clock_ns: int) -> str:
        event = self._events[place]
        _, told = collective_kernel(one)
        args = {**event.get("args", {}), **told}
        head, tail = _halves({**event, "args": args})
        return f'{head}{us(one.start_ns + clock_ns)}, "dur": {us(one.end_ns - one.start_ns)}{tail}'


def _ns(time_us: Decimal | int) -> int:
    return int(Decimal(time_us) * 1000)


def _halves(event: Event) -> tuple[str, str]:
    """Return the text of an event before and behind its start and duration."""
    rest = {key: value for key, value in event.items() if key not in ("ts", "dur")}
    args = rest.pop("args", None)
    head = json.dumps(rest, default=_number)[:-1] + ', "ts": '
    return head, "}" if args is None else f', "args": {json.dumps(args, default=_number)}}}'


def _number(value: object) -> float:
    assert isinstance(value, Decimal)
    return float(value)
