"""Analysis steps: device events belong to the step that launched them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from cases_as_ranks import AskedByRank, Cases, opened_as_ranks, rows_by_rank
from traces_by_hand import Event, call, kernel, span, work

import tracekit

Opened = Callable[[Path], tracekit.Trace]


CASES = Cases()
asked = CASES.fixture()


ON_TWO_THREADS = CASES.add(
    [
        span("user_annotation", "ProfilerStep#7", 0, 100),
        span("user_annotation", "ProfilerStep#8", 100, 200),
        # Launched in step 7 by another thread, and run when step 8 had begun.
        *work(90, 110, 130, 1, tid=2),
        *work(150, 160, 170, 2),
        *work(210, 220, 250, 3),
    ]
)


def test_step_by_the_time_of_the_launch_on_whichever_thread(asked: AskedByRank) -> None:
    rows = asked.rows(ON_TWO_THREADS, "steps")
    core = ("step", "start_ns", "dur_ns", "kernel_count", "wall_ns")
    assert [tuple(row[column] for column in core) for row in rows] == [
        (7, 0, 100_000, 1, 20_000),
        (8, 100_000, 100_000, 1, 10_000),
        (None, None, None, 1, 30_000),
    ]


OWN_STEPS = CASES.add(
    [
        span("user_annotation", "ProfilerStep#7", 0, 100),
        span("user_annotation", "tk/step/3", 0, 100),
        *work(10, 20, 30, 1),
    ]
)


def test_own_steps_come_before_those_of_the_profiler(asked: AskedByRank) -> None:
    assert [row["step"] for row in asked.rows(OWN_STEPS, "steps")] == [3]


def test_steps_of_2021_are_ops(opened: Opened, public_traces: Path) -> None:
    steps = opened(public_traces / "kineto_v100_resnet_2021.json.gz").query("steps")
    assert [step for step in steps.column("step") if step is not None] == [5, 6, 7, 8, 9, 10]


WITHOUT_STEPS = CASES.add(work(10, 20, 30, 1))


def test_a_trace_without_steps_has_no_rows(asked: AskedByRank) -> None:
    assert asked.rows(WITHOUT_STEPS, "steps") == []


WITH_EVALUATION = CASES.add(
    [
        span("user_annotation", "tk/step/0", 0, 20),
        *work(1, 5, 25, 1),
        span("user_annotation", "tk/phase/evaluation", 21, 60),
        *work(30, 40, 55, 2),
        *work(56, 57, 70, 3),
        span("user_annotation", "tk/step/1", 80, 120),
        *work(90, 100, 110, 4),
        # What else lies between two steps is in the time of the one before.
        *work(125, 130, 140, 5),
        span("user_annotation", "tk/step/2", 150, 170),
        *work(155, 160, 165, 6),
    ]
)


def test_evaluation_between_steps_is_in_the_time_of_none(asked: AskedByRank) -> None:
    rows = asked.rows(WITH_EVALUATION, "steps")
    split = asked.rows(WITH_EVALUATION, "split")
    spans = {row["step"]: row["span_ns"] for row in rows}
    # The device is free when steps 1 and 2 begin.
    assert spans == {0: (40 - 5) * 1000, 1: (150 - 80) * 1000, 2: 15_000, None: None}
    by_step: Counter[int | None] = Counter()
    for row in split:
        by_step[row["step"]] += row["wall_ns"]
    assert by_step == {0: 35_000, 1: 70_000, 2: 15_000, None: (80 - 40) * 1000}
    evaluation = [row for row in split if row["phase"] == "evaluation" and row["name"]]
    assert {(row["step"], row["wall_ns"]) for row in evaluation} == {(None, 28_000)}


BEGUN_ANEW = CASES.add(
    [
        span("user_annotation", "tk/step/0", 0, 20),
        *work(1, 5, 15, 1),
        # Marked at once, as in a later stage of a pipeline; then the model is evaluated.
        span("user_annotation", "tk/step/1", 20, 30),
        *work(21, 22, 24, 2),
        span("user_annotation", "tk/phase/evaluation", 40, 60),
        *work(41, 42, 55, 3),
        span("user_annotation", "tk/step/1 anew", 80, 120),
        *work(90, 100, 110, 4),
    ]
)


ENDED_BEFORE = CASES.add(
    [
        span("user_annotation", "tk/step/0", 0, 20),
        *work(1, 5, 15, 1),
        # The program waits, in the range of its last step, and then ends.
        span("user_annotation", "tk/step/1", 20, 1000),
        *work(21, 22, 24, 2),
        *work(900, 901, 910, 3),
        span("user_annotation", "tk/step/1 ended 950000 ns ago", 990, 991),
    ]
)


def test_the_last_step_ends_with_its_optimizer(asked: AskedByRank) -> None:
    rows = asked.rows(ENDED_BEFORE, "steps")
    found = {row["step"]: (row["start_ns"], row["dur_ns"], row["wall_ns"]) for row in rows}
    assert found == {
        0: (0, 20_000, 10_000),
        1: (20_000, (990 - 950 - 20) * 1000, 2_000),
        None: (None, None, 9_000),
    }


def test_a_step_begins_after_the_evaluation_that_came_first(asked: AskedByRank) -> None:
    rows = asked.rows(BEGUN_ANEW, "steps")
    found = {row["step"]: (row["start_ns"], row["span_ns"], row["wall_ns"]) for row in rows}
    assert found == {
        0: (0, (42 - 5) * 1000, 10_000),
        1: (80_000, (110 - 80) * 1000, 10_000),
        None: (None, None, 15_000),
    }


ONE_LONG_STEP = CASES.add(
    [span("user_annotation", "ProfilerStep#1", 0, 100), *work(1, 10, 30, 1), *work(40, 45, 60, 2)]
)

# The host runs ahead; the range of the last step waits for all that is queued.
QUEUED = CASES.add(
    [
        span("user_annotation", "ProfilerStep#1", 0, 50),
        *work(10, 30, 130, 1),
        span("user_annotation", "ProfilerStep#2", 50, 400),
        *work(60, 130, 230, 2),
        call(300, 390, 0, "cudaDeviceSynchronize"),
    ]
)

# The host loads for 1 ms before the first launch of each step; 2 µs of older work come first.
LOADED = CASES.add(
    [
        kernel("queued before", 2, 4, 99),
        *(
            event
            for step in (0, 1, 2)
            for event in (
                span("user_annotation", f"ProfilerStep#{step}", 1100 * step, 1100 * (step + 1)),
                *work(1100 * step + 1000, 1100 * step + 1010, 1100 * step + 1060, step + 1),
            )
        ),
    ]
)


def test_a_step_ends_with_its_last_work_however_long_its_range_waits(asked: AskedByRank) -> None:
    def spans(rank: int) -> list[tuple[int, int]]:
        rows = asked.rows(rank, "steps")
        return [(row["span_ns"], row["work_ns"]) for row in rows if row["step"] is not None]

    assert spans(ONE_LONG_STEP) == [(50_000, 50_000)]
    assert spans(QUEUED) == [(100_000, 100_000)] * 2
    # From when the device was done with what came before, 4, and from the starts of the ranges.
    assert spans(LOADED) == [(1_096_000, 50_000), (1_100_000, 50_000), (1_060_000, 50_000)]
    split = asked.rows(LOADED, "split")
    assert sum(row["wall_ns"] for row in split if row["step"] == 0) == 1_096_000


def test_a_step_whose_kernels_were_not_recorded_is_in_no_mean(tmp_path: Path) -> None:
    """Kernels of the first two of four steps were dropped; the second lacks half of its own."""

    def step(number: int, *recorded: bool) -> list[Event]:
        at = 1000 * number
        events = [span("user_annotation", f"ProfilerStep#{number}", at, at + 900)]
        for place, is_recorded in enumerate(recorded):
            begin = at + 100 + 400 * place
            both = work(begin, begin + 50, begin + 350, 10 * number + place)
            events += both if is_recorded else both[:1]
        return events

    cases = [
        [
            *step(1, False, False),
            *step(2, False, False),
            *step(3, True, True),
            *step(4, True, True),
        ],
        [*step(1, True, False), *step(2, True, True)],
        # A step that launches nothing is one of no work.
        [*step(1), *step(2, True, True)],
    ]
    with opened_as_ranks(tmp_path, cases) as trace:
        rows = rows_by_rank(trace, "steps")
        health = rows_by_rank(trace, "health")
    columns = ("step", "kernel_count", "kernel_ns", "wall_ns", "missing_count")
    found = {
        rank: [tuple(row[one] for one in columns) for row in of_rank]
        for rank, of_rank in rows.items()
    }
    assert found == {
        0: [
            (1, None, None, None, 2),
            (2, None, None, None, 2),
            (3, 2, 600_000, 600_000, 0),
            (4, 2, 600_000, 600_000, 0),
        ],
        1: [(1, 1, 300_000, 300_000, 1), (2, 2, 600_000, 600_000, 0)],
        2: [(1, 0, 0, 0, 0), (2, 2, 600_000, 600_000, 0)],
    }
    told = {
        rank: (row["value"], row["severity"], row["meaning"])
        for rank, of_rank in health.items()
        for row in of_rank
        if row["metric"] == "steps_without_work"
    }
    said = (
        "steps with launches whose kernels are not in the file: {}; one without any is in no mean"
    )
    assert told == {
        0: (2, "warn", said.format("1, 2")),
        1: (1, "warn", said.format("1")),
        2: (0, "ok", "no step lacks the kernels that it launched"),
    }


def test_means_are_over_steps_with_work(tmp_path: Path) -> None:
    dropped = [
        span("user_annotation", "ProfilerStep#1", 0, 900),
        *work(100, 150, 450, 1)[:1],
        span("user_annotation", "ProfilerStep#2", 1000, 1900),
        *work(1100, 1150, 1450, 2),
    ]
    with opened_as_ranks(tmp_path, [dropped]) as trace:
        (phase,) = trace.query("phase_steps").to_dicts()
        (totals,) = trace.query("step_totals").to_dicts()
    assert phase["step_compute_kernel_ns"] == 300_000
    assert totals["step_count"] == 1
