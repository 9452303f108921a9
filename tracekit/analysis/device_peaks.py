"""What devices can do at most: from the data in ``queries/rules/devices.toml`` to a table.

The file says how an entry is found and what its figures are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tracekit.analysis.rules import builtin_content
from tracekit.database.connections import SESSION, session_of
from tracekit.errors import QueryError
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    import duckdb

FILE_NAME = "devices.toml"
"""The peak rates, in ``queries/rules``."""

DEVICE_PEAK = "device_peak"
"""Name of the table."""

_PEAK_TYPES = {
    "product": "VARCHAR",
    "dtype": "VARCHAR",
    "flop_per_s": "DOUBLE",
    "memory_bytes_per_s": "DOUBLE",
    "source": "VARCHAR",
}

DEVICE_PEAK_TYPES = {"trace_id": "INTEGER", "device": "VARCHAR", **_PEAK_TYPES}


class DevicePeak(NamedTuple):
    """The peak rates of one product.

    `pattern` is what is, as a whole, a name that traces give it; `unit_count` its multiprocessors
    or compute units, where a part of it goes by the same name, None where the name alone tells;
    `flop_per_s` dense FLOP/s (integer types: operations/s) by type, as ``bf16``; `source` the
    vendor's document that says so, public at `address`; `reached_bf16` what products of that type
    reached on it, FLOP/s, or None if it was not published.
    """

    product: str
    pattern: str
    unit_count: int | None
    memory_bytes_per_s: float
    flop_per_s: dict[str, float]
    source: str
    address: str
    reached_bf16: float | None = None


@cache
def load_device_peaks() -> tuple[DevicePeak, ...]:
    """Read the peak rates, in the order in which the entries are tried."""
    return tuple(
        DevicePeak(
            entry["product"],
            entry["pattern"],
            entry.get("unit_count"),
            float(entry["memory_bytes_per_s"]),
            {dtype: float(rate) for dtype, rate in entry["peak"].items()},
            entry["source"],
            entry["address"],
            entry.get("reached_bf16"),
        )
        for entry in builtin_content(FILE_NAME)["device"]
    )


@cache
def peak_of(device_name: str, unit_count: int | None = None) -> DevicePeak | None:
    """Find the peak rates of a device by its name in a trace.

    None if the device is unknown or a part of a known one: a partition of some devices has the name
    of the whole, but fewer multiprocessors or compute units (`unit_count`, where the trace tells).
    """
    for peak in load_device_peaks():
        if re.fullmatch(peak.pattern, device_name.strip(), re.IGNORECASE):
            is_part = None not in (unit_count, peak.unit_count) and unit_count != peak.unit_count
            return None if is_part else peak
    return None


def find_device(name: str) -> DevicePeak:
    """Return the device of a name: that of a driver, or a part of a product's.

    Raises:
        QueryError: none has it, or several have.
    """
    peaks = load_device_peaks()
    for peak in peaks:
        if re.fullmatch(peak.pattern, name, re.IGNORECASE):
            return peak
    words = re.split(r"[\s_-]+", name.lower())
    found = [peak for peak in peaks if all(word in peak.product.lower() for word in words)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(peak.product for peak in found or peaks)
    what = "several devices match" if found else "unknown device"
    raise QueryError(f"device={name}: {what}", hint=f"known devices: {known}")


DEVICE_PEAK_RATE = "device_peak_rate"
"""The table of the session with what devices were measured to do at most."""

MEMORY = "memory"
"""In place of a type of number: the bandwidth of a device's memory, bytes/s."""


