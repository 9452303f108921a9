"""Actions of host threads in the simulated machine's program, as data.

Durations are integer ns. Streams have numbers, and events have names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Busy:
    """The thread works for itself."""

    ns: int


@dataclass(frozen=True, slots=True)
class Span:
    """An op, a range or a Python call around other actions."""

    category: str
    name: str
    inside: tuple[Action, ...]
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel or a copy. For a collective, ns is the transfer without waiting."""

    name: str
    stream: int
    ns: int
    gap_ns: int  # at least so long after the work before it on its stream
    category: str = "kernel"
    args: Mapping[str, Any] = field(default_factory=dict)
    collective: int | None = None  # its number, the same on all ranks


@dataclass(frozen=True, slots=True)
class Launch:
    """A call that puts work on the device; a graph replay puts there several in their order."""

    call: str
    call_ns: int
    latency_ns: int
    work: tuple[Work, ...]
    waits: bool = False  # until its work is done
    graph: int | None = None  # number of the graph that is replayed


@dataclass(frozen=True, slots=True)
class Record:
    """An event is recorded on a stream; each has its name for itself."""

    event: str
    stream: int
    call_ns: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A stream waits for an event."""

    event: str
    stream: int
    call_ns: int


@dataclass(frozen=True, slots=True)
class Synchronise:
    """The thread waits for a stream, or for the device if None."""

    call_ns: int
    stream: int | None = None


@dataclass(frozen=True, slots=True)
class Backward:
    """Autograd's thread runs these, and the calling thread waits for it."""

    inside: tuple[Action, ...]
    there_ns: int  # from one thread to the other
    back_ns: int


@dataclass(frozen=True, slots=True)
class NextBatch:
    """The thread creates a batch, or receives it from a worker."""

    number: int
    load_ns: int
    take_ns: int


Action = Busy | Span | Launch | Record | Wait | Synchronise | Backward | NextBatch
Actions = tuple[Action, ...]


def works_of(action: Action) -> Iterator[Work]:
    """Yield the work that an action launches."""
    if isinstance(action, Launch):
        yield from action.work
    elif isinstance(action, Span | Backward):
        for inner in action.inside:
            yield from works_of(inner)
