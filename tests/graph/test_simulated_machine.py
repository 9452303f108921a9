"""Tracekit reads from the traces of simulated machines what these did."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from scenarios import BASES
from simulated_machine import Row, Simulation, simulate
from simulated_program import Machine

import tracekit

# One of each kind of machine is ingested; the others differ in numbers alone.
INGESTED = (
    "device bound",
    "item in each step",
    "event synchronised",
    "queue of 16",
    "side stream without rows",
    "graphs",
    "two workers",
    "pageable batches",
    "Python rows",
    "four ranks without event calls",
    "four ranks, contention",
    "four ranks, graphs",
    "four ranks, clocks apart",
)


def launches(rows: list[Row]) -> dict[int, Row]:
    """Return the calls of a rank by their correlation."""
    return {row.args["correlation"]: row for row in rows if row.category == "cuda_runtime"}


@pytest.fixture(scope="module", params=INGESTED)
def ingested(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Simulation, tracekit.Trace]]:
    simulation = simulate(Machine(**BASES[request.param]))
    paths: list[Path] = simulation.write(tmp_path_factory.mktemp("simulated"))
    with tracekit.open(*paths, cache=False) as trace:
        yield simulation, trace


def test_tracekit_reads_what_the_machine_did(ingested: tuple[Simulation, tracekit.Trace]) -> None:
    simulation, trace = ingested
    assert not [row for row in trace.health().rows if row[3] == "warn"]
    is_right = {
        "launches": _has_its_launches,
        "steps": _has_its_steps,
        "collectives": _has_its_collectives,
        "phases": _has_its_phases,
        "windows": _has_its_windows,
    }
    assert [name for name, holds in is_right.items() if not holds(simulation, trace)] == []


def _has_its_launches(simulation: Simulation, trace: tracekit.Trace) -> bool:
    found = trace.sql(
        "SELECT t.rank, e.correlation, e.name, e.ts_ns + t.base_time_ns, e.dur_ns, "
        "l.launch_ts_ns + t.base_time_ns FROM device_events AS e JOIN trace AS t USING (trace_id) "
        "JOIN launch_link AS l USING (trace_id, event_id, piece)"
    ).rows
    expected = []
    for rank, rows in enumerate(simulation.ranks):
        offset_ns, calls = simulation.clock_ns(rank), launches(rows)
        for row in rows:
            if row.is_work:
                number = row.args["correlation"]
                start_ns, dur_ns = row.start_ns + offset_ns, row.end_ns - row.start_ns
                launch_ns = calls[number].start_ns + offset_ns
                expected.append((rank, number, row.name, start_ns, dur_ns, launch_ns))
    return sorted(found) == sorted(expected)


def _has_its_steps(simulation: Simulation, trace: tracekit.Trace) -> bool:
    found = trace.sql(
        "SELECT t.rank, s.step, s.start_ns, s.span_ns, s.work_ns FROM device_steps AS s "
        "JOIN trace AS t USING (trace_id) ORDER BY ALL"
    ).rows
    numbers = range(1, simulation.machine.steps + 1)
    ranks = range(simulation.machine.ranks)
    # The simulation knows the work of the last step; the others end where the next one begins.
    last = {rank: work for rank, step, _, _, work in found if step == numbers[-1]}
    return (
        [(rank, step) for rank, step, *_ in found] == [(rank, n) for rank in ranks for n in numbers]
        and last == {rank: simulation.step_durations_ns(rank)[-1] for rank in ranks}
        and all(
            one[2] + one[3] == other[2]
            for one, other in itertools.pairwise(found)
            if one[0] == other[0]
        )
    )


def _has_its_collectives(simulation: Simulation, trace: tracekit.Trace) -> bool:
    found = trace.sql(
        "SELECT number, transfer_ns, count(*) FROM collective_matches "
        "WHERE matched_by = 'seq' AND reason IS NULL GROUP BY ALL ORDER BY ALL"
    ).rows
    shortest: dict[int, int] = {}
    for rows in simulation.ranks:
        for row in rows:
            if "Seq" in row.args and row.is_work:
                dur_ns = row.end_ns - row.start_ns
                shortest[row.args["Seq"]] = min(shortest.get(row.args["Seq"], dur_ns), dur_ns)
    return found == [(seq, ns, simulation.machine.ranks) for seq, ns in sorted(shortest.items())]


def _has_its_phases(simulation: Simulation, trace: tracekit.Trace) -> bool:
    """All work has a module or a row, and is of the thread that its phase runs on."""
    found = trace.sql(
        "SELECT a.phase, l.tid - l.pid AS thread, a.row_name, count(*) FROM attribution AS a "
        "JOIN launch AS l USING (trace_id, launch_id) GROUP BY ALL"
    ).rows
    phases = {phase for phase, *_ in found}
    return (
        phases == {"forward", "backward", "optimizer", "data"}
        and all(row_name != "(unattributed)" for _, _, row_name, _ in found)
        and all((phase == "backward") == (thread != 0) for phase, thread, *_ in found)
        and sum(count for *_, count in found)
        == sum(row.is_work for rows in simulation.ranks for row in rows)
    )


def _has_its_windows(simulation: Simulation, trace: tracekit.Trace) -> bool:
    found = dict(trace.sql("SELECT rank, window_ns FROM device_windows").rows)
    expected = {}
    for rank in range(simulation.machine.ranks):
        work = simulation.work(rank)
        expected[rank] = max(row.end_ns for row in work) - work[0].start_ns
    return found == expected