def lay_peaks(
    connection: duckdb.DuckDBPyConnection, device: str | None, peaks: Mapping[str, float]
) -> None:
    """Have all devices of a connection measured against peaks that somebody gave.

    They hide table ``device_peak`` of the store on this connection and on those that are made from
    it, and say in column ``source`` that they were given.

    Args:
        connection: to the store.
        device: the device that all of them are said to be, as :func:`find_device` takes it.
        peaks: further peaks by type, FLOP/s, and the bandwidth as ``memory``, bytes/s.

    Raises:
        QueryError: the device or a type is not known.
    """
    types_known = sorted({dtype for peak in load_device_peaks() for dtype in peak.flop_per_s})
    for dtype in peaks.keys() - {MEMORY, *types_known}:
        raise QueryError(
            f"peak of {dtype}: unknown type", hint=f"known types: {', '.join(types_known)}"
        )
    rows = connection.execute(f"FROM {DEVICE_PEAK} ORDER BY ALL").fetchall()
    traces = [row[0] for row in connection.execute("SELECT trace_id FROM trace").fetchall()]
    if device is not None:
        one = find_device(device)
        source = f"given: {one.product}, {one.source}"
        rows = [
            (trace_id, "*", one.product, dtype, rate, one.memory_bytes_per_s, source)
            for trace_id in traces
            for dtype, rate in one.flop_per_s.items()
        ]
    memory = {row[0]: row[5] for row in rows}
    for dtype in sorted(peaks.keys() - {MEMORY}):
        said = ("*", "given", dtype, peaks[dtype])
        rows = [row for row in rows if row[3] != dtype]
        rows += [(one, *said, memory.get(one), f"given: {dtype}") for one in traces]
    if MEMORY in peaks:
        rows = [(*row[:5], peaks[MEMORY], f"{row[6]}, memory bandwidth given") for row in rows]
    place = f"{SESSION}.given_peaks"
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {place}")
    connection.execute(
        f"CREATE OR REPLACE TABLE {place}.{DEVICE_PEAK} AS {select_rows(DEVICE_PEAK_TYPES, rows)}"
    )
    session = session_of(connection)
    if place not in session.search_path:
        session.search_path = f"{place},{session.search_path}"
        connection.execute(f"SET search_path = {quote(session.search_path)}")


def fill_device_peaks(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill table ``device_peak``: a row per known device of each trace and type of number.

    Where all devices that a file lists are the same product, the rows hold for every device
    (``*``): the numbers of the devices that ran are not always among those listed. A file that
    cannot mean the devices that ran (macro ``newer_kernels``) has none.
    """
    listed = connection.execute(
        "SELECT DISTINCT trace_id, device_id::VARCHAR, coalesce(name, ''), sm_count FROM device "
        "ORDER BY ALL"
    ).fetchall()
    if not listed:
        return
    doubted = connection.execute("SELECT trace_id FROM newer_kernels()").fetchall()
    kinds: dict[int, set[tuple[str, int | None]]] = {}
    for trace_id, _, name, unit_count in listed:
        kinds.setdefault(trace_id, set()).add((name, unit_count))
    # A dictionary keeps the order and drops what is there twice.
    devices = dict.fromkeys(
        (trace_id, "*" if len(kinds[trace_id]) == 1 else device, name, unit_count)
        for trace_id, device, name, unit_count in listed
        if (trace_id,) not in doubted
    )
    connection.execute(
        f"INSERT INTO {DEVICE_PEAK} {select_rows(DEVICE_PEAK_TYPES, _peaks_of(devices))}"
    )


def fill_named_peaks(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill table ``named_peak`` with what is known of the devices of table ``benchmark``."""
    named = connection.execute(
        "SELECT DISTINCT device_name, unit_count FROM benchmark "
        "WHERE device_name IS NOT NULL AND device <> 'cpu' ORDER BY ALL"
    ).fetchall()
    rows = _peaks_of(2 * row for row in named)
    types = {"device_name": "VARCHAR", "unit_count": "INTEGER", **_PEAK_TYPES}
    connection.execute(f"INSERT INTO named_peak {select_rows(types, rows)}")


def _peaks_of(
    devices: Iterable[tuple[object, object, str, int | None]],
) -> list[tuple[object, ...]]:
    """Return a row for each type of number: two columns of a device, and what its name tells."""
    return [
        (*key, peak.product, dtype, rate, peak.memory_bytes_per_s, peak.source)
        for *key, name, unit_count in devices
        if (peak := peak_of(name, unit_count)) is not None
        for dtype, rate in peak.flop_per_s.items()
    ]
