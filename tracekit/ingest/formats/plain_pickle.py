"""Safe reader of pickles that contain only basic types; other pickles could run arbitrary code.

Opcodes: docs.python.org/3/library/pickletools.html.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tracekit.ingest.budget import FREE_ROWS, MAX_DEPTH, Budget

_BASIC = (
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
    *("EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
    *("GLOBAL", "STACK_GLOBAL", "BINPERSID"),
)
"""Opcodes of basic types, and opcodes that are rejected with the name of the object."""


_MAKING = ("EMPTY_LIST", "EMPTY_DICT", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "MEMOIZE")
_BYTES_PER_VALUE = 4
"""Opcodes that create a large object from one byte, and the minimum average of pickle bytes per
such opcode. Pickles of profilers exceed it, because they contain the members of each object."""

_LONG_BYTES = 9

_KEYS = 2**60
"""Integers whose absolute value is below this limit have unique hashes."""


class _Plain(pickle._Unpickler):
    """Unpickler for numbers, strings, lists, tuples, and dictionaries; other types are errors.

    It extends the Python unpickler. The C unpickler crashes on a deeply nested tuple as a key, and
    nine bytes can make it allocate any number of objects.
    """

    left: int
    stack: list[Any]
    metastack: list[list[Any]]
    append: Callable[[Any], None]
    read: Callable[[int], bytes]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Any]] = {
        code: pickle._Unpickler.dispatch[code]
        for code in (getattr(pickle, name)[0] for name in _BASIC)
    }

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module:.100}.{name:.100}")

    def persistent_load(self, pid: Any) -> Any:
        shown = pid if isinstance(pid, str) else type(pid).__name__
        raise pickle.UnpicklingError(f"it refers to an external object: {shown:.100}")

    def load(self) -> Any:
        try:
            return super().load()
        except KeyError as error:
            raise pickle.UnpicklingError(
                f"it contains other types than basic ones: {error}"
            ) from error

    def load_mark(self) -> None:
        if len(self.metastack) > MAX_DEPTH:
            raise pickle.UnpicklingError(f"values nested more than {MAX_DEPTH} levels")
        super().load_mark()  # type: ignore[misc]

    def load_long1(self) -> None:
        length = self.read(1)[0]
        if length > _LONG_BYTES:
            raise pickle.UnpicklingError("a number of more than 64 bits")
        self.append(pickle.decode_long(self.read(length)))

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set((key, value))

    def load_setitems(self) -> None:
        self._set(self.pop_mark())

    def _set(self, items: Sequence[Any]) -> None:
        keys = items[::2]
        # Larger integers may share hashes, which makes a dictionary slow.
        if not all(
            isinstance(key, str) or (type(key) is int and -_KEYS < key < _KEYS) for key in keys
        ):
            raise pickle.UnpicklingError("a key that is neither a string nor a number")
        self.stack[-1].update(zip(keys, items[1::2], strict=True))

    dispatch[pickle.MARK[0]] = load_mark
    dispatch[pickle.LONG1[0]] = load_long1
    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems


def _counted(load: Callable[[_Plain], None]) -> Callable[[_Plain], None]:
    def load_counted(self: _Plain) -> None:
        self.left -= 1
        if self.left < 0:
            raise pickle.UnpicklingError("more values than fit in its bytes")
        load(self)

    return load_counted


for _name in _MAKING:
    _code = getattr(pickle, _name)[0]
    _Plain.dispatch[_code] = _counted(_Plain.dispatch[_code])


def read_plain(text: bytes | bytearray, budget: Budget) -> object:
    """Return the content of a pickle. Damage or an unsupported type may raise any exception."""
    reader = _Plain(io.BytesIO(text))
    reader.left = FREE_ROWS + len(text) // _BYTES_PER_VALUE
    content = reader.load()
    budget.admit(content)
    return content
