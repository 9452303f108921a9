"""The parts of the protocol buffers wire format that Perfetto traces and XSpaces use.

Source: "Encoding" (protobuf.dev). This module is several times as fast as the protobuf package;
tests compare the two.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

LOW = 0x3FFF
_MASK_64 = (1 << 64) - 1

_LAST = [bytes((n,)) for n in range(128)]
TWO_MORE = [bytes((n & 127 | 128, n >> 7 | 128)) for n in range(LOW + 1)]
SHORT = _LAST + [bytes((n & 127 | 128, n >> 7)) for n in range(128, LOW + 1)]

_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED_64: 8, _FIXED_32: 4}

_pack_double = struct.Struct("<d").pack


def varint(number: int) -> bytes:
    """Return a number as a varint; negative numbers are 64-bit two's complement."""
    if 0 <= number <= LOW:
        return SHORT[number]
    number &= _MASK_64
    parts = []
    while number > LOW:
        parts.append(TWO_MORE[number & LOW])
        number >>= 14
    parts.append(SHORT[number])
    return b"".join(parts)


def key(field: int, wire_type: int) -> bytes:
    """Return the tag of a value: number and wire type of its field."""
    return varint(field << 3 | wire_type)


def number_field(field: int, number: int) -> bytes:
    """Return a varint field: an integer, enum, or boolean."""
    return key(field, _VARINT) + varint(number)


def bytes_field(field: int, data: bytes) -> bytes:
    """Return a field of bytes, or of an encoded message."""
    return key(field, _LENGTH) + varint(len(data)) + data


def text_field(field: int, text: str) -> bytes:
    """Return a text field.

    Lone surrogates, which are not valid UTF-8, become question marks. NULs, which would truncate
    text in Perfetto's engine, become the symbol for NUL.
    """
    return bytes_field(field, text.replace("\0", "\u2400").encode("utf-8", "replace"))


def double_field(field: int, number: float) -> bytes:
    """Return a field of type double."""
    return key(field, _FIXED_64) + _pack_double(number)


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the varint at an offset, and the offset after it.

    Raises:
        IndexError: the data ends inside the number.
        ValueError: the number has more than 64 bits.
    """
    number = shift = 0
    while (byte := data[at]) > 127:
        number |= (byte & 127) << shift
        at += 1
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
    return number | byte << shift, at + 1


def fields(data: bytes | memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message in order: number and value.

    A value is a number, or a slice of the data (text, message, double, or fixed-size number).

    Raises:
        IndexError: a value exceeds the message.
        ValueError: a field has an obsolete or unknown wire type.
    """
    at, end = 0, len(data)
    while at < end:
        key_, at = read_varint(data, at)
        wire_type = key_ & 7
        if wire_type == _VARINT:
            number, at = read_varint(data, at)
            yield key_ >> 3, number
            continue
        if wire_type == _LENGTH:
            length, at = read_varint(data, at)
        elif (length := _FIXED_BYTES.get(wire_type, -1)) < 0:
            raise ValueError(f"a field of type {wire_type}")
        if length > end - at:
            raise IndexError("a value that reaches beyond its message")
        yield key_ >> 3, data[at : at + length]
        at += length
