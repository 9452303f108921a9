"""Loads samples of power and other counters into `system_sample`.

Input: `nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv -lms 100`, `nvidia-smi dmon
-o DT`, `amd-smi metric --csv`, tracekit's `power.csv`, and `dcgmi dmon` or `rocm-smi --csv` with a
time before each line. The names of columns identify time and device; other numeric columns are
counters.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import TraceError
from tracekit.ingest.json_lines import MAX_REJECTED, REJECTED_TEXT_BYTES
from tracekit.sql_text import quote, rows
from tracekit.storage import Location, Place
from tracekit.units import GB, NS_PER_S

if TYPE_CHECKING:
    import duckdb

_MAX_BYTES = 4 * GB
_MAX_LINE_BYTES = 1 << 16
_MAX_NAME = 200
"""Maximum length of a column name, because every sample repeats it."""

_TIME = re.compile(
    r"(?P<day>\d{4}[-/]?\d\d[-/]?\d\d)[T ,]\s*(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?(?![\w.:])"
    r"|(?P<epoch>[1-9]\d{9})(?:\.(?P<epoch_part>\d{1,9})\d*)?(?![\w.:])",
    re.ASCII,
)
_TIME_NAMES = frozenset({"timestamp", "date", "time"})
_DEVICE_NAMES = frozenset({"index", "gpu", "gpu_id", "device", "entity", "idx"})
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([^\d\s]\S*)?", re.ASCII)
_DIGITS = "0123456789"
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MAX_NS = 2**63 - 1
_UNITS = {"mW": ("W", 1e-3), "mJ": ("J", 1e-3), "uJ": ("J", 1e-6), "µJ": ("J", 1e-6)}


def load_counters(
    connection: duckdb.DuckDBPyConnection, path: Place, work_folder: Path, folder: Place | None
) -> None:
    """Read a file of samples into table `system_sample`; invalid lines go to table `rejected`."""
    part, table = work_folder / "counters.csv", _Table(path)
    rejected: list[tuple[object, ...]] = []

    def reject(offset: int, line: bytes) -> None:
        if len(rejected) < MAX_REJECTED:
            shown = line[:REJECTED_TEXT_BYTES].decode("utf-8", "replace")
            rejected.append((None, offset, None, "not a line of samples", shown, None))

    with part.open("w", newline="") as out:
        writer = csv.writer(out)
        head = (str(path), None if folder is None else str(folder))
        writer.writerows((*head, *row) for row in table.rows(_lines(path), reject))
    connection.execute(
        f"COPY system_sample FROM {quote(str(part))} "
        "(FORMAT csv, HEADER FALSE, DELIM ',', QUOTE '\"', ESCAPE '\"')"
    )
    part.unlink()
    if rejected:
        connection.execute(f"INSERT INTO rejected VALUES {rows(rejected)}")


def _lines(path: Place) -> Iterator[bytes]:
    try:
        with Location.of(path).open() as file:
            yield from iter(lambda: file.readline(_MAX_LINE_BYTES), b"")
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error


class _Table:
    """Parser of one file, with the columns that its lines have defined so far."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self._names: list[tuple[str, str]] = []
        self._is_csv = False

    def rows(
        self, lines: Iterator[bytes], reject: Callable[[int, bytes], None]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield device, name, unit, ns since the epoch, clock, and value of each sample."""
        offset = count = 0
        latest = None
        for line in lines:
            start, offset = offset, offset + len(line)
            if offset > _MAX_BYTES:
                raise TraceError(f"{self._path}: the file is larger than {_MAX_BYTES // GB} GB")
            text = line.decode("utf-8-sig", "replace").strip()
            if _CONTROL.search(text):
                reject(start, line)
                continue
            if not text or self._read_header(text):
                continue
            match = _TIME.search(text)
            samples = [*self._samples(text, match)]
            if samples and match is None:
                raise TraceError(
                    f"{self._path}: samples without timestamps",
                    hint="use nvidia-smi --query-gpu=timestamp,… or dmon -o DT; for other "
                    "tools, prefix each line with the time: `| ts %.s`",
                )
            if match is None or not samples:
                reject(start, line)
                continue
            at = _unix_ns(match)
            if at is None:
                reject(start, line)
                continue
            # Samples of several devices would be assigned to one device.
            if samples[0][0] is None and at == latest and at[0] % NS_PER_S:
                raise TraceError(
                    f"{self._path}: several samples with the same timestamp, and no device number",
                    hint="use nvidia-smi --query-gpu=timestamp,index,power.draw",
                )
            latest = at
            count += len(samples)
            yield from ((device, name, unit, *at, value) for device, name, unit, value in samples)
        if not count:
            raise TraceError(
                f"{self._path}: no counter sample could be parsed",
                hint="supported: tables written by nvidia-smi, dcgmi, rocm-smi, and amd-smi",
            )

    def _read_header(self, text: str) -> bool:
        """Return whether the line is a header, and store its names or units."""
        cells = self._cells(_TIME.sub("", text, count=1).lstrip(" ,"), "," in text)
        if not cells or any(_NUMBER.fullmatch(cell) for cell in cells):
            return False
        cells = [cell[:_MAX_NAME] for cell in cells]
        names = [_name_and_unit(cell) for cell in cells]
        known = {name for name, _ in names} & (_DEVICE_NAMES | _TIME_NAMES)
        if known - {"idx"} or not self._names:
            self._is_csv = "," in text
            self._names = [(name, unit) for name, unit in names if name not in _TIME_NAMES]
        elif len(cells) >= len(self._names):
            # dmon's line of units begins with the units of the time.
            units = cells[len(cells) - len(self._names) :]
            self._names = [(name, unit) for (name, _), unit in zip(self._names, units, strict=True)]
        return True

    def _cells(self, text: str, is_csv: bool) -> list[str]:
        text = text.lstrip("# ")
        cells = [cell.strip() for cell in text.split(",")] if is_csv else text.split()
        return cells if any(cells) else []

    def _samples(
        self, text: str, match: re.Match[str] | None
    ) -> Iterator[tuple[str | None, str, str, float]]:
        if match is not None:
            parts = text[: match.start()].rstrip(" ,"), text[match.end() :].lstrip(" ,")
            text = (", " if "," in text else " ").join(filter(None, parts))
        if not self._names:
            self._guess_names(self._cells(text, "," in text))
            self._is_csv = "," in text
        cells = self._cells(text, self._is_csv)
        if len(cells) == len(self._names) + 1 and cells[0].isalpha():
            # In dcgmi's tables, the entity consists of two words.
            cells[:2] = [" ".join(cells[:2])]
        if len(cells) != len(self._names):
            return
        device = None
        for (name, _), cell in zip(self._names, cells, strict=True):
            if name in _DEVICE_NAMES:
                device = cell[len(cell.rstrip(_DIGITS)) :] or cell
        for (name, unit), cell in zip(self._names, cells, strict=True):
            number = _NUMBER.fullmatch(cell)
            if number is not None and name not in _DEVICE_NAMES:
                plain, factor = _UNITS.get(number[2] or unit, (number[2] or unit, 1))
                yield device, name, plain, float(number[1]) * factor

    def _guess_names(self, cells: Sequence[str]) -> None:
        """Name the columns of a file without a header from the values of its first line."""
        units = [(_NUMBER.fullmatch(cell) or _NUMBER.match("0"))[2] for cell in cells]  # type: ignore[index]
        if units.count("W") != 1:
            raise TraceError(
                f"{self._path}: no column names, and no unit that identifies the power",
                hint="omit noheader from --format",
            )
        bare = [at for at, cell in enumerate(cells) if cell.isascii() and cell.isdecimal()]
        self._names = [
            ("power.draw", "")
            if unit == "W"
            else ("index" if [at] == bare else f"column {at + 1}", "")
            for at, unit in enumerate(units)
        ]


def _name_and_unit(cell: str) -> tuple[str, str]:
    """Return the name of a column, and the unit in brackets after it."""
    if cell.endswith(("]", ")")):
        body = cell[:-1]
        start = max(body.rfind("]"), body.rfind(")")) + 1
        places = [at for at in (body.find("[", start), body.find("(", start)) if at >= 0]
        if places:
            return cell[: min(places)].rstrip().lower(), body[min(places) + 1 :]
    return cell.lower(), ""


def _unix_ns(match: re.Match[str]) -> tuple[int, str] | None:
    """Return a time in ns since the epoch and its clock (UTC or local); None if it is invalid."""
    if match["epoch"]:
        part = (match["epoch_part"] or "").ljust(9, "0")
        at_ns = int(match["epoch"]) * NS_PER_S + int(part)
        return (at_ns, "UTC") if at_ns <= _MAX_NS else None
    day = match["day"].replace("/", "-")
    part = (match["part"] or "").ljust(9, "0")
    try:
        at = datetime.fromisoformat(f"{day}T{match['time']}{match['zone'] or ''}")
        at_ns = int(at.timestamp()) * NS_PER_S + int(part)
    except (ValueError, OverflowError, OSError):
        return None
    return (at_ns, "UTC" if match["zone"] else "local") if abs(at_ns) <= _MAX_NS else None
