"""Reads pickles that hold basic types alone: any other can run any program.

The opcodes are those of docs.python.org/3/library/pickletools.html.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

_BASIC = (
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
    *("EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
    *("GLOBAL", "STACK_GLOBAL", "BINPERSID"),
)
"""The opcodes of basic types, and those that are refused with what they name."""


class _Plain(pickle._Unpickler):
    """Reads pickles of numbers, texts, lists, tuples and dictionaries; all else is an error.

    It is made of the unpickler in Python: that in C makes room for as many objects as nine bytes
    tell it to, and crashes where a key is a tuple in a tuple, many times over.
    """

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Any]] = {
        code: pickle._Unpickler.dispatch[code]
        for code in (getattr(pickle, name)[0] for name in _BASIC)
    }

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"it names an object outside of it: {pid!r:.100}")

    def load(self) -> Any:
        try:
            return super().load()
        except KeyError as error:
            raise pickle.UnpicklingError(f"it holds more than basic types: {error}") from error

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set((key, value))

    def load_setitems(self) -> None:
        self._set(self.pop_mark())

    def _set(self, items: Sequence[Any]) -> None:
        keys = items[::2]
        if not all(isinstance(key, str | int) for key in keys):
            raise pickle.UnpicklingError("a key that is neither text nor number")
        self.stack[-1].update(zip(keys, items[1::2], strict=True))

    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems


def read_plain(text: bytes | bytearray) -> object:
    """Return what a pickle holds.

    Args:
        text: the pickle, of protocol 2 or later.

    Raises:
        Exception: of any kind; it is damaged, or holds more than basic types.
    """
    return _Plain(io.BytesIO(text)).load()
