"""Streams of rows that DuckDB reads, made of memory of Python.

They are those of the Arrow C data and stream interfaces
(https://arrow.apache.org/docs/format/CDataInterface.html), without a library for them: nothing that
tracekit needs brings one.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

_NULLABLE = 2
_STREAM_NAME = b"arrow_array_stream"

_Pointer = ctypes.c_void_p
_POINTER_BYTES = ctypes.sizeof(_Pointer)


class _Schema(ctypes.Structure):
    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", _Pointer),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", _Pointer),
        ("dictionary", _Pointer),
        ("release", _Pointer),
        ("private_data", _Pointer),
    )


class _Array(ctypes.Structure):
    _fields_ = (
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", _Pointer),
        ("children", _Pointer),
        ("dictionary", _Pointer),
        ("release", _Pointer),
        ("private_data", _Pointer),
    )


class _Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", _Pointer),
        ("get_next", _Pointer),
        ("get_last_error", _Pointer),
        ("release", _Pointer),
        ("private_data", _Pointer),
    )


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column: its name, format, and extension type or none; the names its numbers stand for."""

    name: str
    format: str
    extension: str = ""
    names: tuple[str, ...] = ()


class Rows:
    """Rows of all columns, which can be read once.

    Args:
        count: how many there are.
        buffers: of each column, what of it lies in memory: which rows there are, a bit each, and
            the values.
    """

    def __init__(self, count: int, buffers: Sequence[Sequence[Any]]) -> None:
        self.count = count
        self._buffers: Sequence[Sequence[Any]] | None = buffers

    def take(self) -> Sequence[Sequence[Any]]:
        """Return the buffers; once.

        Raises:
            ValueError: they have been taken.
        """
        buffers, self._buffers = self._buffers, None
        if buffers is None:
            raise ValueError("these events have been taken before")
        return buffers


_held: dict[int, object] = {}
"""What somebody reads who is not Python, until it is let go."""

_streams: dict[int, _Stream] = {}
"""The streams by address, as long as their capsules: whoever reads one moves it elsewhere first."""

_keys = count(1)


def _hold(thing: object) -> int:
    key = next(_keys)
    _held[key] = thing
    return key


def _release_schema(schema: Any) -> None:
    _let_go(schema.contents)


def _release_array(array: Any) -> None:
    _let_go(array.contents)


def _let_go(thing: Any) -> None:
    """Let a schema or an array go, with its children: each is held for itself."""
    kind = type(thing)
    for at in range(thing.n_children):
        child = kind.from_address(_Pointer.from_address(thing.children + at * _POINTER_BYTES).value)
        # One that was moved elsewhere is let go there.
        if child.release:
            _let_go(child)
    if thing.dictionary:
        _let_go(kind.from_address(thing.dictionary))
    thing.release = None
    _held.pop(thing.private_data, None)


def _release_stream(stream: Any) -> None:
    stream.contents.release = None
    _held.pop(stream.contents.private_data, None)


def _destroy_capsule(capsule: int) -> None:
    address = _capsule_pointer(capsule, _STREAM_NAME)
    stream = _Stream.from_address(address)
    if stream.release:
        _release_stream(ctypes.pointer(stream))
    del _streams[address]


def _get_schema(stream: Any, schema: Any) -> int:
    made = _schema_of(_source(stream).leaves)
    ctypes.memmove(schema, ctypes.byref(made), ctypes.sizeof(_Schema))
    return 0


def _get_next(stream: Any, array: Any) -> int:
    ctypes.memset(array, 0, ctypes.sizeof(_Array))
    source = _source(stream)
    try:
        rows = source.get_next()
        if rows is not None:
            made = _array_of(rows, source.leaves)
            ctypes.memmove(array, ctypes.byref(made), ctypes.sizeof(_Array))
    except Exception as error:  # noqa: BLE001
        # It goes through DuckDB, which raises what is said here.
        source.error = ctypes.create_string_buffer(str(error).encode("utf-8", "replace"))
        return errno.EIO
    return 0


def _get_last_error(stream: Any) -> int | None:
    error = _source(stream).error
    return None if error is None else ctypes.addressof(error)


def _callback(function: Callable[..., Any], result: Any, *arguments: Any) -> tuple[Any, int]:
    """Return what C calls, which must be kept, and its address."""
    called = ctypes.CFUNCTYPE(result, *arguments)(function)
    return called, ctypes.cast(called, _Pointer).value or 0


