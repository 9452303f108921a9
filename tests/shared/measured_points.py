"""Points of microbenchmarks, and the measured peak rates derived from them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from tracekit.analysis.device_peaks import fill_device_peaks
from tracekit.analysis.library import library_file, start_session
from tracekit.analysis.relations import Relations, ensure
from tracekit.database.connections import create_tables
from tracekit.opening import points_of

MakeBench = Callable[..., Path]
EPYC = "AMD EPYC"
NAME = "NVIDIA H100 80GB HBM3"
CPU = {"device": "cpu", "device_name": EPYC, "thread_count": 2}
GPU = {"device": "cuda:0", "device_name": NAME}
MM = {"family": "gemm", "op": "mm", "dtype": "bf16", "m": 10, "n": 10, "k": 10}
FAST = MM | {"median_ns": 1000.0}
SLOW = MM | {"median_ns": 4000.0}
ALL_REDUCE = {
    "family": "collective",
    "op": "all_reduce",
    "backend": "gloo",
    "group_size": 2,
    "message_bytes": 1000,
    "median_ns": 1000.0,
}


class TracedDevice(NamedTuple):
    """A device of a trace, as described by trace and manifest."""

    name: str | None
    unit_count: int | None
    thread_count: int | None
    node_count: int | None
    is_cpu: bool


def cpu(name: str | None = EPYC, threads: int | None = 2, nodes: int | None = 1) -> TracedDevice:
    return TracedDevice(name, None, threads, nodes, is_cpu=True)


def gpu(name: str | None = NAME, units: int | None = 132) -> TracedDevice:
    return TracedDevice(name, units, 8, 1, is_cpu=False)


def peak_rates_of(place: TracedDevice, bench: Path) -> list[dict[str, Any]]:
    """Return the rows of `device_peak_rate` for a traced device and a benchmark run."""
    with duckdb.connect() as connection:
        start_session(connection, is_complete=True)
        create_tables(connection, library_file())
        connection.execute("INSERT INTO trace (trace_id, run_id) VALUES (0, 'traced')")
        connection.execute(
            "INSERT INTO accelerator (trace_id, accelerator) VALUES (0, ?)",
            ["cpu" if place.is_cpu else "cuda"],
        )
        connection.execute(
            "INSERT INTO run (run_id, processor, thread_count, node_count) VALUES (?, ?, ?, ?)",
            ["traced", place.name if place.is_cpu else None, place.thread_count, place.node_count],
        )
        if not place.is_cpu:
            connection.execute(
                "INSERT INTO device (trace_id, device_id, name, sm_count) VALUES (0, 0, ?, ?)",
                [place.name, place.unit_count],
            )
        fill_device_peaks(connection)
        Relations(connection).give("peak_rate_point", points_of(bench))
        ensure(connection, ["device_peak_rate"])
        rows = connection.execute("FROM device_peak_rate")
        names = [column[0] for column in rows.description]
        return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def found(place: TracedDevice, bench: Path) -> list[tuple[Any, ...]]:
    """Return kind, thread_count, rate, origin, and reason of each row."""
    return [
        (
            row["kind"],
            row["thread_count"],
            row["flop_per_s"] or row["bytes_per_s"] or row["bus_bytes_per_s"],
            row["origin"],
            row["reason"],
        )
        for row in peak_rates_of(place, bench)
    ]
