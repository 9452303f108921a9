"""Tracekit reads from the traces of simulated machines what these did."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scenarios import BASES
from simulated_machine import Row, Simulation, simulate
from simulated_program import Machine

import tracekit


def launches(rows: list[Row]) -> dict[int, Row]:
    """Return the calls of a rank by their correlation."""
    return {row.args["correlation"]: row for row in rows if row.category == "cuda_runtime"}


@pytest.fixture(scope="module", params=BASES)
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


EDGES = """
    SELECT s.start_ns, s.stream, t.start_ns, t.stream, e.known_by
    FROM graph_edge AS e
    INNER JOIN graph_span AS s ON e.source_node // 2 = s.span_id
    INNER JOIN graph_span AS t ON e.target_node // 2 = t.span_id
    WHERE e.kind = 'event'
"""


@pytest.mark.parametrize("knobs", [{"has_side_stream": True}, {"ranks": 4}], ids=str)
@pytest.mark.nightly("simulates and opens two machines again")
def test_waits_come_back_without_their_rows(tmp_path: Path, knobs: dict[str, Any]) -> None:
    """Without rows of category cuda_sync, their edges are inferred."""
    found = []
    for has_rows in (True, False):
        machine = simulate(Machine(**knobs, has_event_rows=has_rows))
        with tracekit.open(machine.write(tmp_path / str(has_rows))[0], cache=False) as trace:
            found.append({tuple(row[:4]): row[4] for row in trace.sql(EDGES).rows})
    recorded = {edge for edge, known_by in found[0].items() if known_by == "recorded"}
    assert len(recorded) >= 20
    assert len(recorded & found[1].keys()) >= 0.99 * len(recorded)
    assert set(found[1].values()) == {"inferred"}
