"""Converts one unusual trace event to a row of table record, or returns the reason why it cannot.

The C parser (native/) reads almost all events; this module reads the others.
:mod:`tracekit.event_description` maps members and arguments to columns;
:mod:`tracekit.ingest.formats.chrome_trace` finds the events in a file.

The values of a row are integers, strings, or None, in the order of :data:`ROW_COLUMNS`.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Any

import msgspec

from tracekit.event_description import (
    BEGIN_PHASES,
    COMPLETE_PHASE,
    KINDS,
    LINKS,
    MAX_DUR_US,
    MAX_TIME_US,
    MEMBER_KEYS,
    MIN_TIME_US,
)
from tracekit.ingest.json_values import Raw, canonical, quoted, text_of
from tracekit.ingest.repair import has_duplicate_keys
from tracekit.native import Row
from tracekit.units import NS_PER_US

ROW_COLUMNS = (
    *("event_id", "view_name", "ph", "pid", "tid", "pid_text", "tid_text", "category", "name"),
    *("ts_ns", "dur_ns"),
    *(link.name for link in LINKS),
    *("id", "scope", "binding", "args", "extra"),
)
"""Columns of table record, and two additional columns for non-numeric process and thread ids."""

# msgspec validates Raw values without decoding them. The default None avoids creating a Raw.
_Event = msgspec.defstruct(
    "_Event", [(key, Raw, None) for key in MEMBER_KEYS], omit_defaults=True, gc=False
)
_Arguments = msgspec.defstruct(
    "_Arguments",
    [
        (f"_{number}_{link.name}", Raw, None)
        for number in range(max(len(link.keys) for link in LINKS))
        for link in LINKS
        if number < len(link.keys)
    ],
    rename={
        f"_{number}_{link.name}": key for link in LINKS for number, key in enumerate(link.keys)
    },
    gc=False,
)
_event = msgspec.json.Decoder(_Event)
_members = msgspec.json.Decoder(dict[str, Raw])
_arguments = msgspec.json.Decoder(_Arguments)
_encode = msgspec.json.Encoder().encode
_values_of = msgspec.structs.astuple

_KIND_OF: dict[str | None, str] = {
    phase: kind.name for kind in KINDS if not kind.event_name for phase in kind.phases
}
_KIND_OF_NAME: dict[tuple[str | None, str | None], str] = {
    (phase, kind.event_name): kind.name
    for kind in KINDS
    if kind.event_name
    for phase in kind.phases
}
_NO_LINKS: tuple[int | None, ...] = (None,) * len(LINKS)
_NO_ARGUMENTS = (None,) * len(_Arguments.__struct_fields__)
_LINK_NUMBERS = {link.name: number for number, link in enumerate(LINKS)}
_OTHER_KEYS = [
    (number, _LINK_NUMBERS[field.split("_", 2)[2]])
    for number, field in enumerate(_Arguments.__struct_fields__)
    if number >= len(LINKS)
]
_NO_NUMBERS = [(number, link.none) for number, link in enumerate(LINKS) if link.none is not None]

_SHORT_DIGITS = 18
"""Maximum number of decimal digits that always fit in 64 bits."""

_SHORT_BYTES = 512
"""Maximum length of a cached string. Names, categories, and ids repeat."""

_short_text = lru_cache(4096)(text_of)

_NS_DIGITS = 3

_MIN_TIME_NS = MIN_TIME_US * NS_PER_US
_MAX_TIME_NS = MAX_TIME_US * NS_PER_US
_MAX_DUR_NS = MAX_DUR_US * NS_PER_US


def read_event(text: bytes, event_id: int) -> tuple[Row | str, str | None]:
    """Return the row or the reason for rejection, and a description of repairs or None.

    `text` is a well-formed JSON object in UTF-8. If it is nested too deeply for the decoder, a
    `RecursionError` is raised. The last of several members with the same key is used.
    """
    text = msgspec.json.format(text, indent=-1)
    event = _event.decode(text)
    if len(_encode(event)) == len(text):
        return _row(event, event_id, None), None
    members = _members.decode(text)
    known = {key: value for key, value in members.items() if key in MEMBER_KEYS}
    extra = {key: value for key, value in members.items() if key not in MEMBER_KEYS}
    row = _row(_Event(**known), event_id, canonical(_encode(extra)) if extra else None)
    is_mended = len(_encode(members)) != len(text) and has_duplicate_keys(text)
    return row, "duplicate key" if is_mended else None


def _row(event: Any, event_id: int, extra: bytes | None) -> Row | str:
    phase, name = _text(event.ph), _text(event.name)
    kind = _KIND_OF_NAME.get((phase, name)) or _KIND_OF.get(phase)
    if kind is None:
        return "no phase (ph)" if phase is None else f"unsupported phase {phase}"
    ts_ns: int | str | None = _start_ns(event.ts)
    dur_ns: int | str | None = _dur_ns(event.dur)
    if isinstance(ts_ns, str):
        if kind != "metadata":
            return ts_ns
        ts_ns = None
    if isinstance(dur_ns, str):
        if phase == COMPLETE_PHASE:
            # If the profiler lost the start of an event, ts is 0, and dur is the end time.
            return dur_ns if ts_ns != 0 else f"ts is 0, and {dur_ns}"
        dur_ns = None
    elif phase is not None and phase in BEGIN_PHASES:
        # A begin event has no `dur`: its end event determines the duration.
        dur_ns = None
    pid, pid_text = _thread(event.pid)
    tid, tid_text = _thread(event.tid)
    id_ = scope = binding = None
    if event.id is not None or event.s is not None or event.bp is not None:
        id_, scope, binding = _text(event.id), _text(event.s), _text(event.bp)
    # Members without a column in the view of this kind of event.
    hidden: dict[str, str | None] = {}
    if pid_text is not None or tid_text is not None:
        hidden = {"pid": _text(event.pid), "tid": _text(event.tid)}
    elif kind == "event":
        if id_ is not None or scope is not None or binding is not None:
            hidden = {"id": id_, "s": scope, "bp": binding}
    elif kind == "flow" and id_ is not None and integer_of(id_) is None:
        hidden = {"id": id_}
    if hidden:
        extra = _with_texts(extra, hidden)
    links = _NO_LINKS
    args: str | None = None
    if event.args is not None:
        written = bytes(event.args)
        if written != b"null":
            links, args = _argument_columns(written), canonical(written).decode()
    return (
        event_id,
        kind,
        phase,
        pid,
        tid,
        pid_text,
        tid_text,
        _text(event.cat),
        name or "" if kind == "event" else name,
        ts_ns,
        dur_ns,
        *links,
        id_,
        scope,
        binding,
        args,
        None if extra is None else extra.decode(),
    )


def _text(value: Raw | None) -> str | None:
    if value is None:
        return None
    written = bytes(value)
    return _short_text(written) if len(written) < _SHORT_BYTES else text_of(written)


def _thread(value: Raw | None) -> tuple[int | None, str | None]:
    """Return a process or thread id as a number, or as a string if it is not a number."""
    return (None, None) if value is None else _thread_of(bytes(value))


@lru_cache(1024)
def _thread_of(value: bytes) -> tuple[int | None, str | None]:
    number = _integer(value)
    return number, text_of(value) if number is None else None


def _argument_columns(args: bytes) -> tuple[int | None, ...]:
    try:
        values = _values_of(_arguments.decode(args))
    except msgspec.ValidationError:  # Not an object.
        return _NO_LINKS
    if values == _NO_ARGUMENTS:
        return _NO_LINKS
    numbers = [None if value is None else _integer(bytes(value)) for value in values]
    for number, link in _OTHER_KEYS:
        if numbers[link] is None:
            numbers[link] = numbers[number]
    for link, none in _NO_NUMBERS:
        if numbers[link] == none:
            numbers[link] = None
    return tuple(numbers[: len(LINKS)])


def _integer(value: bytes) -> int | None:
    if value.isdigit() and len(value) < _SHORT_DIGITS:
        return int(value)
    if value[1:-1].isdigit() and value.startswith(b'"') and len(value) < _SHORT_DIGITS:
        return int(value[1:-1])
    text = text_of(value)
    return None if text is None else integer_of(text)


def _start_ns(value: Raw | None) -> int | str:
    ns = _us_to_ns(value)
    if isinstance(ns, int):
        return ns if _MIN_TIME_NS <= ns <= _MAX_TIME_NS else "ts is out of range"
    if ns is None:
        return "no ts"
    if isinstance(ns, str):
        return f"ts {ns}"
    return ns_of(ns) if MIN_TIME_US <= ns <= MAX_TIME_US else "ts is out of range"


def _dur_ns(value: Raw | None) -> int | str:
    ns = _us_to_ns(value)
    if isinstance(ns, int):
        return ns if ns <= _MAX_DUR_NS else "dur is out of range"
    if ns is None:
        return "no dur"
    if isinstance(ns, str):
        return f"dur {ns}"
    if ns < 0:
        return "negative dur"
    return ns_of(ns) if ns <= MAX_DUR_US else "dur is out of range"


def _us_to_ns(value: Raw | None) -> int | Decimal | str | None:
    """Convert short, nonnegative µs with at most three decimals to integer ns.

    For other values, return µs as a Decimal, an error message if the value is not a number, or None
    if it is missing.
    """
    if value is None:
        return None
    written = bytes(value)
    whole, point, fraction = written.partition(b".")
    if whole.isdigit() and len(whole) < _SHORT_DIGITS:
        if not point:
            return int(whole) * NS_PER_US
        if fraction.isdigit() and len(fraction) <= _NS_DIGITS:
            return int(whole + fraction.ljust(_NS_DIGITS, b"0"))
    text = text_of(written)
    if text is None:
        return None
    number = decimal_of(text)
    return "is not a number" if number is None else number


def _with_texts(extra: bytes | None, texts: dict[str, str | None]) -> bytes:
    added = b",".join(
        quoted(key) + b":" + quoted(text) for key, text in texts.items() if text is not None
    )
    return b"{" + added + b"}" if extra is None else extra[:-1] + b"," + added + b"}"


_DECIMAL = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_HEXADECIMAL = re.compile(r"\s*(0[xX][0-9a-fA-F]+)\s*", re.ASCII)

_LARGEST = Decimal("1.7976931348623157e308")

_MAX_CHARACTERS = 4096
_exact = Context(prec=_MAX_CHARACTERS + 10)


def decimal_of(text: str) -> Decimal | None:
    if len(text) > _MAX_CHARACTERS or not _DECIMAL.fullmatch(text):
        return None
    try:
        number = Decimal(text.strip())
    except ArithmeticError:  # The exponent is out of range.
        return None
    return number if number.copy_abs() <= _LARGEST else None


def ns_of(us: Decimal) -> int:
    """Convert µs to ns, rounded half to even."""
    return int(_exact.multiply(us, NS_PER_US).to_integral_value(ROUND_HALF_EVEN))


def integer_of(text: str) -> int | None:
    """Return a 64-bit integer, or None if the text is not one.

    AMD's traces contain hexadecimal integers such as ``0x7``.
    """
    match = _HEXADECIMAL.fullmatch(text)
    if match:
        number = int(match[1], 16)
    else:
        value = decimal_of(text)
        if value is None or value.copy_abs() >= 2**64 or value != value.to_integral_value():
            return None
        number = int(value)
    return number if -(2**63) <= number < 2**63 else None
