"""Python interface to the C library in native/: the event parser, and sweeps over sorted rows.

The library is called through ctypes. It returns Arrow arrays and streams in capsules, which DuckDB
reads as tables.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tracekit.errors import TracekitError

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

Row = tuple[int | str | None, ...]

Stop = Literal["more", "ended", "damaged"]
"""Why reading stopped: end of the text, end of the event array, or text that is not an event."""

PATH = Path(__file__).with_name("_native.so")

_VERSION, _BUSY, _NO_MEMORY = 4, 1, 2  # As in native/exported.h.
_TEXT_ENDS, _ARRAY_ENDS, _ODD_EVENT = 0, 1, 2  # As in native/events.h.

_WHY_BYTES = 256

_NextArray = ctypes.CFUNCTYPE(c_int, c_void_p)


class _ReadText(ctypes.Structure):
    _fields_ = [
        (name, c_int64) for name in ("stop", "event_count", "used", "odd_end", "behind", "is_last")
    ]


# Return type and argument types of each function.
_QUICK = {
    "columns_new": (c_void_p, c_int64, c_int64, c_int64),
    "columns_column": (c_char_p, c_void_p, c_char_p, c_char_p, c_char_p, POINTER(c_int64)),
    "columns_key": (c_char_p, c_void_p, c_char_p),
    "columns_kind": (c_char_p, c_void_p, c_char_p, c_char_p, c_char_p),
    "columns_begin": (c_char_p, c_void_p),
    "columns_clear": (c_int, c_void_p),
    "columns_free": (None, c_void_p),
    "columns_row_count": (c_int64, c_void_p),
    "columns_append": (c_char_p, c_void_p, c_char_p, c_char_p, c_char_p),
    "columns_stream": (c_void_p, c_void_p, _NextArray),
    "move_array": (c_int, c_void_p, c_void_p),
    "use_capsules": (None, c_void_p),
    "use_instructions": (c_int, c_char_p),
}
_LONG = {
    "columns_read": (
        *(c_int, c_void_p, POINTER(c_char), c_size_t, c_size_t, c_int64),
        POINTER(_ReadText),
    ),
    "columns_take": (c_int, c_void_p, POINTER(c_void_p)),
    "sweep_stream": (c_void_p, c_char_p, c_void_p, c_char_p, c_size_t),
}


class _Library:
    """The functions of the library.

    Attributes:
        quick: functions that are called with the GIL held.
        long: functions that release the GIL.
    """

    def __init__(self) -> None:
        try:
            self.quick, self.long = ctypes.PyDLL(str(PATH)), ctypes.CDLL(str(PATH))
            if c_int.in_dll(self.quick, "native_version").value != _VERSION:
                raise ValueError("it is of another version of tracekit")
        except (OSError, ValueError) as error:
            raise TracekitError(
                f"cannot load tracekit's C library: {error}",
                hint="reinstall tracekit; in a clone: pip install -e .",
            ) from error
        for library, functions in ((self.quick, _QUICK), (self.long, _LONG)):
            for name, (returned, *arguments) in functions.items():
                function = getattr(library, name)
                function.restype, function.argtypes = returned, arguments
        python = ctypes.pythonapi
        self._new_capsule: Any = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_void_p, c_void_p)(
            ("PyCapsule_New", python)
        )
        self.pointer_in: Any = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(
            ("PyCapsule_GetPointer", python)
        )
        self.quick.use_capsules(ctypes.cast(self.pointer_in, c_void_p))
        self._capsules = {
            kind: (
                ctypes.addressof(c_char.in_dll(self.quick, f"{kind}_name")),
                ctypes.cast(getattr(self.quick, f"destroy_{kind}"), c_void_p),
            )
            for kind in ("array", "stream")
        }

    def capsule(self, kind: Literal["array", "stream"], pointer: int) -> CapsuleType:
        """Return a capsule that owns an Arrow array or stream."""
        result: CapsuleType = self._new_capsule(pointer, *self._capsules[kind])
        return result


@cache
def _library() -> _Library:
    return _Library()


def use_instructions(way: Literal["avx2", "plain"]) -> bool:
    """Select the instruction set of the parser, for tests; the resulting rows are the same.

    Returns:
        False if this machine does not support them.
    """
    return bool(_library().quick.use_instructions(way.encode()))


class _Callback:
    """A Python function that C calls. An exception stops the C function and is saved.

    Attributes:
        function: pointer for the native code, valid while this object exists.
        error: the exception.
    """

    def __init__(self, kind: Any, called: Callable[[Any], object]) -> None:
        self._errors: list[BaseException] = []
        calls = _calls(called, self._errors)
        next(calls)
        self.function = kind(calls.send)

    @property
    def error(self) -> BaseException | None:
        return self._errors[0] if self._errors else None


def _calls(
    called: Callable[[Any], object], errors: list[BaseException]
) -> Generator[int, Any, None]:
    """Call a function with each value that is sent; yield 1, or 0 if it raised.

    In a generator, the `try` block is already active when Ctrl-C arrives. In a function, Ctrl-C
    could arrive before the block.
    """
    is_done = 1
    while True:
        try:
            called((yield is_done))
            is_done = 1
        except GeneratorExit:
            return
        except BaseException as error:  # noqa: BLE001
            errors.append(error)
            is_done = 0


class EventColumns:
    """Columns of events, one row per event in file order.

    Args:
        columns: name, DuckDB type, source (member, argument, or reader), keys in the file, and the
        number that means NULL, or None, of each column.
        kinds: name, phases, and required event name, or None, of each kind of event.
        bounds: earliest and latest start, and longest duration, in µs.

    Raises:
        ValueError: the parser does not support a column or a kind.
    """

    def __init__(
        self,
        columns: Sequence[tuple[str, str, str, Sequence[str], int | None]],
        kinds: Sequence[tuple[str, str, str | None]],
        bounds: tuple[int, int, int],
    ) -> None:
        quick = self._quick = _library().quick
        self._columns = quick.columns_new(*bounds)
        if self._columns is None:
            raise MemoryError
        weakref.finalize(self, quick.columns_free, self._columns)
        self._numbers = struct.Struct(f"{len(columns)}q")
        for name, kind, source, keys, none in columns:
            number = None if none is None else byref(c_int64(none))
            self._describe(quick.columns_column, name, kind, source, number)
            for key in keys:
                self._describe(quick.columns_key, key)
        for name, phases, event_name in kinds:
            self._describe(quick.columns_kind, name, phases, event_name)
        why = quick.columns_begin(self._columns)
        if why is not None:
            raise ValueError(why.decode())

    def _describe(self, function: Any, name: str, *values: object) -> None:
        texts = (value.encode() if isinstance(value, str) else value for value in (name, *values))
        why = function(self._columns, *texts)
        if why is not None:
            raise ValueError(f"{name}: {why.decode()}")

    @property
    def row_count(self) -> int:
        """Return the number of rows added since the last call to :meth:`take`."""
        count: int = self._quick.columns_row_count(self._columns)
        return count

    def read(
        self,
        text: bytearray,
        first_event_id: int,
        read_odd: Callable[[bytes, int, int], Row | bool],
    ) -> tuple[int, int, Stop]:
        """Read the events at the beginning of an array of events.

        Args:
            text: the events, after one byte that replaces the opening bracket of the array.
            first_event_id: position of the first event in the trace.
            read_odd: reads a JSON object that the parser does not support. It takes the bytes,
                their offset in the text, and the event_id, and returns a row, True for an event
                without a row, or False if the object is not an event.

        Returns:
            The number of events, the number of bytes that were read (up to the next event, or
            including the closing bracket), and why reading stopped.
        """
        read, count, at = _ReadText(), 0, 1
        first_byte = c_char.from_buffer(text)
        try:
            while True:
                _check(
                    _library().long.columns_read(
                        *(self._columns, byref(first_byte), len(text), at),
                        *(first_event_id + count, byref(read)),
                    )
                )
                count += read.event_count
                if read.stop != _ODD_EVENT:
                    break
                with memoryview(text) as view:
                    odd = bytes(view[read.used : read.odd_end])
                row = read_odd(odd, read.used, first_event_id + count)
                if row is False:
                    return count, read.used, "damaged"
                if row is not True:
                    self.append(row)
                count, at = count + 1, read.behind
                if read.is_last:
                    return count, at, "ended"
        finally:
            # The text cannot be resized while the reference exists.
            del first_byte
        stops: dict[int, Stop] = {_TEXT_ENDS: "more", _ARRAY_ENDS: "ended"}
        return count, read.used, stops.get(read.stop, "damaged")

    def append(self, row: Row) -> None:
        """Add the row of an event that was read in Python: a value for each column."""
        texts = [value.encode() for value in row if isinstance(value, str)]
        lengths = iter(texts)
        numbers = [
            0 if value is None else len(next(lengths)) if isinstance(value, str) else value
            for value in row
        ]
        why = self._quick.columns_append(
            self._columns,
            bytes(value is not None for value in row),
            self._numbers.pack(*numbers),
            b"".join(texts),
        )
        if why is not None:
            raise ValueError(f"event {row[0]}: {why.decode()}")

    def take(self) -> CapsuleType | None:
        """Return the rows added since the last call as an Arrow array, or None without rows."""
        library, array = _library(), c_void_p()
        _check(library.long.columns_take(self._columns, byref(array)))
        return None if array.value is None else library.capsule("array", array.value)

    def release(self) -> None:
        """Free the memory of the columns after the last event."""
        _check(self._quick.columns_clear(self._columns))

    @contextmanager
    def stream(self, next_array: Callable[[], CapsuleType | None]) -> Iterator[CapsuleType]:
        """Yield an Arrow stream of arrays from :meth:`take`, which DuckDB reads as a table.

        Args:
            next_array: returns the next array, or None at the end. It is called from any thread.
                Each array can be read once. Its exceptions are raised again when the `with` block
                ends.
        """
        library = _library()

        def move_next(target: int) -> None:
            array = next_array()
            if array is None:
                return
            if self._quick.move_array(library.pointer_in(array, b"arrow_array"), target):
                raise ValueError("these events were already consumed")

        callback = _Callback(_NextArray, move_next)
        stream = self._quick.columns_stream(self._columns, callback.function)
        if stream is None:
            raise MemoryError
        try:
            yield library.capsule("stream", stream)
        finally:
            if callback.error is not None:
                raise callback.error from None


def _check(status: int) -> None:
    if status == _BUSY:
        raise RuntimeError("another thread is reading into these columns")
    if status == _NO_MEMORY:
        raise MemoryError


def sweep(name: str, stream: CapsuleType) -> CapsuleType:
    """Return the results of a sweep as an Arrow stream. The sweep takes ownership of its input.

    Raises:
        ValueError: the sweep is unknown, or does not support these columns.
    """
    library, why = _library(), ctypes.create_string_buffer(_WHY_BYTES)
    swept = library.long.sweep_stream(
        name.encode(),
        library.pointer_in(stream, b"arrow_array_stream"),
        *(why, _WHY_BYTES),
    )
    if swept is None:
        raise ValueError(why.value.decode())
    return library.capsule("stream", swept)
