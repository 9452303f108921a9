"""Reader of Perfetto traces that tracekit exported; it restores the original events.

The format: protos/perfetto/trace of Perfetto. Only messages that :mod:`tracekit.export.perfetto`
writes are read. The numbers below are field numbers. A slice or mark on the track of a thread or
stream becomes the original event of a Chrome trace. Derived tracks are ignored. Counters and arrows
are not read, because exports mix original and derived ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from tracekit.errors import TraceError
from tracekit.ingest.formats.event_texts import EventTextReader, us_text
from tracekit.ingest.json_values import quoted, text_of
from tracekit.wire import fields, read_varint

if TYPE_CHECKING:
    from tracekit.ingest.byte_stream import ByteStream
    from tracekit.ingest.event_collector import EventRows

_PACKET = 1 << 3 | 2

_BEGIN, _END, _INSTANT = 1, 2, 3

_ARGS, _EXTRA = 2, 3
"""Name ids of annotations, as in tracekit.export.packets."""

_MAX_PACKET_BYTES = 64 << 20
"""Maximum packet size, because packets are read into memory; tracekit writes shorter ones."""

_NAME_BYTES, _OPEN_BYTES = 256, 1 << 10
"""Approximate memory of a name or track, and of an open slice, in bytes, without text."""

_THREAD = re.compile(r"process (.*), thread (.*)", re.DOTALL)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RANK = re.compile(r"rank (\d{1,9})")

_Message = dict[int, Any]
"""Values by field number. Only the last value of a repeated field is stored."""


class PerfettoReader(EventTextReader):
    def __init__(self, stream: ByteStream) -> None:
        super().__init__(stream)
        self._names: dict[int, bytes] = {}
        self._categories: dict[int, bytes] = {}
        self._names_of_groups: dict[int, str] = {}
        self._roots: dict[int, int] = {}
        self._threads: dict[bytes, tuple[bytes, bytes]] = {}
        self._tracks: dict[int, tuple[bytes, bytes] | None] = {}
        self._open: dict[int, list[tuple[int, _Message, dict[int, bytes], int]]] = {}
        self._root: int | None = None

    def blocks(self) -> Iterator[EventRows]:
        yield from self._rows(self._events())

    def _read_metadata(self) -> dict[str, object]:
        named = _RANK.fullmatch(self._names_of_groups.get(self._root or 0, ""))
        return {"distributedInfo": {"rank": int(named[1])}} if named else {}

    def unreadable(self) -> TraceError:
        return TraceError(f"{self._stream.path}: the export has no trace events")

    def _events(self) -> Iterator[bytes]:
        for text in self._packets():
            try:
                packet = _message(text)
                if 12 in packet:
                    self._intern(_message(packet[12]))
                if 60 in packet:
                    self._describe(_message(packet[60]))
                event = self._event(packet[8], packet[11]) if 11 in packet else None
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                raise self._damaged() from error
            if event is not None:
                yield event

    def _packets(self) -> Iterator[bytes]:
        """Yield the packets. Set `truncation` if the last one is incomplete."""
        rest = b""
        for chunk in self._stream:
            rest += chunk
            at = 0
            while True:
                try:
                    length, start = read_varint(rest, at + 1)
                except IndexError:
                    break
                except ValueError as error:
                    raise self._damaged() from error
                if rest[at] != _PACKET or length > _MAX_PACKET_BYTES:
                    raise self._damaged()
                if start + length > len(rest):
                    break
                at = start + length
                yield rest[start:at]
            rest = rest[at:]
        if rest or self._stream.problem:
            self.truncation = self._stream.problem or "the file ends inside a packet"

    def _damaged(self) -> TraceError:
        return TraceError(
            f"{self._stream.path}: the Perfetto export is damaged", hint="export it again"
        )

    def _intern(self, data: _Message) -> None:
        for field, names in ((1, self._categories), (2, self._names)):
            if field in data:
                entry = _message(data[field])
                names[entry[1]] = entry.get(2, b"")
                self._budget.hold(_NAME_BYTES + len(data[field]))

    def _describe(self, track: _Message) -> None:
        uuid, parent, name = track[1], track.get(5, 0), track.get(2, b"").decode()
        self._budget.hold(_NAME_BYTES)
        if parent >= uuid:
            raise ValueError(parent)
        # The track of a group is written before the tracks in it.
        root = self._roots.get(parent, parent)
        if 16 not in track:
            self._names_of_groups[uuid] = name
            self._roots[uuid] = root or uuid
            return
        # The first lane of a track has the thread's ids; other lanes have only a key.
        match = _THREAD.fullmatch(track.get(14, b"").decode())
        if match is not None:
            self._threads[track[16]] = _number_or_text(match[1]), _number_or_text(match[2])
        self._tracks[uuid] = self._threads.get(track[16])
        if self._tracks[uuid] is not None:
            if self._root not in (None, root):
                raise TraceError(
                    f"{self._stream.path}: an export of several ranks cannot be read",
                    hint="open the original traces, or export each rank separately with --ranks",
                )
            self._root = root

    def _event(self, ts_ns: int, text: bytes) -> bytes | None:
        """Return the event that the packet completes, if any."""
        annotations: dict[int, bytes] = {}
        event = _message(text, annotations)
        uuid, kind = event[11], event[9]
        if self._tracks.get(uuid) is None:
            return None
        if kind == _BEGIN:
            size = _OPEN_BYTES + len(text)
            self._budget.hold(size)
            self._open.setdefault(uuid, []).append((ts_ns, event, annotations, size))
        elif kind == _END:
            start_ns, begun, category, size = self._open[uuid].pop()
            self._budget.hold(-size)
            return self._chrome_event(uuid, b"X", start_ns, ts_ns - start_ns, begun, category)
        elif kind == _INSTANT:
            return self._chrome_event(uuid, b"i", ts_ns, None, event, annotations)
        return None

    def _chrome_event(
        self,
        uuid: int,
        phase: bytes,
        ts_ns: int,
        dur_ns: int | None,
        event: _Message,
        annotations: dict[int, bytes],
    ) -> bytes:
        pid, tid = self._tracks[uuid] or (b"null", b"null")
        name = self._names.get(event[10], b"") if 10 in event else event.get(23, b"")
        category = self._categories.get(event[3]) if 3 in event else event.get(22)
        members = [
            b'"ph":"%b"' % phase,
            b'"name":' + quoted(name.decode()),
            b'"pid":' + pid,
            b'"tid":' + tid,
            b'"ts":%b' % us_text(ts_ns),
        ]
        if category is not None:
            members.append(b'"cat":' + quoted(category.decode()))
        if dur_ns is not None:
            members.append(b'"dur":%b' % us_text(dur_ns))
        if _ARGS in annotations:
            members.append(b'"args":' + _object(annotations[_ARGS]))
        for key, value in _members.decode(_object(annotations.get(_EXTRA, b"{}"))).items():
            # `extra` also contains process and thread ids that are text.
            if key not in ("pid", "tid"):
                members.append(quoted(key) + b":" + bytes(value))
        return b"{" + b",".join(members) + b"}"


def _message(data: bytes, annotations: dict[int, bytes] | None = None) -> _Message:
    """Decode a message; store the repeated annotations of an event in `annotations`, by name id."""
    if annotations is None:
        return dict(fields(data))
    result: _Message = {}
    for field, value in fields(data):
        result[field] = value
        if field == 4:
            one = _message(value)
            annotations[one[1]] = one.get(9, b"")
    return result


def _object(written: bytes) -> bytes:
    """Return the text of an object. Exports quote objects whose numbers viewers would round."""
    return (text_of(written) or "").encode() if written.startswith(b'"') else written


def _number_or_text(text: str) -> bytes:
    return text.encode() if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else quoted(text)
