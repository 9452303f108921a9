"""Reads the metadata of a trace: all members except the events. Rejects text after the trace."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from itertools import islice

import msgspec

from tracekit.ingest.faults import Faults
from tracekit.ingest.repair import repair_object

# Possessive quantifiers do not backtrack. With backtracking, matching an unterminated string takes
# a hundred bytes of memory per character.
_JSON_TOKEN_OR_COMMA = re.compile(r'"(?:[^"\\]++|\\.)*+["\\]?|[{}\[\],]', re.DOTALL)


_MEMBER = re.compile(r'\s*(?P<separator>[{,])\s*(?P<name>"(?:[^"\\]|\\.)*+")\s*:\s*')

# Members that tracekit uses, with names that log text inside a trace does not have as keys.
_KNOWN_MEMBER = re.compile(
    r'[{,]\s*"(?P<name>schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds'
    r"|displayTimeUnit|record_shapes|with_stack|with_modules|with_flops|profile_memory"
    r'|tracekit_rank|tracekit_world_size|host_name|trace_id|traceName)"\s*:\s*'
)


_MAX_BYTES = 4 << 20
"""Maximum size of the text around the events that is decoded as one value, to limit memory."""

_MAX_KNOWN, _MAX_KNOWN_LENGTH = 100, 1 << 20
"""Maximum number of matches of `_KNOWN_MEMBER` that are decoded, and maximum length of each."""


class OutsideText:
    """Text of a trace outside its arrays of events, as pieces with their offsets."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, bytes]] = []

    def add(self, byte_offset: int, text: bytes) -> None:
        self._pieces.append((byte_offset, text))

    def drop_last(self) -> None:
        self._pieces.pop()

    def metadata(self, faults: Faults) -> tuple[dict[str, object], str | None]:
        """Return all members except the events, and the reason for a truncated file or None."""
        text = b"".join(piece for _, piece in self._pieces)
        stripped = text.strip()
        if not stripped or stripped.startswith(b"["):
            self._reject_trailing(text.lstrip()[2:] if stripped.startswith(b"[]") else b"", faults)
            return {}, None
        # NaN and Infinity are not JSON and become null.
        decoder = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
        decoded = text.decode("utf-8", "surrogateescape")
        start = len(decoded) - len(decoded.lstrip())
        is_long = len(text) > _MAX_BYTES
        is_cut = not is_long and _is_cut_off(stripped)
        truncation = "the file ends before its closing brace" if is_cut else None
        candidates = () if is_long else (decoded, _closed(decoded)) if is_cut else (decoded,)
        for candidate in candidates:
            try:
                value, end = decoder.raw_decode(candidate, start)
            except (ValueError, RecursionError):
                continue
            if not is_cut:
                rest = candidate[end:].encode("utf-8", "surrogateescape")
                self._reject_trailing(rest, faults)
            return _without_events(value), truncation
        mended = None if is_long else repair_object(stripped)
        if mended is not None:
            faults.repair(-1, 0, f"metadata: {mended[1]}")
            return _without_events(json.loads(mended[0])), truncation
        members, end = _readable_members(decoder, decoded, start)
        rest = decoded[end:].encode("utf-8", "surrogateescape")
        why = "longer than 4 MiB" if is_long else "not valid JSON"
        faults.reject(self._offset_of_rest(rest), f"the metadata around the events is {why}", rest)
        return _without_events(members), truncation

    def _reject_trailing(self, rest: bytes, faults: Faults) -> None:
        shown = rest.strip()
        if shown:
            offset = self._offset_of_rest(rest[rest.index(shown) :])
            faults.reject(offset, "text after the end of the trace", shown)

    def _offset_of_rest(self, rest: bytes) -> int:
        behind = sum(len(piece) for _, piece in self._pieces) - len(rest)
        offset = behind
        for piece_offset, piece in self._pieces:
            if behind < len(piece):
                return piece_offset + behind
            behind -= len(piece)
        return offset


def _readable_members(
    decoder: json.JSONDecoder, text: str, start: int
) -> tuple[dict[str, object], int]:
    """Return the readable members of a damaged object, and where the damage begins.

    The result has all members before the damage, and the members after it that tracekit uses.
    """
    members: dict[str, object] = {}
    end = start
    separator = "{"
    with contextlib.suppress(ValueError, RecursionError):
        front = text[:_MAX_BYTES]
        while (match := _MEMBER.match(front, end)) and match["separator"] == separator:
            value, after = decoder.raw_decode(front, match.end())
            members[json.loads(match["name"])] = value
            end, separator = after, ","
    for match in islice(_KNOWN_MEMBER.finditer(text, end), _MAX_KNOWN):
        value_text = text[match.end() : match.end() + _MAX_KNOWN_LENGTH]
        with contextlib.suppress(ValueError, RecursionError):
            members.setdefault(match["name"], decoder.raw_decode(value_text)[0])
    return members, end


def _without_events(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        return {}
    return {key: member for key, member in value.items() if key != "traceEvents"}


def _is_cut_off(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        return False
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    return False


def _closed(text: str) -> str:
    """Close a truncated object after its last complete member."""
    depth = 0
    end = None
    for token in _JSON_TOKEN_OR_COMMA.finditer(text):
        match token.group():
            case "{" | "[":
                depth += 1
            case "}" | "]":
                depth -= 1
                end = token.end() if depth == 1 else end
            case ",":
                end = token.start() if depth == 1 else end
    return text if end is None else text[:end] + "}"


_IN_NAME = (
    re.compile(r"(?:^|[^a-z0-9])rank[_\-.=]?(\d+)(?!\d)", re.IGNORECASE),
    re.compile(r"(?:^|[^a-z0-9])worker[_\-.=]?(\d+)(?!\d)", re.IGNORECASE),
    re.compile(r"[_\-.]r(\d+)(?=[_\-.])", re.IGNORECASE),
)


def find_rank(metadata: Mapping[str, object], file_name: str) -> tuple[int | None, str]:
    """Return the global rank of a trace, or None, and its source.

    Kineto writes ``distributedInfo.rank`` if the program uses torch.distributed. tracekit's
    collectors always write ``tracekit_rank``. A file name may contain the rank, as in
    ``worker3_step_12.pt.trace.json.gz``.
    """
    info = metadata.get("distributedInfo")
    if isinstance(info, Mapping):
        rank = as_int(info.get("rank"))
        if rank is not None and rank >= 0:
            return rank, "distributedInfo"
    rank = as_int(metadata.get("tracekit_rank"))
    if rank is not None and rank >= 0:
        return rank, "tracekit_rank"
    for pattern in _IN_NAME:
        result = pattern.findall(file_name)
        if result:
            return int(result[-1]), "file name"
    return None, "unknown"


def as_int(value: object, bits: int = 64) -> int | None:
    """Return a number or numeric string as an integer of at most `bits` bits, or None."""
    is_whole_text = isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,20}\s*", value, re.ASCII)
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if is_whole_text or is_whole:
        number = int(value)  # type: ignore[call-overload]
    else:
        return None
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None
