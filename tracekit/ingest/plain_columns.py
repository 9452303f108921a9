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
        self._put_rows()
        if count:
            for name, column in self._columns.items():
                column.extend(values[name])
            self._whole_count += count

    def take(self) -> Rows | None:
        """Return the rows since the last time, to be read once; None for no rows."""
        self._put_rows()
        if not self._whole_count:
            return None
        rows = Rows(self._whole_count, [column.take() for column in self._columns.values()])
        self._whole_count = 0
        return rows

    def stream(self, get_next: Callable[[], Rows | None]) -> CapsuleType:
        """Make an Arrow stream of what :meth:`take` returned; `get_next` hands it out."""
        return new_stream(_LEAVES, get_next)

    def _put_rows(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self.extend(dict(zip(ROW_COLUMNS, zip(*rows, strict=True), strict=True)), len(rows))


def is_nothing(values: Sequence[Any]) -> bool:
    """Tell whether there is no value; comparing each with None would take several times as long."""
    return not any(values) and values.count(None) == len(values)


class _Column:
    """The values so far of one column; which of them there are, a byte each."""

    def __init__(self) -> None:
        self._is_given = bytearray()

    def extend(self, values: Sequence[Any]) -> None:
        """Add values, None for none."""
        try:
            self._put(values)
        except TypeError:
            if is_nothing(values):
                self._put_nothing(len(values))
                self._is_given += bytes(len(values))
                return
            # Where there is no value, the empty one of the others' type stands.
            is_given = bytes([value is not None for value in values])
            nothing = type(values[is_given.index(1)])()
            self._put([value or nothing for value in values])
            self._is_given += is_given
        else:
            self._is_given += b"\1" * len(values)

    def take(self) -> tuple[Any, ...]:
        """Return the buffers of the values since the last time, as Arrow has them."""
        is_given, self._is_given = self._is_given, bytearray()
        return (_bits(is_given), *self._take())

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
    def __init__(self) -> None:
        super().__init__()
        self._ends = array("i", [0])
        self._text = bytearray()

    def _put(self, values: Sequence[str | bytes]) -> None:
        if isinstance(values[0], bytes):
            joined = b"".join(values)  # type: ignore[arg-type]
        else:
            text = "".join(values)  # type: ignore[arg-type]
            joined = text.encode()
            if len(joined) > len(text):
                values = [value.encode() for value in values]  # type: ignore[union-attr]
        ends = accumulate(map(len, values), initial=len(self._text))
        self._ends.pop()
        self._ends.extend(array("i", list(ends)))
        self._text += joined

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


def _bits(flags: bytearray) -> bytes | None:
    """Return a bit for each byte, the first one the lowest; None where all are 1."""
    if 0 not in flags:
        return None
    digits = flags.translate(_DIGITS)
    digits.reverse()
    # Digits in base 2 are read in one go, however many they are.
    return int(digits, 2).to_bytes((len(flags) + 7) // 8, "little")
