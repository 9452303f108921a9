"""What a run takes without the profiler: steps that were measured, and an estimate without."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tracekit.errors import QueryError, UsageError

Event = dict[str, Any]
H200 = Path(__file__).parents[3] / "shared" / "h200"


def span(category: str, name: str, start_us: float, end_us: float, **args: object) -> Event:
    """Return a span of the host's thread."""
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1,
        "ts": start_us, "dur": end_us - start_us, "args": args,
    }  # fmt: skip


def work(
    launch_us: float, start_us: float, end_us: float, number: int, name: str = "gemm"
) -> list[Event]:
    """Return a launch of 5 µs and its kernel."""
    kernel = {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start_us,
        "dur": end_us - start_us, "args": {"correlation": number, "device": 0, "stream": 7},
    }  # fmt: skip
    call = span("cuda_runtime", "cudaLaunchKernel", launch_us, launch_us + 5, correlation=number)
    return [call, kernel]


def loop(step_us: int = 1_000) -> list[Event]:
    """Return three steps of 1,000 µs that launch 100 µs of work at their end.

    They do so in two ops, the inner of which begins 10 µs after the outer.
    """
    events = []
    for step in range(3):
        begin = step_us * step
        events += [
            span("user_annotation", f"ProfilerStep#{step}", begin, begin + step_us - 1),
            span("cpu_op", "aten::linear", begin + 100, begin + step_us - 100),
            span("cpu_op", "aten::addmm", begin + 110, begin + step_us - 110),
            *work(begin + step_us - 200, begin + step_us - 190, begin + step_us - 90, step + 1),
        ]
    return events


@pytest.fixture
def traced(tmp_path: Path) -> Callable[[list[Event]], tracekit.Trace]:
    def open_it(events: list[Event]) -> tracekit.Trace:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return tracekit.open(path, cache=False)

    return open_it


def test_a_step_that_was_measured(traced: Callable[[list[Event]], tracekit.Trace]) -> None:
    with traced(loop()) as trace:
        trace.assume_plain_step(900_000)
        (row,) = trace.query("unprofiled").to_dicts()
        (idle,) = trace.query("run_idle").to_dicts()
    assert (row["work_ns"], row["basis"], row["reason"]) == (100_000, "plain step", None)
    assert (row["plain_step_ns"], row["unprofiled_step_ns"]) == (900_000, 900_000)
    assert (row["low_ns"], row["high_ns"]) == (900_000, 900_000)
    assert row["idle_pct"] == pytest.approx(100 * 8 / 9)
    assert (idle["plain_step_ns"], idle["idle_pct"]) == (900_000, pytest.approx(100 * 8 / 9))
    assert idle["source"] == "given"
    # Of the recorded step 1,000 µs are apart; the first begins 890 µs before its work ends.
    assert row["recorded_step_ns"] == pytest.approx((2_910_000 + 7 * 1_000_000) / 10, rel=1e-6)


def test_a_loss_is_no_larger_than_the_run_is_idle(
    traced: Callable[[list[Event]], tracekit.Trace],
) -> None:
    """A copy of 80 µs a step: less than the recording waits for the host, more than the run."""
    events = loop()
    for step in range(3):
        begin = 1_000 * step + 910
        call, copy = work(begin - 90, begin, begin + 80, step + 11, "Memcpy HtoD")
        events += [call, copy | {"cat": "gpu_memcpy"}]
    with traced(events) as trace:
        told = {row["topic"]: row for row in trace.query("verdict").to_dicts()}
        assert told["largest_loss"]["subject"] == "host_bound"
    for plain_ns, subject in ((900_000, "host_bound"), (200_000, "exposed_memcpy")):
        with traced(events) as trace:
            trace.assume_plain_step(plain_ns)
            told = {row["topic"]: row for row in trace.query("verdict").to_dicts()}
        assert told["largest_loss"]["subject"] == subject


def test_the_replay_takes_the_step_that_was_measured(
    traced: Callable[[list[Event]], tracekit.Trace],
) -> None:
    with traced(loop()) as trace:
        trace.assume_plain_step(800_000)
        (row,) = trace.query("unprofiled").to_dicts()
        (phase,) = trace.query("run_phases").to_dicts()
        predicted = trace.predict("host x1")
        recorded = trace.predict("host x1", is_recorded=True)
    assert 0.67 < row["host_factor"] < 1
    # The first work has nothing before it.
    assert (phase["work_ns"], phase["recorded_ns"]) == (100_000, 700_000)
    assert phase["run_ns"] == pytest.approx((100 + 2 * 800) / 3 * 1_000, rel=0.01)
    assert recorded.before_ns == recorded.recorded_ns == 2_100_000
    assert predicted.recorded_ns == 2_100_000
    assert predicted.before_ns == predicted.predicted_ns
    assert predicted.before_ns == pytest.approx(1_700_000, rel=0.01)


