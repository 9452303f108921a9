"""Creates a large trace by repeating a real one.

Every repetition is shifted in time by the length of the original. Ids (correlation, External id,
flow id, Python id, Ev Idx, Sequence number, and similar) are shifted to be unique, so links stay
inside a repetition. The original's formatting is preserved to the byte, including decimals of
timestamps, which move by integer microseconds. Metadata events are written once.

    python make_trace.py trace.json.gz big.json --gb 2

Memory depends on the original, not on the requested size.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

# Ids that must differ between repetitions; ids of a group refer to each other.
ID_GROUPS: tuple[tuple[str, ...], ...] = (
    ("correlation", "External id", "External Id", "external id"),
    ("Python id", "Python parent id"),
    ("Ev Idx",),
    ("Sequence number",),
    ("Record function id",),
)
# In these ids, 0 means none.
ZERO_IS_NONE = {*ID_GROUPS[0], "Record function id"}

GROUP_OF = {name: group for group, names in enumerate(ID_GROUPS) for name in names}
STEP_GROUP = len(ID_GROUPS)
TIME_GROUP = STEP_GROUP + 1
# A flow from a launch to its kernel has their correlation as its id.
GROUP_OF |= {"id": GROUP_OF["correlation"], "step": STEP_GROUP, "ts": TIME_GROUP}

_NUMBER = rb'(?<!\\)"(?P<name>%s)"\s*:\s*"?(?P<value>\d+)' % "|".join(GROUP_OF).encode()
_STEP = rb'(?<!\\)"name"\s*:\s*"ProfilerStep#(?P<step>\d+)'
_MOVED = re.compile(_NUMBER + b"|" + _STEP)
_DURATION = re.compile(rb'(?<!\\)"dur"\s*:\s*"?(?P<value>\d+)')


class Pattern(NamedTuple):
    """The original, split at changing numbers: texts[0], numbers[0], texts[1], and so on.

    `groups` has, for each number, the index of its change per repetition in `strides`.
    """

    head: bytes
    tail: bytes
    texts: list[bytes]
    numbers: list[int]
    groups: list[int]
    strides: list[int]
    metadata: bytes
    event_count: int


def raw_events(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each event in the text of a trace."""
    if data.lstrip()[:1] == b"[":
        events, at = msgspec.json.decode(data, type=list[msgspec.Raw]), data.index(b"[")
    else:
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        listed = bytes(members["traceEvents"])
        events, at = msgspec.json.decode(listed, type=list[msgspec.Raw]), data.index(listed)
    for event in events:
        text = bytes(event)
        at = data.index(text, at)
        yield at, at + len(text)
        at += len(text)


def read_pattern(data: bytes) -> Pattern:
    """Split a trace into constant texts and changing numbers."""
    phase_of = msgspec.json.Decoder(msgspec.defstruct("Phase", [("ph", str, "")]))
    texts: list[bytes] = [b""]
    numbers: list[int] = []
    groups: list[int] = []
    metadata: list[bytes] = []
    first, previous = None, None
    first_us, last_us, event_count = sys.maxsize, 0, 0
    for start, end in raw_events(data):
        first = start if first is None else first
        separator = b"" if previous is None else data[previous:start]
        text = data[start:end]
        previous = end
        phase = phase_of.decode(text).ph
        if phase == "M":
            metadata.append(text)
            continue
        # The first event of a repetition follows the last event of the previous repetition.
        at = 0
        texts[-1] += (separator or b",\n") if event_count else b""
        event_count += 1
        seen = set()
        for one in _MOVED.finditer(text):
            name = "step" if one["step"] else one["name"].decode()
            value = int(one["step"] or one["value"])
            # The first "ts" and "id" are members of the event; others are arguments.
            own = name in {"ts", "id"}
            if own and (name in seen or (name == "id" and phase not in "stf")):
                continue
            if value == 0 and name in ZERO_IS_NONE:
                continue
            seen.add(name)
            begin, stop = one.span("step" if one["step"] else "value")
            texts[-1] += text[at:begin]
            texts.append(b"")
            numbers.append(value)
            groups.append(GROUP_OF[name])
            at = stop
            if name == "ts":
                duration = _DURATION.search(text)
                first_us = min(first_us, value)
                last_us = max(last_us, value + (int(duration["value"]) if duration else 0))
        texts[-1] += text[at:]
    if first is None or previous is None or not event_count:
        raise SystemExit("the trace has no events to repeat")
    strides = [0] * (TIME_GROUP + 1)
    for number, group in zip(numbers, groups, strict=True):
        strides[group] = max(strides[group], number + 1)
    strides[TIME_GROUP] = last_us - first_us + 1_000
    steps = [n for n, group in zip(numbers, groups, strict=True) if group == STEP_GROUP]
    strides[STEP_GROUP] = max(steps, default=0) - min(steps, default=0) + 1
    return Pattern(
        head=data[:first],
        tail=data[previous:],
        texts=texts,
        numbers=numbers,
        groups=groups,
        strides=strides,
        metadata=b",\n".join(metadata),
        event_count=event_count,
    )


def repetition(pattern: Pattern, nth: int) -> bytes:
    """Return the text of the nth repetition, without a comma at its end."""
    shifts = [nth * stride for stride in pattern.strides]
    parts: list[bytes] = [b""] * (2 * len(pattern.numbers) + 1)
    parts[::2] = pattern.texts
    parts[1::2] = [
        b"%d" % (number + shifts[group])
        for number, group in zip(pattern.numbers, pattern.groups, strict=True)
    ]
    return b"".join(parts)


def write_trace(pattern: Pattern, out: BinaryIO, size_bytes: int) -> tuple[int, int]:
    """Write repetitions up to a minimum size; return the size and the number of repetitions."""
    written = out.write(pattern.head + pattern.metadata)
    nth = 0
    while nth == 0 or written + len(pattern.tail) < size_bytes:
        first = nth == 0 and not pattern.metadata
        written += out.write((b"" if first else b",\n") + repetition(pattern, nth))
        nth += 1
    return written + out.write(pattern.tail), nth


def main() -> None:
    """Parse the arguments and write the file, under a temporary name first."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("trace", type=Path, help="the trace to repeat, .json or .json.gz")
    parser.add_argument("out", type=Path, help="the file to write; .gz is compressed")
    parser.add_argument(
        "--gb", type=float, default=1.0, help="size of the JSON text, GB = 1e9 bytes"
    )
    args = parser.parse_args()
    data = args.trace.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    pattern = read_pattern(data)
    partial = args.out.with_name(args.out.name + ".part")
    with ExitStack() as stack:
        out: BinaryIO = stack.enter_context(partial.open("wb"))
        if args.out.suffix == ".gz":
            out = stack.enter_context(gzip.GzipFile("", "wb", compresslevel=1, fileobj=out))
        written, count = write_trace(pattern, out, int(args.gb * 1e9))
    partial.replace(args.out)
    events = count * pattern.event_count
    print(f"{args.out}: {written:,} bytes of JSON, {events:,} events, {count} repetitions")


if __name__ == "__main__":
    main()
