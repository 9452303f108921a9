r"""Canonical JSON: the text of the file without white space, with strings in their shortest form.

For example, ``\u00e9`` and ``\/`` in strings become ``é`` and ``/``. Numbers keep all their digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

Raw = msgspec.Raw

_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|.)")
_OTHER_FORM = re.compile(rb"\\[u/]")
_SHORT = {'"': b'\\"', "\\": b"\\\\", "\b": b"\\b", "\f": b"\\f", "\n": b"\\n"}
_SHORT |= {"\r": b"\\r", "\t": b"\\t"}
_ERROR_BYTE = re.compile(r"\(byte (\d+)\)")
_string = msgspec.json.Decoder(str)
_items = msgspec.json.Decoder(list[Raw])


def canonical(text: bytes) -> bytes:
    """Shorten every string in well-formed JSON, from which the caller has removed white space."""
    return _ESCAPE.sub(_shortest, text) if _OTHER_FORM.search(text) else text


def _shortest(escape: re.Match[bytes]) -> bytes:
    written = escape.group()
    if written[1:2] not in b"u/":
        return written
    results = []
    for character in _string.decode(b'"' + written + b'"'):
        if character in _SHORT:
            results.append(_SHORT[character])
        elif character < " ":
            results.append(b"\\u%04X" % ord(character))
        else:
            results.append(character.encode())
    return b"".join(results)


def quoted(text: str) -> bytes:
    return canonical(msgspec.json.encode(text))


def text_of(value: bytes) -> str | None:
    """Return the content of a string, None for null, and the JSON text of other values."""
    if value.startswith(b'"'):
        return _string.decode(value) if b"\\" in value else value[1:-1].decode()
    return None if value == b"null" else canonical(value).decode()


def is_utf8(text: bytes | memoryview) -> bool:
    try:
        str(text, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def items(text: bytes, base: int) -> Iterator[tuple[bytes, int]]:
    """Yield the unchanged text of each array item, and its offset plus `base`."""
    at = 0
    for raw in _items.decode(text):
        item = bytes(raw)
        at = text.index(item, at)
        yield item, base + at
        at += len(item)


def error_byte(error: msgspec.DecodeError) -> int | None:
    """Return the offset of the error in a malformed text, if the message contains it."""
    match = _ERROR_BYTE.search(str(error))
    return None if match is None else int(match[1])


def array_end(text: bytes, error: msgspec.DecodeError) -> int | None:
    """Return the index of the `]` that closes the array before the end of the text, or None.

    The parser reports "trailing characters" exactly if text follows a complete array.
    """
    position = error_byte(error)
    if "trailing characters" not in str(error) or position is None:
        return None
    return text.rindex(b"]", 0, position - 1)
