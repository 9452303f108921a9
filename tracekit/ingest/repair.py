"""Repair of the text of one damaged trace event.

Some profilers write kernel names and paths into JSON without escaping them, or numbers that JSON
does not allow. Repairs never guess a value. They escape control characters, quotes, and backslashes
in strings. They replace invalid characters with U+FFFD, and NaN and Infinity with null. They quote
bare words and hexadecimal numbers, and remove trailing commas.
"""

from __future__ import annotations

import json
import re

import msgspec

MAX_REPAIR_BYTES = 1 << 20
"""Maximum length of a text to repair; no profiler writes longer events."""

_ESCAPES = frozenset('"\\/bfnrt')
_ALWAYS_ESCAPES = ("\\", '"')
_AFTER_STRING = re.compile(r'\s*(?:$|[:}\]]|,\s*(?:$|["{}\[\]\-0-9tfnNI]))')
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_NOT_A_NUMBER = re.compile(
    r"[+-]?(?:nan(?:\([a-z0-9_]*\))?|inf(?:inity)?)(?![a-z0-9_(])", re.IGNORECASE | re.ASCII
)
_BARE_WORD = re.compile(
    r"(:\s*)(?!(?:true|false|null)\b)(0x[0-9a-f]+|[a-z_]\w*)(?=\s*[,}\]])", re.IGNORECASE | re.ASCII
)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_OUTSIDE_STRING = re.compile(r'[^"]+')
_PLAIN_STRING_PART = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]+')
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_object(text: bytes) -> bool:
    """Return whether ``text`` is exactly one well-formed JSON object."""
    try:
        _object.decode(text)
        text.decode("utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def has_duplicate_keys(text: bytes) -> bool:
    """Return whether a well-formed JSON object has duplicate members at its top level."""
    surplus = 0

    def count(pairs: list[tuple[str, object]]) -> None:
        nonlocal surplus
        surplus = len(pairs) - len(dict(pairs))

    try:
        json.loads(text, object_pairs_hook=count)
    except (ValueError, RecursionError):
        return False
    return surplus > 0  # The hook is called for the outermost object last.


def repair_object(text: bytes) -> tuple[bytes, str] | None:
    """Return repaired JSON and a description of the repairs, or None if repair is impossible."""
    if len(text) > MAX_REPAIR_BYTES:
        return None
    reasons: list[str] = []
    escaped = _mend(text.decode("utf-8", "surrogateescape"), reasons)
    mended = escaped.encode("utf-8", "surrogateescape")
    if not reasons or not is_object(mended):
        return None
    return mended, ", ".join(dict.fromkeys(reasons))


def _mend(text: str, reasons: list[str]) -> str:
    out: list[str] = []
    at = 0
    while at < len(text):
        outside = _OUTSIDE_STRING.match(text, at)
        if outside:
            out.append(_mend_outside(outside.group(), reasons))
            at = outside.end()
            continue
        at = _mend_string(text, at, out, reasons)
    return "".join(out)


def _mend_outside(text: str, reasons: list[str]) -> str:
    mended, count = _NOT_A_NUMBER.subn("null", text)
    if count:
        reasons.append("NaN or Infinity")
    mended, count = _BARE_WORD.subn(r'\1"\2"', mended)
    if count:
        reasons.append("word without quotes")
    mended, count = _TRAILING_COMMA.subn("", mended)
    if count:
        reasons.append("trailing comma")
    return mended


def _mend_string(
    text: str, start: int, out: list[str], reasons: list[str], *, is_unescaped: bool = False
) -> int:
    r"""Copy the string that begins at ``start`` to ``out``, with escapes; return its end.

    ``is_unescaped`` means that the writer did not escape backslashes, so C:\Users\new has no
    newline.
    """
    out_before, reasons_before = len(out), len(reasons)
    out.append('"')
    at = start + 1
    while at < len(text):
        plain = _PLAIN_STRING_PART.match(text, at)
        if plain:
            out.append(plain.group())
            at = plain.end()
            continue
        char = text[at]
        if char == '"':
            if _AFTER_STRING.match(text, at + 1):
                out.append('"')
                return at + 1
            out.append('\\"')
            reasons.append("unescaped quote")
            at += 1
        elif char == "\\":
            if is_unescaped and text[at + 1 : at + 2] not in _ALWAYS_ESCAPES:
                out.append("\\\\")
                reasons.append("unescaped backslash")
                at += 1
                continue
            end = _mend_escape(text, at, out, reasons)
            if end is None:
                del out[out_before:], reasons[reasons_before:]
                return _mend_string(text, start, out, reasons, is_unescaped=True)
            at = end
        elif char < " ":
            out.append(f"\\u{ord(char):04x}")
            reasons.append("control character")
            at += 1
        else:
            out.append("\N{REPLACEMENT CHARACTER}")
            reasons.append("invalid UTF-8")
            at += 1
    return at


def _mend_escape(text: str, at: int, out: list[str], reasons: list[str]) -> int | None:
    """Copy the escape at ``at`` to ``out``; return its end, or None if it is invalid."""
    following = text[at + 1 : at + 2]
    if following == "u" and (digits := _HEX4.match(text, at + 2)):
        code = int(digits.group(), 16)
        if not 0xD800 <= code <= 0xDFFF:
            out.append(text[at : at + 6])
            return at + 6
        second = text[at + 6 : at + 12]
        is_pair = code < 0xDC00 and re.fullmatch(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}", second)
        if is_pair:
            out.append(text[at : at + 12])
            return at + 12
        out.append("\\ufffd")
        reasons.append("lone surrogate")
        return at + 6
    if following and following in _ESCAPES:
        # `\"` is always read as an escaped quote, although it may be the end of a Windows path.
        out.append(text[at : at + 2])
        return at + 2
    return None
