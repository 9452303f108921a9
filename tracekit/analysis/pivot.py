"""Pivot of device time by any columns of view `work`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Column, Result
from tracekit.errors import QueryError, UsageError, did_you_mean
from tracekit.units import unit_of

MEASURES = ("wall_ns", "idle_ns", "span_ns", "kernel_ns", "kernel_count", "bytes")
"""Measures. `span_ns` is wall_ns + idle_ns, which adds up to the windows of the devices."""

NOT_KNOWN = "(none)"

TOTAL = "(total)"

MAX_CELLS = 10_000_000
"""Maximum number of cells of a pivot, to limit memory."""

_NOT_GROUPED = ("trace_id", "event_id", "piece", "name", "ts_ns", "dur_ns")

_ROLE = "role"

_WITH_ROLES = """(SELECT w.*, CASE WHEN w.kind = 'idle' THEN 'idle' ELSE r.role END AS role
FROM work AS w LEFT JOIN role_work AS r USING (trace_id, event_id, piece)) AS work"""
"""View `work` with a column from analysis roles; slower, so it is used only if needed."""


def dimensions() -> tuple[str, ...]:
    """Return the dimensions of a pivot."""
    names = load_catalog().views["work"].column_names
    return *(name for name in names if name not in (*MEASURES, *_NOT_GROUPED)), _ROLE


def pivot(
    sql: Callable[[str], Result],
    rows: Sequence[str],
    columns: str | None = None,
    values: str = "wall_ns",
    where: str | None = None,
    step: int | None = None,
) -> Result:
    """Return sums of a measure, one row for each combination of values of the dimensions in `rows`.

    Args:
        sql: runs a statement on the store.
        rows: dimensions from :func:`dimensions`.
        columns: dimension with one column per value, or None for only the total.
        values: measure from :data:`MEASURES`.
        where: an SQL condition on the columns of view `work`.
        step: number of the only step to include.

    Returns:
        The dimensions as text; a column per value of `columns`, largest first, with the unit of the
        measure as suffix; the measure (the sum of these columns); and its share of the total in
        percent. Rows are sorted by size, or by value if the values are numbers. The last row is the
        total. Unknown values, such as the bytes of kernels, are None. If there are no events, the
        result is empty.
    """
    if not isinstance(where, str | None):
        raise UsageError(f"where is {where!r:.80}, expected a string")
    if step is not None and (type(step) is not int or abs(step) >= 1 << 63):
        raise UsageError("step must be a 64-bit integer")
    if not rows:
        raise UsageError("a pivot needs rows", hint=f"one of {', '.join(dimensions())}")
    for name in (*rows, *([columns] if columns else ())):
        _check(name, dimensions(), "dimension")
    _check(values, MEASURES, "measure")
    measure = "wall_ns + idle_ns" if values == "span_ns" else values
    keys = [*rows, columns or f"'{values}'"]
    conditions = [f"({where}\n)"] if where else []
    conditions += [f"step = {step}"] if step is not None else []
    is_by_role = _ROLE in keys or (where is not None and _ROLE in where)
    source = _WITH_ROLES if is_by_role else "work"
    result = sql(
        f"SELECT {', '.join(keys)}, sum({measure})::HUGEINT AS value FROM {source}"
        f"{' WHERE ' + ' AND '.join(conditions) if conditions else ''} GROUP BY ALL"
    ).rows
    return _arrange(result, rows, values, has_columns=columns is not None)


def _check(name: str, known: Sequence[str], what: str) -> None:
    if not isinstance(name, str):
        raise UsageError(f"a {what} of a pivot is {name!r:.80}, expected a string")
    if name not in known:
        hint = did_you_mean(name, known, count=1) or f"expected one of {', '.join(known)}"
        raise UsageError(f"unknown {what} {name!r} of a pivot", hint=hint)


def _arrange(
    result: Sequence[tuple[Any, ...]], rows: Sequence[str], values: str, *, has_columns: bool
) -> Result:
    sums: dict[tuple[Any, ...], dict[str, int]] = {}
    sizes: dict[str, int] = {}
    for *key, column, value in result:
        name = NOT_KNOWN if column is None else str(column)
        cells = sums.setdefault(tuple(key), {})
        sizes.setdefault(name, 0)
        if value is not None:
            cells[name] = cells.get(name, 0) + value
            sizes[name] += value
    shown = sorted(sizes, key=lambda name: (-sizes[name], name)) if has_columns else []
    shown = [name for name in shown if sizes[name] or not any(sizes.values())]
    whole = sum(sizes.values())

    if len(sums) * len(shown) > MAX_CELLS:
        raise QueryError(
            f"a pivot of {len(sums):,} rows and {len(shown):,} columns has more than "
            f"{MAX_CELLS:,} cells",
            hint="name both dimensions in --rows to get a row for each existing pair",
        )
    is_numbered = all(isinstance(part, int) or part is None for key in sums for part in key)

    def order(key: tuple[Any, ...]) -> tuple[Any, ...]:
        if is_numbered:
            return tuple((part is None, part or 0) for part in key)
        return (-sum(sums[key].values()), *map(str, key))

    def row(key: Sequence[str], cells: dict[str, int]) -> tuple[Any, ...]:
        if not cells:
            return (*key, *[None] * len(shown), None, None)
        total = sum(cells.values())
        share = 100.0 * total / whole if whole else None
        return (*key, *(cells.get(name, 0) for name in shown), total, share)

    out = [
        row([NOT_KNOWN if part is None else str(part) for part in key], sums[key])
        for key in sorted(sums, key=order)
    ]
    if out:
        known = sizes if any(sums.values()) else {}
        out.append(row([TOTAL, *[""] * (len(rows) - 1)], known))
    names = [f"{name}_{unit_of(values)}" for name in shown]
    # A value may be equal to the name of a dimension or the measure.
    reserved = {*rows, values, "share_pct"}
    names = [f"{name} " if name in reserved else name for name in names]
    return Result(
        "pivot",
        (
            *(Column(name, "VARCHAR") for name in rows),
            *(Column(name, "BIGINT" if whole < 2**63 else "HUGEINT") for name in (*names, values)),
            Column("share_pct", "DOUBLE"),
        ),
        out,
        keep=(*rows, values, "share_pct"),
    )
