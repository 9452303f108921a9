"""The simulated machine does what a machine does, and its traces say what it did."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from scenarios import BASES, SCENARIOS, Scenario
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

Ran = Callable[[str], Simulation]


@pytest.fixture(scope="module")
def ran() -> Ran:
    """Return a function that runs a base by its name, each once."""
    simulations: dict[str, Simulation] = {}

    def run(name: str) -> Simulation:
        if name not in simulations:
            simulations[name] = simulate(Machine(**BASES[name]))
        return simulations[name]

    return run


@pytest.fixture(params=BASES)
def base(request: pytest.FixtureRequest, ran: Ran) -> Simulation:
    return ran(request.param)


def by_stream(rows: list[Row]) -> Iterator[list[Row]]:
    """Yield the work of each stream of a rank in the order in which it was launched."""
    streams = defaultdict(list)
    for row in rows:
        if row.is_work:
            streams[row.tid].append(row)
    yield from streams.values()


def launches(rows: list[Row]) -> dict[int, Row]:
    """Return the calls of a rank by their correlation."""
    return {row.args["correlation"]: row for row in rows if row.category == "cuda_runtime"}


# -- what holds on every machine -------------------------------------------------------------------


def test_work_of_a_stream_comes_one_after_the_other_as_it_was_launched(base: Simulation) -> None:
    for rows in base.ranks:
        for stream in by_stream(rows):
            assert all(first.end_ns <= second.start_ns for first, second in pairwise(stream))


def test_work_comes_after_its_launch(base: Simulation) -> None:
    for rows in base.ranks:
        calls = launches(rows)
        for row in rows:
            if row.is_work:
                assert calls[row.args["correlation"]].start_ns < row.start_ns < row.end_ns


def test_what_a_thread_does_is_nested(base: Simulation) -> None:
    for rows in base.ranks:
        threads = defaultdict(list)
        for row in rows:
            if not row.is_work and row.category != "cuda_sync":
                threads[row.tid].append(row)
        for thread in threads.values():
            open_until: list[int] = []
            for row in thread:
                while open_until and open_until[-1] <= row.start_ns:
                    open_until.pop()
                assert not open_until or row.end_ns <= open_until[-1]
                open_until.append(row.end_ns)


def test_no_queue_is_deeper_than_it_can_be(base: Simulation) -> None:
    for rows in base.ranks:
        calls = launches(rows)
        for stream in by_stream(rows):
            # The work of a graph replay is launched at once: the first of it stands for all.
            begun = {row.args["correlation"]: row.start_ns for row in reversed(stream)}
            starts = sorted(begun.values())
            returned = sorted(calls[number].end_ns for number in begun)
            depths = (
                launched - sum(start <= end_ns for start in starts)
                for launched, end_ns in enumerate(returned, 1)
            )
            assert max(depths) <= base.machine.queue_depth


@pytest.mark.parametrize("name", ["queue of 64", "queue of 16", "four ranks, free running"])
def test_a_full_queue_holds_the_host(name: str, ran: Ran) -> None:
    held = ran(name)
    free = simulate(held.machine.changed(queue_depth=10_000))
    longest = [
        max(call.end_ns - call.start_ns for call in launches(run.ranks[0]).values())
        for run in (held, free)
    ]
    assert longest[0] > 10 * longest[1]


def test_no_rank_ends_a_collective_before_the_last_one_began(base: Simulation) -> None:
    meetings = defaultdict(list)
    for rows in base.ranks:
        for row in rows:
            if row.is_work and "Seq" in row.args:
                meetings[row.args["Seq"]].append(row)
    assert bool(meetings) == (base.machine.ranks > 1)
    for rows in meetings.values():
        assert len(rows) == base.machine.ranks
        assert len({row.end_ns for row in rows}) == 1
        transfer_ns = rows[0].end_ns - max(row.start_ns for row in rows)
        size_bytes = rows[0].args["In msg nelems"] * 4
        usual_ns = base.machine.collective_latency_ns + size_bytes / base.machine.bandwidth_gb_per_s
        assert transfer_ns == pytest.approx(usual_ns, rel=base.machine.jitter)


def test_work_begins_as_soon_as_it_may(base: Simulation) -> None:
    knobs = base.machine.changed(jitter=0, rank_jitter=0)
    for rows in simulate(knobs).ranks:
        calls, ends = launches(rows), {row.end_ns for row in rows if row.is_work}
        for stream in by_stream(rows):
            free_ns = -1
            for row in stream:
                waited_ns = row.start_ns - calls[row.args["correlation"]].start_ns
                # A stream may wait for one that waits itself.
                since_events = (row.start_ns - n * knobs.event_latency_ns for n in (1, 2))
                assert (
                    waited_ns == knobs.launch_latency_ns
                    or row.start_ns == free_ns
                    or not ends.isdisjoint(since_events)
                )
                free_ns = row.end_ns + knobs.stream_gap_ns


def test_waiting_calls_return_as_soon_as_they_may(base: Simulation) -> None:
    knobs = base.machine.changed(jitter=0, rank_jitter=0)
    for rank, rows in enumerate(simulate(knobs).ranks):
        slow = knobs.slow_host_factor if rank == knobs.slow_host_rank else 1
        ends = {row.end_ns for row in rows if row.is_work}
        for row in rows:
            if row.name.endswith("Synchronize"):
                assert (
                    row.end_ns - row.start_ns == knobs.sync_call_ns * slow
                    or row.end_ns - knobs.wake_ns in ends
                )
            if row.name == "cudaDeviceSynchronize":
                # Whatever began before the call returned was launched before it, and is over.
                assert not any(
                    work.start_ns <= row.end_ns < work.end_ns for work in rows if work.is_work
                )


def test_halving_all_times_halves_the_window_to_the_nanosecond(base: Simulation) -> None:
    # Without jitter all times are even; a kernel under contention ends between two nanoseconds.
    machine = base.machine.changed(jitter=0, rank_jitter=0, contention_pct=0)
    whole, half = simulate(machine), simulate(machine.scaled(0.5))
    assert whole.window_ns == 2 * half.window_ns


def test_halving_all_times_halves_the_window_within_rounding() -> None:
    machine = Machine(**BASES["four ranks, contention"])
    whole, half = simulate(machine), simulate(machine.scaled(0.5))
    events = sum(len(rows) for rows in whole.ranks)
    assert abs(whole.window_ns - 2 * half.window_ns) < events


def test_compute_is_slower_under_communication_by_the_factor(ran: Ran) -> None:
    shared = ran("four ranks, contention")
    alone = simulate(shared.machine.changed(contention_pct=0))
    rows = shared.work()
    busy = [(row.start_ns, row.end_ns) for row in rows if "Seq" in row.args]
    slowed = 0
    for row, free in zip(
        *(next(s for s in by_stream(run.ranks[0]) if s[0].tid == 7) for run in (shared, alone)),
        strict=True,
    ):
        if row.category != "kernel":
            continue
        common_ns = sum(
            max(0, min(row.end_ns, end) - max(row.start_ns, start)) for start, end in busy
        )
        needed_ns = free.end_ns - free.start_ns
        took_ns = row.end_ns - row.start_ns
        assert took_ns - common_ns + common_ns / 1.3 == pytest.approx(needed_ns, abs=3)
        slowed += took_ns > needed_ns
    assert slowed > 20


# -- changes ---------------------------------------------------------------------------------------


def test_a_knob_leaves_the_draws_of_all_else_alone() -> None:
    machine = Machine(ranks=2)
    whole, changed = simulate(machine), simulate(machine.changed(gemm_ns=60_000, item_every=1))
    durations = [
        [
            row.end_ns - row.start_ns
            for row in run.work(1)
            if row.category == "kernel" and "gemm" not in row.name and "Seq" not in row.args
        ]
        for run in (whole, changed)
    ]
    assert durations[0] == durations[1]


def test_another_seed_draws_anew() -> None:
    assert simulate(Machine()).window_ns == simulate(Machine()).window_ns
    assert simulate(Machine()).window_ns != simulate(Machine(seed=2)).window_ns


def test_every_change_sets_knobs_that_the_base_has_otherwise() -> None:
    for scenario in SCENARIOS:
        changed = scenario.machine.changed(**scenario.changed)
        # Overlap is there already: it must be seen that nothing is gained.
        assert changed != scenario.machine or scenario.changes == ("overlap",), scenario.name


def test_scenarios_have_names_of_their_own() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS) >= 60
    assert {scenario.base for scenario in SCENARIOS} == set(BASES)


@pytest.mark.parametrize(
    ("base", "change", "ratio"),
    [
        # Of six batches, 3 ms each of a window of 35 ms, the first is loaded before the window.
        ("slow loader", "loading remove", 0.58),
        ("host bound", "class=gemm x0.5", 1.0),
        ("four ranks, one slow", "ranks=median", 0.54),
        ("queue of 64", "sync remove", 1.0),
    ],
)
def test_what_some_changes_come_to(base: str, change: str, ratio: float) -> None:
    scenario = next(s for s in SCENARIOS if s.base == base and s.changes == (change,))
    assert scenario.true_ratio == pytest.approx(ratio, abs=0.01)


def test_workers_make_batches_while_the_device_computes(ran: Ran) -> None:
    def loading_ns(scenario: Scenario) -> int:
        rows = scenario.after().ranks[0]
        return sum(row.end_ns - row.start_ns for row in rows if "DataLoader" in row.name)

    changes = {s.changes: loading_ns(s) for s in SCENARIOS if s.base == "slow loader"}
    assert changes[("loading workers=2",)] < 0.5 * changes[("loading x0.5",)]


# -- traces ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=INGESTED)
def ingested(
    request: pytest.FixtureRequest, ran: Ran, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Simulation, tracekit.Trace]]:
    simulation = ran(request.param)
    paths: list[Path] = simulation.write(tmp_path_factory.mktemp("simulated"))
    with tracekit.open(*paths, cache=False) as trace:
        yield simulation, trace


def test_tracekit_reads_the_whole_truth(ingested: tuple[Simulation, tracekit.Trace]) -> None:
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
