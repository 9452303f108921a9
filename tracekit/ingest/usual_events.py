"""Reads the usual events of an array column by column: the fast form of the reader in Python.

:mod:`tracekit.ingest.event_reader` is the definition, event by event. What is done here for
thousands of events at once gives the same values for those that are as nearly all are; every other
one is named as odd, and left to the definition.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress
from typing import Any

import msgspec

from tracekit.event_description import (
    ARGS,
    BEGIN_PHASES,
    BINDING,
    COMPLETE_PHASE,
    DUR,
    EVENT_COLUMNS,
    EXTRA,
    ID,
    KINDS,
    LINKS,
    MAX_DUR_US,
    MAX_TIME_US,
    MIN_TIME_US,
    PID,
    SCOPE,
    TID,
    TS,
)
from tracekit.ingest.event_reader import ROW_COLUMNS, Row, with_texts
from tracekit.ingest.json_values import Raw, canonical, has_other_forms
from tracekit.ingest.plain_columns import is_nothing
from tracekit.ingest.usual_times import times_ns
from tracekit.ingest.written_numbers import whole_number
from tracekit.units import NS_PER_US

Values = Sequence[Any]
"""The values of a column, or of what it comes from."""

_MEMBERS = [
    column.name for column in EVENT_COLUMNS for _ in column.keys if column.source == "member"
]
_TYPES: dict[str, Any] = {
    **dict.fromkeys((TS.name, DUR.name, ARGS.name), Raw),
    **dict.fromkeys((PID.name, TID.name, ID.name), int | str | None),
}

_Usual = msgspec.defstruct(
    "_Usual",
    [
        (key, _TYPES.get(column.name, str | None), None)
        for column in EVENT_COLUMNS
        if column.source == "member"
        for key in column.keys
    ],
    omit_defaults=True,
    gc=False,
)
"""An event. Every value is written again as long as it was read, or shorter where its form was
another one: so what is missing behind it, a member that is twice or has no column, is missed."""

_LINK_KEYS = [(link.name, number, key) for link in LINKS for number, key in enumerate(link.keys)]
_Links = msgspec.defstruct(
    "_Links",
    [(f"{name}_{number}", int | str | None, None) for name, number, _ in _LINK_KEYS],
    rename={f"{name}_{number}": key for name, number, key in _LINK_KEYS},
    gc=False,
)
_events = msgspec.json.Decoder(list[_Usual])  # type: ignore[valid-type]
_event = msgspec.json.Decoder(_Usual)
_links = msgspec.json.Decoder(list[_Links])  # type: ignore[valid-type]
_link = msgspec.json.Decoder(_Links)
_items = msgspec.json.Decoder(list[Raw])
_encode = msgspec.json.Encoder().encode
_values_of = msgspec.structs.astuple

_NO_EVENT = _Usual()
_NO_LINKS = _Links()

_KIND_OF = {phase: kind.name for kind in KINDS if not kind.event_name for phase in kind.phases}
_NAMED_KINDS = [kind for kind in KINDS if kind.event_name]

_MIN_TIME_NS = MIN_TIME_US * NS_PER_US
_MAX_TIME_NS = MAX_TIME_US * NS_PER_US
_MAX_DUR_NS = MAX_DUR_US * NS_PER_US

_INT64 = 2**63

_OTHER_FORM = (msgspec.DecodeError, ValueError)
"""What a decoder raises where a value is of another form than usual."""


class UsualEvents:
    """The events of an array, column by column.

    Attributes:
        count: how many there are.
        columns: the values of each column of :data:`ROW_COLUMNS`, by its name: whole numbers, texts
        (those of args as UTF-8) or None.
        odd: positions of the events that are not usual, ascending; their values mean nothing.
    """

    def __init__(
        self, events: Sequence[Any], first_event_id: int, odd: set[int], *, is_short: bool
    ) -> None:
        self.count = len(events)
        self._first_event_id = first_event_id
        self._odd = odd
        self.columns: dict[str, Any] = {}
        if events:
            self._read(events, is_short=is_short)
        self.odd = sorted(odd)
        if odd:
            # Columns may share their values until some of these are replaced.
            self.columns = {name: list(values) for name, values in self.columns.items()}

    def replace(self, rows: Mapping[int, Row | None]) -> None:
        """Put other rows in the places of events; None leaves one out.

        Args:
            rows: by position.
        """
        for at, row in rows.items():
            if row is not None:
                for name, value in zip(ROW_COLUMNS, row, strict=True):
                    self.columns[name][at] = value
                args = self.columns[ARGS.name]
                args[at] = None if args[at] is None else args[at].encode()
        is_kept = [rows.get(at, ()) is not None for at in range(self.count)]
        self.count = sum(is_kept)
        if self.count < len(is_kept):
            for name, values in self.columns.items():
                self.columns[name] = list(compress(values, is_kept))

    def _read(self, events: Sequence[Any], *, is_short: bool) -> None:
        members = dict(zip(_MEMBERS, _by_field(events), strict=True))
        phases, names = members["ph"], members["name"]
        kinds = self._kinds(phases, names)
        if not _are_texts(names):
            names = [
                "" if name is None and kind == "event" else name
                for name, kind in zip(names, kinds, strict=True)
            ]
        self.columns = {
            **dict.fromkeys(ROW_COLUMNS, [None] * self.count),
            **members,
            "event_id": range(self._first_event_id, self._first_event_id + self.count),
            "view_name": kinds,
            "name": names,
            TS.name: self._starts(members[TS.name], kinds),
            DUR.name: self._durations(members[DUR.name], phases),
        }
        self._read_threads(members[PID.name], members[TID.name])
        self._read_hidden(kinds)
        self._read_arguments(members[ARGS.name], is_short=is_short)

    def _kinds(self, phases: Values, names: Values) -> Values:
        kinds = list(map(_KIND_OF.get, phases))
        present = set(phases)
        for kind in _NAMED_KINDS:
            if not present.isdisjoint(kind.phases):
                for at in _positions(kind.event_name, names):
                    if phases[at] is not None and phases[at] in kind.phases:
                        kinds[at] = kind.name
        if not present <= _KIND_OF.keys():
            self._odd.update(at for at, kind in enumerate(kinds) if kind is None)
        return kinds

    def _read_threads(self, pids: Values, tids: Values) -> None:
        """Read process and thread ids; a text that is no number stands in columns of its own."""
        texts_of: dict[str, Values] = {}
        for name, values in ((PID.name, pids), (TID.name, tids)):
            present = set(values)
            self._bound(values, -_INT64, _INT64 - 1, present)
            numbers = {value: _number_of(value) for value in present if isinstance(value, str)}
            if numbers:
                self.columns[name] = [numbers.get(value, value) for value in values]
                unnamed = {value for value, number in numbers.items() if number is None}
                if unnamed:
                    texts = [value if value in unnamed else None for value in values]
                    texts_of[name] = self.columns[f"{name}_text"] = texts
        if texts_of:
            extras: dict[tuple[Any, Any], str] = {}
            found: list[str | None] = [None] * self.count
            for at, given in enumerate(zip(*texts_of.values(), strict=True)):
                if any(text is not None for text in given):
                    key = (pids[at], tids[at])
                    if key not in extras:
                        extras[key] = _thread_texts(*key)
                    found[at] = extras[key]
            self.columns[EXTRA.name] = found

    def _starts(self, written: Values, kinds: Values) -> Values:
        starts = times_ns(written)
        for at in _gaps(starts):
            if written[at] is not None or kinds[at] != "metadata":
                self._odd.add(at)
        self._bound(starts, _MIN_TIME_NS, _MAX_TIME_NS)
        return starts

    def _durations(self, written: Values, phases: Values) -> list[int | None]:
        durations = times_ns(written)
        for at in _gaps(durations):
            if written[at] is not None or phases[at] == COMPLETE_PHASE:
                self._odd.add(at)
        self._bound(durations, 0, _MAX_DUR_NS)
        for phase in set(phases).intersection(BEGIN_PHASES):
            for at in _positions(phase, phases):
                durations[at] = None
        return durations

    def _bound(
        self, values: Values, least: int, most: int, present: Iterable[Any] | None = None
    ) -> None:
        """Call events odd whose number is not within bounds; `present` are the different values."""
        given = [value for value in present or values if isinstance(value, int)]
        if given and not least <= min(given) <= max(given) <= most:
            self._odd.update(
                at
                for at, value in enumerate(values)
                if isinstance(value, int) and not least <= value <= most
            )

    def _read_hidden(self, kinds: Values) -> None:
        """Read what only some kinds of events have a place for."""
        ids, scopes, bindings = (self.columns[column.name] for column in (ID, SCOPE, BINDING))
        if all(map(is_nothing, (ids, scopes, bindings))):
            return
        for at, (id_, scope, binding) in enumerate(zip(ids, scopes, bindings, strict=True)):
            if kinds[at] == "event":
                if id_ is not None or scope is not None or binding is not None:
                    self._odd.add(at)
            elif id_ is not None:
                if isinstance(id_, int):
                    ids[at] = str(id_)
                if kinds[at] == "flow" and _number_of(id_) is None:
                    self._odd.add(at)

    def _read_arguments(self, written: Values, *, is_short: bool) -> None:
        is_given = [value is not None for value in written]
        texts = [bytes(value) for value in written if value is not None]
        try:
            links: Sequence[Any] = _links.decode(b"[" + b",".join(texts) + b"]")
        except _OTHER_FORM:
            links = [_decoded(_link.decode, text) for text in texts]
        if not is_short:
            texts = list(map(canonical, texts))
        if len(texts) < self.count:
            texts = list(_spread(texts, is_given, None))
            links = list(_spread(links, is_given, _NO_LINKS))
        if None in links:
            self._odd.update(_positions(None, links))
            links = [_NO_LINKS if link is None else link for link in links]
        self.columns[ARGS.name] = texts
        values = map(_numbers, _by_field(links))
        for link in LINKS:
            found = next(values)
            for _ in link.keys[1:]:
                others = next(values)
                if not is_nothing(others):
                    found = [
                        other if value is None else value
                        for value, other in zip(found, others, strict=True)
                    ]
            if link.none is not None and link.none in found:
                found = [None if value == link.none else value for value in found]
            self.columns[link.name] = found


def read_usual_events(compacted: bytes, first_event_id: int) -> UsualEvents | None:
    """Read the usual events of an array.

    Args:
        compacted: a well-formed array in UTF-8 without white space.
        first_event_id: position in the file of the first event.

    Returns:
        The events; None where an item is no object.
    """
    odd: set[int] = set()
    try:
        events = _events.decode(compacted)
        is_usual = _is_whole(events, compacted)
    except _OTHER_FORM:
        is_usual = False
    if not is_usual:
        events = []
        for item in _items.decode(compacted):
            text = bytes(item)
            if not text.startswith(b"{"):
                return None
            event = _decoded(_event.decode, text)
            if event is None or not _is_whole(event, text):
                odd.add(len(events))
                event = _NO_EVENT
            events.append(event)
    return UsualEvents(events, first_event_id, odd, is_short=not has_other_forms(compacted))


def _thread_texts(pid: int | str | None, tid: int | str | None) -> str:
    texts = {"pid": None if pid is None else str(pid), "tid": None if tid is None else str(tid)}
    return with_texts(None, texts).decode()


def _decoded(decode: Callable[[bytes], Any], text: bytes) -> Any:
    """Return what a text says, None where it is of another form."""
    try:
        return decode(text)
    except _OTHER_FORM:
        return None


def _is_whole(value: Any, text: bytes) -> bool:
    """Tell whether a value says all that a text does."""
    try:
        return len(_encode(value)) == len(text)
    except OverflowError:  # A number beyond 64 bits.
        return False


def _by_field(structs: Sequence[Any]) -> list[Values]:
    """Return the values of each field of equal structs."""
    values = list(chain.from_iterable(map(_values_of, structs)))
    field_count = len(values) // len(structs)
    return [values[number::field_count] for number in range(field_count)]


def _are_texts(values: Values) -> bool:
    """Tell whether there is a text everywhere."""
    try:
        "".join(values)
    except TypeError:
        return False
    return True


def _gaps(numbers: Values) -> list[int]:
    """Return where there is no number."""
    try:
        array("q", numbers)
    except TypeError:
        return [at for at, number in enumerate(numbers) if number is None]
    except OverflowError:
        return []
    return []


def _positions(wanted: object, values: Sequence[Any]) -> Iterator[int]:
    """Yield where a value stands; done for what is rare."""
    at = -1
    for _ in range(values.count(wanted)):
        at = values.index(wanted, at + 1)
        yield at


def _spread(values: Sequence[Any], is_given: Sequence[bool], other: object) -> Iterator[Any]:
    """Yield the values in the places that have one, and something else in the others."""
    following = iter(values)
    for given in is_given:
        yield next(following) if given else other


def _numbers(values: Values) -> Values:
    """Return whole numbers of 64 bits, which may be written as texts; None for what is none."""
    if is_nothing(values):
        return values
    try:
        array("q", [value for value in values if value is not None])
    except (TypeError, OverflowError):
        return list(map(_number_of, values))
    return values


@lru_cache(4096)
def _number_of(value: int | str | None) -> int | None:
    if isinstance(value, str):
        return whole_number(value)
    return value if value is not None and -_INT64 <= value < _INT64 else None
