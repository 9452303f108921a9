"""Which measured ceilings count for which device, and why others do not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from measured_points import (
    ALL_REDUCE,
    CPU,
    EPYC,
    FAST,
    GPU,
    MM,
    NAME,
    SLOW,
    MakeBench,
    TracedDevice,
    ceilings_of,
    cpu,
    found,
    gpu,
)

import tracekit
from tracekit.errors import UsageError
from tracekit.opening import points_of


@pytest.mark.parametrize(
    ("place", "members", "expected"),
    [
        (cpu(), CPU, ("product", 2, 2e9, "given", None)),
        (cpu(" amd epyc "), CPU, ("product", 2, 2e9, "given", None)),
        # A raw trace names nothing: what the user says counts.
        (cpu(None, None, None), CPU, ("product", 2, 2e9, "given", None)),
        (cpu(EPYC, None), CPU, ("product", 2, 2e9, "given", None)),
        (
            cpu("AMD EPYC 7763"),
            CPU,
            (
                None,
                None,
                None,
                "given",
                "the ceilings given are of AMD EPYC, this is AMD EPYC 7763",
            ),
        ),
        (
            cpu(EPYC, 1),
            CPU,
            (
                "product",
                None,
                None,
                "given",
                "it was measured with 2 threads, the rank had 1 thread",
            ),
        ),
        (
            cpu(),
            CPU | {"thread_count": None},
            (
                "product",
                None,
                None,
                "given",
                "the measurement does not tell how many threads it had",
            ),
        ),
        (cpu(), GPU, (None, None, None, "given", "the ceilings given are of no CPU")),
        (gpu(), CPU, (None, None, None, "given", "the ceilings given are of a CPU alone")),
        (gpu(), GPU, ("product", None, 2e9, "given", None)),
        (gpu(), GPU | {"unit_count": 132}, ("product", None, 2e9, "given", None)),
        (gpu(None, None), GPU, ("product", None, 2e9, "given", None)),
        (
            gpu(),
            GPU | {"unit_count": 114},
            (
                "product",
                None,
                None,
                "given",
                "it was measured on 114 multiprocessors of a device of this name, this one has 132",
            ),
        ),
        # A slice of a GPU has a name of its own.
        (
            gpu(f"{NAME} MIG 1g.10gb"),
            GPU,
            (
                None,
                None,
                None,
                "given",
                f"the ceilings given are of {NAME}, this is {NAME} MIG 1g.10gb",
            ),
        ),
        # A partition of an MI300X has the name of the whole, and 38 of its 304 units.
        (
            gpu("AMD Instinct MI300X", 38),
            GPU | {"device_name": "AMD Instinct MI300X"},
            (
                "product",
                None,
                None,
                "given",
                "this is a part of a device, and the measurement does not tell of which part it is",
            ),
        ),
        (
            gpu("AMD Instinct MI300X", 304),
            GPU | {"device_name": "AMD Instinct MI300X"},
            ("product", None, 2e9, "given", None),
        ),
    ],
)
def test_what_is_given_counts_for_the_very_device(
    make_bench: MakeBench, place: TracedDevice, members: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert found(place, make_bench("b", [FAST], **members)) == [expected]


def test_ceilings_of_as_many_threads_are_chosen(make_bench: MakeBench) -> None:
    points = [FAST | {"thread_count": 2}, SLOW | {"thread_count": 1}]
    bench = make_bench("b", points, **CPU)
    assert found(cpu(EPYC, 1), bench) == [("product", 1, 0.5e9, "given", None)]
    assert found(cpu(EPYC, 2), bench) == [("product", 2, 2e9, "given", None)]
    (row,) = found(cpu(None, None), bench)
    assert row[-1] == "nothing tells how many threads the rank had"


def test_a_collective_asks_for_machines_and_not_for_threads(make_bench: MakeBench) -> None:
    bench = make_bench("b", [ALL_REDUCE], **CPU)
    assert found(cpu(EPYC, 1), bench) == [("collective", None, 1e9, "given", None)]
    assert found(cpu(EPYC, 1, nodes=None), bench) == [("collective", None, 1e9, "given", None)]
    (row,) = found(cpu(EPYC, 1, nodes=2), bench)
    assert row[-1] == "it was measured on 1 machine, the run had 2"


def test_several_devices_given_for_a_trace_that_names_none(make_bench: MakeBench) -> None:
    points = [FAST | GPU, SLOW | GPU | {"device_name": "NVIDIA A100"}]
    (row,) = found(gpu(None), make_bench("b", points))
    assert row[-1] == ("ceilings of several devices were given; nothing tells which device it was")


def test_of_many_devices_a_few_are_named(make_bench: MakeBench) -> None:
    points = [FAST | GPU | {"device_name": f"GPU {letter}"} for letter in "ABCDE"]
    (row,) = found(gpu(), make_bench("b", points))
    assert row[-1] == (
        f"the ceilings given are of GPU A and GPU B and GPU C and 2 more, this is {NAME}"
    )


def test_a_device_without_a_name_in_the_file_is_unnamed(
    make_bench: MakeBench, tiny_trace: Callable[..., Path]
) -> None:
    """As files of HIP graphs have it; what the user gives for it counts."""
    copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)", "pid": 0}
    args = {"device": 0, "stream": 7, "bytes": 1000}
    path = tiny_trace(
        [copy | {"tid": 7, "ts": 0, "dur": 10, "args": args}],
        deviceProperties=[{"id": 0, "name": " "}],
    )
    point = {"family": "memcpy", "op": "d2d", "message_bytes": 2000, "median_ns": 10_000.0}
    bench = make_bench("b", [point], **GPU)
    with tracekit.open(path, cache=False, ceilings=bench) as trace:
        (row,) = trace.query("memcpy").to_dicts()
    assert row["ceiling_pct"] == pytest.approx(50)


def test_what_is_given_comes_before_the_run_folder(
    make_run: Callable[..., Path], make_bench: MakeBench, tiny_trace: Callable[..., Path]
) -> None:
    shapes = {"Input Dims": [[10, 10], [10, 10]], "Input type": ["c10::BFloat16"] * 2}
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 2}
    here = {"processor": EPYC, "thread_count": 2}
    points = [{"bench_id": 0, "outcome": "ok", "sample_ns": [1.0], **FAST, **CPU}]
    folder = make_run("run", benchmarks=points, environment=here)
    trace = tiny_trace([op | {"args": shapes}], "run/rank0.json")
    statement = "SELECT flop_per_s, origin, source, reason FROM device_ceiling"
    own = (2e9, "run folder", "run, 2026-01-31: mm 10 × 10 × 10", None)
    for path in (folder, trace):
        with tracekit.open(path, cache=False) as opened:
            assert opened.sql(statement).rows == [own]
    given = make_bench("c", [SLOW], **CPU)
    with tracekit.open(folder, cache=False, ceilings=given) as opened:
        assert opened.sql(statement).rows == [
            (0.5e9, "given", "c, 2026-01-31: mm 10 × 10 × 10", None)
        ]
    (folder / "run.json").unlink()
    make_run("bare", benchmarks=points, environment={})
    bare = tiny_trace([op | {"args": shapes}], "bare/rank0.json")
    with tracekit.open(bare, cache=False) as opened:
        ((*_, reason),) = opened.sql(statement).rows
    assert reason == "nothing tells which processor it was; --ceilings says what counts"


def test_of_the_run_folder_what_is_of_another_device_says_nothing(
    make_run: Callable[..., Path], tiny_trace: Callable[..., Path]
) -> None:
    points = [{"bench_id": 0, "outcome": "ok", "sample_ns": [1.0], **FAST, **GPU}]
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 2}
    make_run("run", benchmarks=points, environment={"processor": EPYC, "thread_count": 2})
    with tracekit.open(tiny_trace([op], "run/rank0.json"), cache=False) as trace:
        assert trace.sql("FROM device_ceiling").rows == []


def test_within_a_run_the_fastest_counts(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    failed = MM | {"outcome": "oom", "reason": "no room", "device": None, "device_name": None}
    unlike = {"family": "launch", "op": "empty_kernel", "median_ns": 1.0}
    points = [
        SLOW,
        failed,
        FAST,
        unlike,
        FAST | {"outcome": "failed", "median_ns": 1.0},
        FAST | {"median_ns": 0.0},
        FAST | {"device_name": None, "median_ns": 1.0},
    ]
    bench = make_bench("b", points, **CPU)
    assert found(cpu(), bench) == [("product", 2, 2e9, "given", None)]
    assert caplog.text == ""


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no JSON",
        "[]",
        "7",
        "{}",
        '{"family": "gemm"}',
        json.dumps(FAST | CPU | {"median_ns": -1}),
        json.dumps(FAST | CPU | {"m": -1}),
        json.dumps(FAST | CPU | {"m": 2**70}),
        json.dumps(FAST | CPU | {"m": "10"}),
        json.dumps(FAST | CPU | {"device_name": 5}),
        json.dumps(FAST | CPU | {"device_name": "x" * 10_000}),
        json.dumps(FAST | CPU).replace("1000.0", "NaN"),
        json.dumps(FAST | CPU).replace("1000.0", "1e999"),
        "[" * 100_000,
        '{"family": "\ud800"}'.encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
)
def test_a_line_that_is_no_point_is_left_out(
    make_bench: MakeBench, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    alone = make_bench("alone", [line], **CPU)
    with pytest.raises(UsageError, match="nothing that was measured in it is a ceiling"):
        points_of(alone)
    bench = make_bench("b", [line, FAST], **CPU)
    assert found(cpu(), bench) == [("product", 2, 2e9, "given", None)]
    assert ("1 line is no measured point" in caplog.text) == bool(line)


def test_when_a_run_was_is_what_its_manifest_says(make_bench: MakeBench) -> None:
    point = FAST | {"run_name": "forged", "measured_at": "2999-01-01T00:00:00+00:00"}
    for name, created_at, expected in (
        ("b", "2026-01-31T12:00:00+00:00", "2026-01-31T12:00:00+00:00"),
        # Eleven at night in New York is the next day in UTC.
        ("n", "2026-01-31T23:00:00-05:00", "2026-02-01T04:00:00+00:00"),
        ("z", "2026-01-31T12:00:00", "2026-01-31T12:00:00+00:00"),
        ("c", None, None),
        ("d", "yesterday", None),
        ("e", "", None),
    ):
        (row,) = ceilings_of(cpu(), make_bench(name, [point], created_at=created_at, **CPU))
        date = f", {expected[:10]}" if expected else ""
        assert (row["measured_at"], row["source"]) == (
            expected,
            f"{name}{date}: mm 10 × 10 × 10",
        )


def test_a_run_of_a_cpu_is_compared_with_what_was_measured_on_it(
    make_run: Callable[..., Path], make_bench: MakeBench, tiny_trace: Callable[..., Path]
) -> None:
    shapes = {"Input Dims": [[10, 10], [10, 10]], "Input type": ["c10::BFloat16"] * 2}
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 2}

    numbers = itertools.count()

    def reasons(**members: Any) -> set[str | None]:
        name = f"run{next(numbers)}"
        folder = make_run(name, **members)
        tiny_trace([op | {"args": shapes}], f"{name}/rank0.json")
        with tracekit.open(folder, cache=False, ceilings=bench) as trace:
            (row,) = trace.query("gemms").to_dicts()
            assert (row["ceiling_pct"] is None) == (row["ceiling_reason"] is not None)
            if row["ceiling_pct"] is not None:
                # 2,000 operations in 2 us are 1e9 operations/s.
                assert row["ceiling_pct"] == pytest.approx(50)
            return {row["ceiling_reason"]}

    bench = make_bench("bench", [FAST], **CPU)
    here = {"processor": EPYC}
    assert reasons(environment=here | {"thread_count": 2}) == {None}
    assert reasons(environment=here | {"thread_count": 1}) == {
        "it was measured with 2 threads, the rank had 1 thread"
    }
    # Before thread_count was recorded: only of tracekit's own workloads the variable tells it.
    old = here | {"variables": {"OMP_NUM_THREADS": "2"}}
    assert reasons(environment=old) == {None}
    assert reasons(environment=old, stage="custom") == {None}
    assert reasons(environment=here | {"variables": {"OMP_NUM_THREADS": "2,1"}}) == {None}
    assert reasons(environment={"processor": "another", "thread_count": 2}) == {
        "the ceilings given are of AMD EPYC, this is another"
    }
    assert reasons() == {None}
