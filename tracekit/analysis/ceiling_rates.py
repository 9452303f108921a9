"""The highest rates among measured points: the reduction is `queries/bench/bench_ceilings.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tracekit.analysis.bench_points import Point
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.macros import macros_of, make_macros
from tracekit.database.engine import duckdb
from tracekit.sql_text import select_rows

Kind = Literal["product", "memory", "copy", "collective"]

KINDS: tuple[Kind, ...] = ("product", "memory", "copy", "collective")
"""What a ceiling is of: products, a device's own memory, copies from and to it, collectives."""

_TYPES = {
    "point_id": "BIGINT",
    "family": "VARCHAR",
    "op": "VARCHAR",
    "device": "VARCHAR",
    "device_name": "VARCHAR",
    "outcome": "VARCHAR",
    "unit_count": "INTEGER",
    "thread_count": "INTEGER",
    "dtype": "VARCHAR",
    "m": "BIGINT",
    "n": "BIGINT",
    "k": "BIGINT",
    "batch": "BIGINT",
    "memory": "VARCHAR",
    "message_bytes": "BIGINT",
    "group_size": "INTEGER",
    "backend": "VARCHAR",
    "median_ns": "DOUBLE",
    "run_name": "VARCHAR",
    "measured_at": "VARCHAR",
}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The highest rate of one kind that was measured on a device.

    `flop_per_s` is of products, `bytes_per_s` of memory (read and written) and copies (copied),
    `bus_bytes_per_s` of collectives. `thread_count` is None where it does not matter.
    """

    kind: Kind
    device_name: str
    is_cpu: bool
    unit_count: int | None
    thread_count: int | None
    dtype: str | None
    op: str | None
    memory: str | None
    backend: str | None
    group_size: int | None
    flop_per_s: float | None
    bytes_per_s: float | None
    bus_bytes_per_s: float | None
    point: Point

    @property
    def key(self) -> tuple[object, ...]:
        """What tells the ceilings of one device apart."""
        return (self.kind, self.dtype, self.op, self.memory, self.backend, self.group_size)

    @property
    def source(self) -> str:
        """Where it was measured, when, and by what: a text for people."""
        point = self.point
        of_run = [point.run_name, point.measured_at and point.measured_at[:10]]
        text = ", ".join(filter(None, of_run))
        return f"{text}: {_what(point)}" if text else _what(point)


def _what(point: Point) -> str:
    if point.family == "gemm":
        times = f"{point.batch} × " if (point.batch or 1) > 1 else ""
        return f"{times}{point.op} {point.m} × {point.n} × {point.k}"
    kind = f" {point.memory}" if point.memory else ""
    return f"{point.op}{kind}, {point.message_bytes or 0:,} bytes"


def ceilings_of(points: Sequence[Point]) -> list[Ceiling]:
    """Return the ceilings that points make, in a fixed order.

    Args:
        points: of any devices and runs.
    """
    if not points:
        return []
    columns = [name for name in _TYPES if name != "point_id"]
    values = [
        (number, *(getattr(point, name) for name in columns)) for number, point in enumerate(points)
    ]
    macro = load_catalog().macro("bench_ceilings")
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        make_macros(connection, [*macros_of([macro]), macro])
        connection.execute(f"CREATE TEMP TABLE point AS {select_rows(_TYPES, values)}")
        rows = connection.execute("FROM bench_ceilings('point')").fetchall()
    return [Ceiling(*(*row[1:], points[row[0]])) for row in rows]
