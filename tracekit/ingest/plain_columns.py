"""Events as columns that DuckDB reads, where the compiled parser that has such is not there.

The columns are those of the compiled one (native/), so one statement loads both.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tracekit.event_description import EVENT_COLUMNS, KINDS, VIEW_NAME_TYPE
from tracekit.ingest.arrow_stream import Leaf, Rows, new_stream
from tracekit.ingest.event_reader import ROW_COLUMNS, Row

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

_TYPES = {column.name: column.type for column in EVENT_COLUMNS}
_KIND_NAMES = tuple(kind.name for kind in KINDS)
_KIND_NUMBERS = {name: number for number, name in enumerate(_KIND_NAMES)}
_DIGITS = bytes.maketrans(b"\0\1", b"01")


class PlainColumns:
    """Events as columns, one row each, in the order in which they come."""

    def __init__(self) -> None:
        self._columns = {leaf.name: _COLUMNS[leaf.format]() for leaf in _LEAVES}
        self._rows: list[Row] = []
        self._whole_count = 0

    @property
    def row_count(self) -> int:
        """Rows that were not taken yet."""
        return self._whole_count + len(self._rows)

    def append(self, row: Row) -> None:
        """Add the row of an event, with the values of :data:`ROW_COLUMNS`."""
        self._rows.append(row)

    def extend(self, values: Mapping[str, Sequence[Any]], count: int) -> None:
        """Add rows.

        Args:
            values: of each column of :data:`ROW_COLUMNS`, by its name; texts may be UTF-8 bytes.
            count: how many rows there are.
        """
        if self._rows:
            rows, self._rows = self._rows, []
            by_column = dict(zip(ROW_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
            self.extend(by_column, len(rows))
        for name, column in self._columns.items():
            column.extend(values[name])
        self._whole_count += count

    def take(self) -> Rows | None:
        """Return the rows since the last time, to be read once; None for no rows."""
        if self._rows:
            self.extend(dict.fromkeys(ROW_COLUMNS, ()), 0)
        if not self._whole_count:
            return None
        rows = Rows(self._whole_count, [column.take() for column in self._columns.values()])
        self._whole_count = 0
        return rows

    def stream(self, get_next: Callable[[], Rows | None]) -> CapsuleType:
        """Make an Arrow stream of what :meth:`take` returned; `get_next` hands it out."""
        return new_stream(_LEAVES, get_next)


class _Column:
    """The values so far of one column; which of them there are, a byte each."""

    def __init__(self) -> None:
        self._is_given = bytearray()

    def extend(self, values: Sequence[Any]) -> None:
        """Add values, None for none."""
        null_count = values.count(None)
        if null_count == 0:
            self._is_given += b"\1" * len(values)
            self._put(values)
        elif null_count == len(values):
            self._is_given += bytes(null_count)
            self._put_nothing(null_count)
        else:
            self._is_given += bytes([value is not None for value in values])
            self._put([value or self._nothing for value in values])

    def take(self) -> tuple[Any, ...]:
        """Return the buffers of the values since the last time, as Arrow has them."""
        is_given, self._is_given = self._is_given, bytearray()
        return (_bits(is_given), *self._take())

    _nothing: Any = 0

    def _put(self, values: Sequence[Any]) -> None:
        raise NotImplementedError

    def _put_nothing(self, count: int) -> None:
        raise NotImplementedError

    def _take(self) -> tuple[Any, ...]:
        raise NotImplementedError


class _Numbers(_Column):
    def __init__(self) -> None:
        super().__init__()
        self._numbers = array("q")

    def _put(self, values: Sequence[int]) -> None:
        self._numbers.extend(array("q", values))

    def _put_nothing(self, count: int) -> None:
        self._numbers.frombytes(bytes(8 * count))

    def _take(self) -> tuple[Any, ...]:
        numbers, self._numbers = self._numbers, array("q")
        return (numbers,)


class _Kinds(_Column):
    _nothing = _KIND_NAMES[0]

    def __init__(self) -> None:
        super().__init__()
        self._numbers = bytearray()

    def _put(self, values: Sequence[str]) -> None:
        self._numbers += bytes(map(_KIND_NUMBERS.__getitem__, values))

    def _put_nothing(self, count: int) -> None:
        self._numbers += bytes(count)

    def _take(self) -> tuple[Any, ...]:
        numbers, self._numbers = self._numbers, bytearray()
        return (numbers,)


class _Texts(_Column):
    _nothing = ""

    def __init__(self) -> None:
        super().__init__()
        self._ends = array("i", [0])
        self._text = bytearray()

    def _put(self, values: Sequence[str | bytes]) -> None:
        try:
            text = "".join(values)  # type: ignore[arg-type]
        except TypeError:
            is_ascii = False
        else:
            is_ascii = text.isascii()
        if not is_ascii:
            values = [value if isinstance(value, bytes) else value.encode() for value in values]
        ends = accumulate(map(len, values), initial=len(self._text))
        self._ends.pop()
        self._ends.extend(array("i", list(ends)))
        self._text += text.encode() if is_ascii else b"".join(values)  # type: ignore[arg-type]

    def _put_nothing(self, count: int) -> None:
        self._ends.extend(array("i", [len(self._text)]) * count)

    def _take(self) -> tuple[Any, ...]:
        ends, self._ends = self._ends, array("i", [0])
        text, self._text = self._text, bytearray()
        return (ends, text)


_COLUMNS: dict[str, type[_Column]] = {"c": _Kinds, "l": _Numbers, "u": _Texts}


def _leaf(name: str) -> Leaf:
    type_ = _TYPES.get(name, "VARCHAR")
    if type_ == VIEW_NAME_TYPE:
        return Leaf(name, "c", names=_KIND_NAMES)
    if type_ == "BIGINT":
        return Leaf(name, "l")
    return Leaf(name, "u", extension="arrow.json" if type_ == "JSON" else "")


_LEAVES = [_leaf(name) for name in ROW_COLUMNS]


def _bits(flags: bytearray) -> bytes:
    """Return a bit for each byte, the first one the lowest."""
    digits = flags.translate(_DIGITS)
    digits.reverse()
    return int(digits, 2).to_bytes((len(flags) + 7) // 8, "little")
