"""What devices can do at most: from the data in ``queries/rules/devices.toml`` to a table.

The file says how an entry is found and what its figures are.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from tracekit import sql_text

if TYPE_CHECKING:
    import duckdb

DEVICE_PEAK = "device_peak"
"""The table, and what SQL files write under ``Requires`` when they read it."""


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """The peak rates of one product.

    Attributes:
        product: its name.
        pattern: what is, as a whole, a name that traces give it.
        memory_bytes_per_s: bandwidth of its memory, bytes/s.
        flop_per_s: dense FLOP/s (integer types: operations/s) by type, as ``bf16``.
        source: where the vendor says so.
    """

    product: str
    pattern: str
    memory_bytes_per_s: float
    flop_per_s: dict[str, float]
    source: str


def device_peaks_text() -> str:
    """Return the text of the file with the peak rates."""
    return (files("tracekit.queries") / "rules" / "devices.toml").read_text("utf-8")


@cache
def load_device_peaks() -> tuple[DevicePeak, ...]:
    """Read the peak rates, in the order in which the entries are tried."""
    return tuple(
        DevicePeak(
            entry["product"],
            entry["pattern"],
            float(entry["memory_bytes_per_s"]),
            {dtype: float(rate) for dtype, rate in entry["peak"].items()},
            entry["source"],
        )
        for entry in tomllib.loads(device_peaks_text())["device"]
    )


def peak_of(device_name: str) -> DevicePeak | None:
    """Return the peak rates of the device with this name in a trace, or None if it is unknown."""
    for peak in load_device_peaks():
        if re.fullmatch(peak.pattern, device_name.strip(), re.IGNORECASE):
            return peak
    return None


def create_device_peaks(connection: duckdb.DuckDBPyConnection) -> None:
    """Create table ``device_peak``: a row per known device of each trace and type of number.

    Where all devices that a file lists are the same product, the rows hold for every device
    (``*``): the numbers of the devices that ran are not always among those listed.

    Args:
        connection: the store that is being built; its table ``device`` is filled.
    """
    connection.execute(
        f"CREATE OR REPLACE TABLE {DEVICE_PEAK} (trace_id INTEGER, device VARCHAR, "
        "product VARCHAR, dtype VARCHAR, flop_per_s DOUBLE, memory_bytes_per_s DOUBLE, "
        "source VARCHAR)"
    )
    listed = connection.execute(
        "SELECT DISTINCT trace_id, device_id::VARCHAR, coalesce(name, '') FROM device ORDER BY ALL"
    ).fetchall()
    names: dict[int, set[str]] = {}
    for trace_id, _, name in listed:
        names.setdefault(trace_id, set()).add(name)
    devices = sorted(
        {
            (trace_id, "*" if len(names[trace_id]) == 1 else device, name)
            for trace_id, device, name in listed
        }
    )
    found = [
        (
            trace_id,
            device,
            peak.product,
            dtype,
            rate,
            peak.memory_bytes_per_s,
            peak.source,
        )
        for trace_id, device, name in devices
        if (peak := peak_of(name)) is not None
        for dtype, rate in peak.flop_per_s.items()
    ]
    if found:
        connection.execute(f"INSERT INTO {DEVICE_PEAK} VALUES {sql_text.rows(found)}")