_CALLBACKS: dict[Callable[..., Any], tuple[Any, int]] = {
    function: _callback(function, *types)
    for function, *types in (
        (_release_schema, None, ctypes.POINTER(_Schema)),
        (_release_array, None, ctypes.POINTER(_Array)),
        (_release_stream, None, ctypes.POINTER(_Stream)),
        (_destroy_capsule, None, _Pointer),
        (_get_schema, ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema)),
        (_get_next, ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array)),
        (_get_last_error, _Pointer, ctypes.POINTER(_Stream)),
    )
}


def _address(function: Callable[..., Any]) -> int:
    return _CALLBACKS[function][1]


# Functions of our own: those of `ctypes.pythonapi` are one for all of a process, whose libraries
# give them other types.
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, _Pointer, ctypes.c_char_p, _Pointer)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(_Pointer, _Pointer, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def new_stream(leaves: Sequence[Leaf], get_next: Callable[[], Rows | None]) -> CapsuleType:
    """Make a stream of rows.

    Args:
        leaves: the columns.
        get_next: called without arguments from any thread; returns the next rows, None for the
            end.

    Returns:
        The capsule of an Arrow stream.
    """
    called = (_get_schema, _get_next, _get_last_error, _release_stream)
    stream = _Stream(*[_address(function) for function in called])
    stream.private_data = _hold(_Source(leaves, get_next))
    address = ctypes.addressof(stream)
    _streams[address] = stream
    capsule: CapsuleType = _new_capsule(address, _STREAM_NAME, _address(_destroy_capsule))
    return capsule


class _Source:
    """What a stream comes from."""

    def __init__(self, leaves: Sequence[Leaf], get_next: Callable[[], Rows | None]) -> None:
        self.leaves = leaves
        self.get_next = get_next
        self.error: Any = None


def _source(stream: Any) -> Any:
    return _held[stream.contents.private_data]


def _schema_of(leaves: Sequence[Leaf]) -> _Schema:
    children = list(map(_leaf_schema, leaves))
    schema = _Schema(b"+s", b"", release=_address(_release_schema))
    schema.n_children = len(children)
    pointers = _pointers(map(ctypes.addressof, children))
    schema.children = ctypes.addressof(pointers)
    schema.private_data = _hold((children, pointers))
    return schema


def _leaf_schema(leaf: Leaf) -> _Schema:
    texts = leaf.format.encode(), leaf.name.encode()
    schema = _Schema(*texts, flags=_NULLABLE, release=_address(_release_schema))
    metadata = names = None
    if leaf.extension:
        key, value = b"ARROW:extension:name", leaf.extension.encode()
        # One pair; lengths are of 32 bits.
        parts = (struct.pack("=ii", 1, len(key)), key, struct.pack("=i", len(value)), value)
        metadata = ctypes.create_string_buffer(b"".join(parts))
        schema.metadata = ctypes.addressof(metadata)
    if leaf.names:
        names = _leaf_schema(Leaf("", "u"))
        schema.dictionary = ctypes.addressof(names)
    schema.private_data = _hold((texts, metadata, names))
    return schema


def _array_of(rows: Rows, leaves: Sequence[Leaf]) -> _Array:
    children = [
        _leaf_array(rows.count, buffers, leaf.names)
        for leaf, buffers in zip(leaves, rows.take(), strict=True)
    ]
    pointers = _pointers(map(ctypes.addressof, children))
    array = _new_array(rows.count, [None], (children, pointers))
    array.n_children = len(children)
    array.children = ctypes.addressof(pointers)
    return array


def _leaf_array(count: int, buffers: Sequence[Any], names: Sequence[str]) -> _Array:
    dictionary = None
    if names:
        ends = struct.pack(f"={len(names) + 1}i", *accumulate(map(len, names), initial=0))
        dictionary = _new_array(len(names), [None, ends, "".join(names).encode()])
    array = _new_array(count, buffers, dictionary)
    array.null_count = -1  # Not counted.
    if dictionary is not None:
        array.dictionary = ctypes.addressof(dictionary)
    return array


def _new_array(count: int, buffers: Sequence[Any], parts: object = None) -> _Array:
    texts = [None if buffer is None else bytes(buffer) for buffer in buffers]
    pointers = _pointers(ctypes.cast(ctypes.c_char_p(text), _Pointer).value for text in texts)
    array = _Array(length=count, n_buffers=len(texts), release=_address(_release_array))
    array.buffers = ctypes.addressof(pointers)
    array.private_data = _hold((texts, pointers, parts))
    return array


def _pointers(addresses: Iterable[int | None]) -> Any:
    given = list(addresses)
    return (_Pointer * len(given))(*given)
