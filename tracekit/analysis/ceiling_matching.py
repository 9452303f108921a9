"""Which measured ceilings apply to a device of a trace.

Ceilings are of the very device that they were measured on. So the names must be the same; where
both sides tell a number of multiprocessors, these too, since a part of a device may go by the name
of the whole. On a CPU the rank must have had as many threads as the measurement: nothing is scaled,
as neither clocks nor memory are shared out by threads. Collectives need no threads of arithmetic,
but as many machines. A trace that does not name its device has only what the user gives for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit.analysis.ceiling_rates import KINDS, Ceiling
from tracekit.analysis.ceilings import GIVEN, Sources
from tracekit.analysis.device_peaks import peak_of
from tracekit.analysis.run import run_sql

if TYPE_CHECKING:
    import duckdb

_MAX_NAMED = 3

# In a run of tracekit's own workloads nothing but this variable sets the threads of a rank.
_PLACES = """
SELECT
    a.trace_id,
    a.accelerator = 'cpu' AS is_cpu,
    d.device_id::VARCHAR AS device,
    nullif(trim(d.name), '') AS name,
    d.sm_count,
    list_distinct(r.devices) AS listed,
    nullif(trim(r.processor), '') AS processor,
    coalesce(
        r.thread_count,
        if(
            r.stage IN ('pretrain', 'finetune'),
            try_cast(r.variables ->> '$.OMP_NUM_THREADS' AS INTEGER),
            NULL
        )
    ) AS thread_count,
    r.node_count
FROM accelerator AS a
INNER JOIN trace AS t ON a.trace_id = t.trace_id
LEFT JOIN run AS r ON t.run_id = r.run_id
LEFT JOIN device AS d ON a.trace_id = d.trace_id AND a.accelerator <> 'cpu'
ORDER BY a.trace_id, d.device_id
"""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A device of a trace, as far as trace and manifest tell.

    `name` is None where neither does; `unit_count` are its multiprocessors, `thread_count` the host
    threads of the rank, `node_count` the machines of the run.
    """

    trace_id: int
    device: str
    name: str | None
    unit_count: int | None = None
    thread_count: int | None = None
    node_count: int | None = None

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU of the host."""
        return self.device == "cpu"


def places(connection: duckdb.DuckDBPyConnection) -> list[Place]:
    """Return the devices of the traces; one for all (``*``) where they are all alike.

    Args:
        connection: to a store.

    Raises:
        StoreError: the store is damaged.
    """
    # A store of runs alone has no tables about work.
    if not run_sql(connection, "SELECT trace_id FROM trace LIMIT 1").rows:
        return []
    found: dict[int, list[Row]] = {}
    for row in run_sql(connection, _PLACES).rows:
        found.setdefault(row[0], []).append(row[1:])
    known = []
    for trace_id, rows in found.items():
        is_cpu, number, _, _, listed, processor, *host = rows[0]
        if is_cpu:
            known.append(Place(trace_id, "cpu", processor, None, *host))
        elif number is None:
            # The file describes no device; the manifest may.
            name = listed[0] if listed and len(listed) == 1 else None
            known.append(Place(trace_id, "*", name, None, *host))
        else:
            # The numbers of the devices that ran are not always among those listed.
            is_one_kind = len({row[2:4] for row in rows}) == 1
            known += [
                Place(trace_id, "*" if is_one_kind else row[1], *row[2:4], *host)
                for row in (rows[:1] if is_one_kind else rows)
            ]
    return known


def find(place: Place, sources: Sources) -> list[Row]:
    """Return what table `device_ceiling` says of a device.

    Args:
        place: the device.
        sources: where to look.

    Returns:
        Rows with all columns: rates, and for what was measured but does not apply the reason.
    """
    refused: list[Row] = []
    for origin, ceilings in sources.of(place.name):
        matched, reasons = _match(place, origin, ceilings)
        rows = [_refusal(place, origin, kind, reason) for kind, reason in reasons.items()]
        if matched:
            return [_row(place, origin, ceiling) for ceiling in matched] + rows
        refused = refused or rows
    return refused


def _row(place: Place, origin: str, ceiling: Ceiling) -> Row:
    return (
        place.trace_id,
        place.device,
        ceiling.device_name,
        ceiling.thread_count,
        ceiling.kind,
        ceiling.dtype,
        ceiling.op,
        ceiling.memory,
        ceiling.backend,
        ceiling.group_size,
        ceiling.flop_per_s,
        ceiling.bytes_per_s,
        ceiling.bus_bytes_per_s,
        origin,
        ceiling.point.measured_at,
        ceiling.source,
        None,
    )


def _refusal(place: Place, origin: str, kind: str | None, reason: str) -> Row:
    nothing = (None,) * 8
    return (place.trace_id, place.device, None, None, kind, *nothing, origin, None, None, reason)


def _match(
    place: Place, origin: str, ceilings: Sequence[Ceiling]
) -> tuple[list[Ceiling], dict[str | None, str]]:
    """Return the ceilings that apply to a device, and why others do not, by kind."""
    of_its_sort = [ceiling for ceiling in ceilings if ceiling.is_cpu == place.is_cpu]
    if not of_its_sort:
        what = "no CPU" if place.is_cpu else "a CPU alone"
        return [], {None: f"the ceilings given are of {what}"} if origin == GIVEN else {}
    named, reason = _of_its_name(place, origin, of_its_sort)
    if reason is not None:
        return [], {None: reason}
    matched: dict[tuple[object, ...], Ceiling] = {}
    reasons: dict[str | None, str] = {}
    for ceiling in named:
        alike = {other.thread_count for other in named if other.kind == ceiling.kind}
        why_not = _other_device(place, ceiling) or _other_host(place, origin, ceiling, alike)
        if why_not is not None:
            reasons.setdefault(ceiling.kind, why_not)
            continue
        known = matched.setdefault(ceiling.key, ceiling)
        # With and without a number of multiprocessors, for example.
        if (ceiling.point.measured_at or "") > (known.point.measured_at or ""):
            matched[ceiling.key] = ceiling
    kinds = {ceiling.kind for ceiling in matched.values()}
    return list(matched.values()), {
        kind: reasons[kind] for kind in KINDS if kind in reasons and kind not in kinds
    }


def _of_its_name(
    place: Place, origin: str, ceilings: Sequence[Ceiling]
) -> tuple[list[Ceiling], str | None]:
    """Return the ceilings of a device's name, or why there are none; None if nobody needs ask."""
    names = list(dict.fromkeys(ceiling.device_name.strip() for ceiling in ceilings))
    if place.name is None:
        what = "processor" if place.is_cpu else "device"
        if origin != GIVEN:
            return [], f"nothing tells which {what} it was; --ceilings says what counts"
        if len({name.lower() for name in names}) > 1:
            return [], f"ceilings of several devices were given; nothing tells which {what} it was"
        return list(ceilings), None
    own = place.name.strip().lower()
    named = [ceiling for ceiling in ceilings if ceiling.device_name.strip().lower() == own]
    if not named and origin == GIVEN:
        more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
        listed = " and ".join([*names[:_MAX_NAMED], *more])
        return [], f"the ceilings given are of {listed}, this is {place.name.strip()}"
    return named, None


