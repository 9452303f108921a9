"""Loads the peak rates of devices from ``queries/rules/devices.toml`` into a table.

Comments in the file describe its entries and how they are matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tracekit.analysis.names.rules import builtin_content
from tracekit.database.connections import SESSION, session_of
from tracekit.errors import QueryError
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    import duckdb

FILE_NAME = "devices.toml"
"""Name of the file with peak rates in ``queries/rules``."""

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

    Attributes:
        pattern: matches its complete name in traces.
        unit_count: number of multiprocessors or compute units of the complete device. None if
        partitions of the device have other names.
        flop_per_s: dense FLOP/s (integer types: operations/s) by data type, such as ``bf16``.
        source: the vendor's document with these rates.
        address: public address of the document.
        reached_bf16: measured FLOP/s of bf16 GEMMs, or None if none was published.
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
    """Read the peak rates, in matching order."""
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
    """Return the peak rates of a device by its name in a trace.

    Return None if the device is unknown or is a partition of a known device. Some partitions have
    the name of the device, but fewer multiprocessors or compute units (`unit_count`, if recorded).
    """
    for peak in load_device_peaks():
        if re.fullmatch(peak.pattern, device_name.strip(), re.IGNORECASE):
            is_part = None not in (unit_count, peak.unit_count) and unit_count != peak.unit_count
            return None if is_part else peak
    return None


def find_device(name: str) -> DevicePeak:
    """Return the device by its name in the driver, or by words of its product name."""
    peaks = load_device_peaks()
    for peak in peaks:
        if re.fullmatch(peak.pattern, name, re.IGNORECASE):
            return peak
    words = re.split(r"[\s_-]+", name.lower())
    results = [peak for peak in peaks if all(word in peak.product.lower() for word in words)]
    if len(results) == 1:
        return results[0]
    known = ", ".join(peak.product for peak in results or peaks)
    what = "several devices match" if results else "unknown device"
    raise QueryError(f"device={name}: {what}", hint=f"known devices: {known}")


DEVICE_PEAK_RATE = "device_peak_rate"
"""Session table with measured peak rates of devices."""

MEMORY = "memory"
"""Key for the memory bandwidth of a device, bytes/s, instead of a data type."""


def insert_peaks(
    connection: duckdb.DuckDBPyConnection, device: str | None, peaks: Mapping[str, float]
) -> None:
    """Use given peak rates for all devices of a connection.

    They replace table ``device_peak`` of the store for this connection and its cursors. Column
    ``source`` states that the user provided them.

    Args:
        connection: connection to the store.
        device: product assumed for all devices; see :func:`find_device`.
        peaks: additional rates by data type, FLOP/s, and the bandwidth as ``memory``, bytes/s.
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
        columns = ("*", "given", dtype, peaks[dtype])
        rows = [row for row in rows if row[3] != dtype]
        rows += [(one, *columns, memory.get(one), f"given: {dtype}") for one in traces]
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
    """Fill table ``device_peak``: one row per trace, known device, and data type.

    A file may not list all devices in use. So if all listed devices are the same product, the rows
    apply to every device (``*``). A file gets no rows if its kernels are built for a newer
    architecture than its listed devices (macro ``newer_kernels``): they ran on unlisted devices.
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
    # A dictionary removes duplicates and keeps the order.
    devices = dict.fromkeys(
        (trace_id, "*" if len(kinds[trace_id]) == 1 else device, name, unit_count)
        for trace_id, device, name, unit_count in listed
        if (trace_id,) not in doubted
    )
    connection.execute(
        f"INSERT INTO {DEVICE_PEAK} {select_rows(DEVICE_PEAK_TYPES, _peaks_of(devices))}"
    )


def fill_named_peaks(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill table ``named_peak`` with the known peak rates of devices in table ``benchmark``."""
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
    """Return a row per device and data type: two columns that identify the device, and the rate."""
    return [
        (*key, peak.product, dtype, rate, peak.memory_bytes_per_s, peak.source)
        for *key, name, unit_count in devices
        if (peak := peak_of(name, unit_count)) is not None
        for dtype, rate in peak.flop_per_s.items()
    ]