def test_idle_time_has_the_phase_that_the_host_was_in(
    traced: Callable[[list[Event]], tracekit.Trace],
) -> None:
    """Steps of 4 ms: 2.5 ms in which nothing is recorded, then an op that launches 100 µs."""
    events = []
    for step in range(3):
        begin = 4_000 * step
        events += [
            span("user_annotation", f"ProfilerStep#{step}", begin, begin + 3_999),
            span("cpu_op", "aten::linear", begin + 2_500, begin + 3_900),
            *work(begin + 3_700, begin + 3_710, begin + 3_810, step + 1),
        ]
    with traced(events) as trace:
        trace.assume_plain_step(3_500_000)
        found = {row["phase"]: row for row in trace.query("run_phases").to_dicts()}
        steps = trace.query("phases").to_dicts()
    phases = {row["phase"]: row["wall_ns"] + row["idle_ns"] for row in steps}
    recorded = {phase: 3 * row["recorded_ns"] for phase, row in found.items()}
    assert recorded == pytest.approx(phases, abs=3)
    assert found["other"]["recorded_ns"] > found["forward"]["recorded_ns"] > 0
    for row in found.values():
        assert 0.8 * row["recorded_ns"] < row["run_ns"] <= row["recorded_ns"]


@pytest.mark.parametrize(
    ("plain_ns", "reason"),
    [
        (90_000, "shorter than the work of the device"),
        (300_000, "the host would have to be 0.3"),
        (3_000_000, "the host would have to be"),
    ],
)
def test_a_step_of_another_program_is_refused(
    traced: Callable[[list[Event]], tracekit.Trace], plain_ns: int, reason: str
) -> None:
    with traced(loop()) as trace:
        trace.assume_plain_step(plain_ns)
        (row,) = trace.query("unprofiled").to_dicts()
        assert row["unprofiled_step_ns"] is None
        assert reason in row["reason"]
        # The recording is what is replayed then.
        assert trace.predict("host x1").before_ns == 2_100_000


def test_a_step_takes_time(traced: Callable[[list[Event]], tracekit.Trace]) -> None:
    with traced(loop()) as trace, pytest.raises(UsageError):
        trace.assume_plain_step(0)


def test_without_nested_ops_of_a_known_kind_there_is_no_figure(
    traced: Callable[[list[Event]], tracekit.Trace],
) -> None:
    with traced(loop()) as trace:
        (row,) = trace.query("unprofiled").to_dicts()
        (idle,) = trace.query("run_idle").to_dicts()
    assert row["unprofiled_step_ns"] is row["plain_step_ns"] is row["profiler_idle_pct"] is None
    assert "0 % of its time" in row["reason"]
    assert (idle["idle_pct"], round(idle["recorded_idle_pct"])) == (None, 90)


def test_every_event_of_the_host_is_counted_once(
    traced: Callable[[list[Event]], tracekit.Trace],
) -> None:
    with traced(loop()) as trace:
        calls = trace.sql(
            "SELECT own_ns FROM recorded_event INNER JOIN graph_edge AS e USING (edge_id) "
            "WHERE e.kind = 'call' ORDER BY edge_id"
        ).rows
        ((ops, calls_and_ends),) = trace.sql(
            "SELECT sum(op_count), sum(call_count) FROM recorded_event"
        ).rows
    assert calls == [(5_000,)] * 3
    assert (ops, calls_and_ends) == (6.0, 3.0)


def test_a_step_that_is_one_graph(traced: Callable[[list[Event]], tracekit.Trace]) -> None:
    with traced(loop()) as trace:
        found = trace.predict("graph on", is_recorded=True)
        trace.assume_plain_step(800_000)
        of_run = trace.predict("graph on")
        with pytest.raises(UsageError, match="takes no terms"):
            trace.predict("graph phase=forward on")
    # Three kernels of 100 µs, 0.42 µs apart.
    assert found.predicted_ns == of_run.predicted_ns == 300_840
    assert found.before_ns > of_run.before_ns
    assert found.low_ns < 300_700 < 301_200 < found.high_ns


def test_a_graph_needs_marked_steps(traced: Callable[[list[Event]], tracekit.Trace]) -> None:
    events = [one for one in loop() if one["cat"] != "user_annotation"]
    with traced(events) as trace, pytest.raises(QueryError, match="no step"):
        trace.predict("graph on")


def layers(*names: str) -> list[Event]:
    """Return two steps of 1,000 µs that launch these kernels of 20 µs, every 200 µs one."""
    events = []
    for step in range(2):
        begin = 1_000 * step
        events.append(span("user_annotation", f"ProfilerStep#{step}", begin, begin + 999))
        for place, name in enumerate(names):
            at = begin + 200 * place
            number = step * len(names) + place + 1
            events += work(at, at + 10, at + 30 - 10 * (place == 2), number, name)
    return events