def _other_device(place: Place, ceiling: Ceiling) -> str | None:
    """Return why a ceiling is of a larger or smaller part of a device of that name."""
    measured = ceiling.unit_count
    if place.unit_count is None or place.is_cpu:
        return None
    if measured is not None and measured != place.unit_count:
        return (
            f"it was measured on {measured} multiprocessors of a device of this name, "
            f"this one has {place.unit_count}"
        )
    name = ceiling.device_name
    if measured is None and peak_of(name) is not None and peak_of(name, place.unit_count) is None:
        return "this is a part of a device, and the measurement does not tell of which part it is"
    return None


def _other_host(place: Place, origin: str, ceiling: Ceiling, alike: set[int | None]) -> str | None:
    """Return why a ceiling is of more or fewer threads, or of more or fewer machines."""
    if ceiling.kind == "collective":
        measured = ceiling.point.node_count
        if None in (measured, place.node_count) or measured == place.node_count:
            return None
        return f"it was measured on {_count(measured, 'machine')}, the run had {place.node_count}"
    if not place.is_cpu:
        return None
    if ceiling.thread_count is None:
        return "the measurement does not tell how many threads it had"
    if place.thread_count == ceiling.thread_count:
        return None
    if place.thread_count is not None:
        had = _count(place.thread_count, "thread")
        return f"it was measured with {_count(ceiling.thread_count, 'thread')}, the rank had {had}"
    if origin == GIVEN and len(alike) == 1:
        return None
    return "nothing tells how many threads the rank had"


def _count(number: int | None, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
