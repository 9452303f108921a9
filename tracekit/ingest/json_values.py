r"""Values of JSON as they are kept: the text of the file, in its one shortest form.

White space goes; numbers keep all their digits; of the ways to write a character in a string, the
shortest one stands (``\u00e9`` and ``\/`` are ``é`` and ``/``).
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


def compact(text: bytes | memoryview) -> bytes:
    """Return JSON without white space.

    Raises:
        msgspec.DecodeError: it is malformed; the message says where.
        RecursionError: it is nested too deeply.
    """
    return msgspec.json.format(text, indent=-1)


def canonical(text: bytes) -> bytes:
    """Return well-formed JSON without white space with every string in its shortest form."""
    return _ESCAPE.sub(_shortest, text) if _OTHER_FORM.search(text) else text


def _shortest(escape: re.Match[bytes]) -> bytes:
    written = escape.group()
    if written[1:2] not in b"u/":
        return written
    found = []
    for character in _string.decode(b'"' + written + b'"'):
        if character in _SHORT:
            found.append(_SHORT[character])
        elif character < " ":
            found.append(b"\\u%04X" % ord(character))
        else:
            found.append(character.encode())
    return b"".join(found)


def quoted(text: str) -> bytes:
    """Return a text as a JSON string in its shortest form."""
    return canonical(msgspec.json.encode(text))


def text_of(value: bytes) -> str | None:
    """Return a value as a text: of a string what it says, else as it is written; null is None.

    Args:
        value: well-formed JSON in UTF-8, without white space.
    """
    if value.startswith(b'"'):
        return _string.decode(value) if b"\\" in value else value[1:-1].decode()
    return None if value == b"null" else canonical(value).decode()


def is_utf8(text: bytes | memoryview) -> bool:
    """Tell whether a text is UTF-8."""
    try:
        str(text, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def items(text: bytes, base: int) -> Iterator[tuple[bytes, int]]:
    """Yield the items of an array as they are written, each with its offset, counted from `base`.

    Raises:
        msgspec.DecodeError: the array is malformed; nothing has been yielded then.
        RecursionError: it is nested too deeply.
    """
    at = 0
    for raw in _items.decode(text):
        item = bytes(raw)
        at = text.index(item, at)
        yield item, base + at
        at += len(item)


def error_byte(error: msgspec.DecodeError) -> int | None:
    """Return where in a malformed text the parser stumbled, where it says so."""
    found = _ERROR_BYTE.search(str(error))
    return None if found is None else int(found[1])


def array_end(text: bytes, error: msgspec.DecodeError) -> int | None:
    """Return the index of the `]` that closes the array before the end of the text, if one does.

    The parser says "trailing characters" exactly when the array is complete and more follows.
    """
    position = error_byte(error)
    if "trailing characters" not in str(error) or position is None:
        return None
    return text.rindex(b"]", 0, position - 1)