def test_compiled_code_has_one_kernel_between_two_products(
    traced: Callable[[list[Event]], tracekit.Trace],
) -> None:
    elementwise = "void at::native::vectorized_elementwise_kernel<4>(int)"
    with traced(layers("gemm", elementwise, elementwise, "gemm", elementwise)) as trace:
        found = trace.predict("compile on", is_recorded=True)
        with pytest.raises(UsageError, match="takes no terms"):
            trace.predict("compile phase=forward on")
    assert found.assumptions[0] == (
        "6 kernels between products become 4, each as long as the longest that it fuses: "
        "0.100 ms become 0.080"
    )
    # Eight kernels are left, 45 µs of the host each; what a step has behind its last launch stays.
    rest_ns = 194_000 + 1_000
    assert found.predicted_ns == pytest.approx(8 * 45_000 + rest_ns, abs=20_000)
    assert found.low_ns < 8 * 39_000 + rest_ns
    assert found.high_ns > 8 * 53_000 + rest_ns


@pytest.mark.parametrize(
    ("names", "reason"),
    [(("gemm", "gemm"), "no kernels follow"), (("gemm", "triton_poi_fused_add_0"), "already")],
)
def test_what_cannot_be_compiled(
    traced: Callable[[list[Event]], tracekit.Trace], names: tuple[str, ...], reason: str
) -> None:
    with traced(layers(*names)) as trace, pytest.raises(QueryError, match=reason):
        trace.predict("compile on")


def test_a_forward_pass_without_modules_runs_again(
    traced: Callable[[list[Event]], tracekit.Trace],
) -> None:
    events = []
    for step in range(2):
        begin = 1_000 * step
        number = 3 * step + 1
        back = span(
            "cpu_op", "autograd::engine::evaluate_function: MmBackward0", begin + 500, begin + 600,
            **{"Sequence number": step},
        )  # fmt: skip
        call, kernel = work(begin + 510, begin + 520, begin + 820, number + 2)
        events += [
            span("user_annotation", f"ProfilerStep#{step}", begin, begin + 999),
            span("cpu_op", "aten::mm", begin, begin + 100, **{"Sequence number": step}),
            *work(begin + 10, begin + 20, begin + 120, number),
            span("cpu_op", "aten::baddbmm", begin + 200, begin + 300),
            *work(begin + 210, begin + 220, begin + 320, number + 1),
            {**back, "tid": 2},
            {**call, "tid": 2},
            kernel,
        ]
    with traced(events) as trace:
        found = trace.predict("recompute on", is_recorded=True)
    # The last product of each is left out, as its input is what was saved; gaps of 0.5 µs stay.
    assert found.assumptions[0].startswith(
        "each forward pass runs again before the backward pass: 0.201 ms of work"
    )


def test_a_step_is_drawn_recorded_and_without_the_profiler(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": loop()}))
    shown = cli("breakdown", path, "--plain-step", "500us", "--no-cache").stdout.splitlines()
    at = next(i for i, line in enumerate(shown) if line.startswith("Step  "))
    recorded, plain = shown[at + 1 : at + 3]
    assert recorded.endswith("0.970 ms  89.7 % idle")
    assert plain.endswith("0.500 ms  80.0 % idle")
    # 100 µs of work in both; the last step ends with its work, so they take 970 µs in the mean.
    assert recorded.count("█") == plain.count("█") > 0
    cells = [line.count("█") + line.count("░") for line in (recorded, plain)]
    assert abs(cells[0] - 1.94 * cells[1]) <= 1


LOOPS = {"llama_base": 41.37, "moe": 24.61, "small_graph": 6.38}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_whose_step_is_known(name: str) -> None:
    """Steps that were timed without the profiler, ms."""
    path = H200 / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with tracekit.open(path) as trace:
        (row,) = trace.query("unprofiled").to_dicts()
        trace.assume_plain_step(round(LOOPS[name] * 1e6))
        (known,) = trace.query("unprofiled").to_dicts()
    truth_ns = LOOPS[name] * 1e6
    assert row["unprofiled_step_ns"] == pytest.approx(truth_ns, rel=0.06)
    assert row["low_ns"] <= truth_ns <= row["high_ns"]
    assert row["idle_pct"] == pytest.approx(known["idle_pct"], abs=4)
    assert 0.85 < known["host_factor"] < 1.15


def test_a_run_is_no_longer_than_its_recording() -> None:
    """Of this trace the replay without the profiler has steps 4 % longer than those recorded."""
    path = H200.parent / "traces" / "deepseek_train_h800.json.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with tracekit.open(path) as trace:
        (row,) = trace.query("unprofiled").to_dicts()
    assert row["work_ns"] <= row["unprofiled_step_ns"] <= row["recorded_step_ns"]
