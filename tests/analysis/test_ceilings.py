"""Which ceilings apply to which device, where they are from, and what the cache keeps of them."""

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
    cpu,
    found,
    gpu,
)

import tracekit
from tracekit.analysis.ceiling_sources import Sources
from tracekit.analysis.ceilings import (
    TracedDevice,
    find,
    forget_all,
    read_points,
    remember,
)
from tracekit.errors import UsageError

pytestmark = pytest.mark.usefixtures("cache")


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
    assert found(place, Sources(make_bench("b", [FAST], **members))) == [expected]


def test_ceilings_of_as_many_threads_are_chosen(make_bench: MakeBench) -> None:
    points = [FAST | {"thread_count": 2}, SLOW | {"thread_count": 1}]
    sources = Sources(make_bench("b", points, **CPU))
    assert found(cpu(EPYC, 1), sources) == [("product", 1, 0.5e9, "given", None)]
    assert found(cpu(EPYC, 2), sources) == [("product", 2, 2e9, "given", None)]
    (row,) = found(cpu(None, None), sources)
    assert row[-1] == "nothing tells how many threads the rank had"


def test_a_collective_asks_for_machines_and_not_for_threads(make_bench: MakeBench) -> None:
    sources = Sources(make_bench("b", [ALL_REDUCE], **CPU))
    assert found(cpu(EPYC, 1), sources) == [("collective", None, 1e9, "given", None)]
    assert found(cpu(EPYC, 1, nodes=None), sources) == [("collective", None, 1e9, "given", None)]
    (row,) = found(cpu(EPYC, 1, nodes=2), sources)
    assert row[-1] == "it was measured on 1 machine, the run had 2"


def test_several_devices_given_for_a_trace_that_names_none(make_bench: MakeBench) -> None:
    points = [FAST | GPU, SLOW | GPU | {"device_name": "NVIDIA A100"}]
    (row,) = found(gpu(None), Sources(make_bench("b", points)))
    assert row[-1] == ("ceilings of several devices were given; nothing tells which device it was")


def test_of_many_devices_a_few_are_named(make_bench: MakeBench) -> None:
    points = [FAST | GPU | {"device_name": f"GPU {letter}"} for letter in "ABCDE"]
    (row,) = found(gpu(), Sources(make_bench("b", points)))
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


def test_the_run_folder_comes_before_the_cache_and_what_is_given_before_both(
    make_bench: MakeBench,
) -> None:
    remember(make_bench("a", [MM | {"median_ns": 500.0}], **CPU))
    folder = make_bench("b", [FAST], **CPU)
    given = make_bench("c", [SLOW], **CPU)
    assert found(cpu(), Sources(None)) == [("product", 2, 4e9, "cache", None)]
    assert found(cpu(), Sources(None, [folder])) == [("product", 2, 2e9, "run folder", None)]
    assert found(cpu(), Sources(given, [folder])) == [("product", 2, 0.5e9, "given", None)]
    # What does not apply there may apply here; else its reason is told.
    other = make_bench("d", [FAST], **(CPU | {"thread_count": 8}))
    assert found(cpu(), Sources(None, [other])) == [("product", 2, 4e9, "cache", None)]
    forget_all()
    (row,) = found(cpu(), Sources(None, [other]))
    assert row[-1] == "it was measured with 8 threads, the rank had 2 threads"


def test_nothing_is_known_of_a_device_without_a_name_or_of_another(make_bench: MakeBench) -> None:
    remember(make_bench("a", [FAST], **CPU))
    assert found(cpu("AMD EPYC 7763"), Sources()) == []
    assert found(gpu(), Sources()) == []
    assert found(cpu(None, None), Sources()) == []
    (row,) = found(cpu(None), Sources(None, [make_bench("b", [FAST], **CPU)]))
    assert row[-1] == "nothing tells which processor it was; --ceilings says what counts"


def test_the_newest_measurement_of_a_kind_counts(make_bench: MakeBench) -> None:
    """Drivers, clocks and limits of power change: a ceiling says what the device does now."""
    fp32 = SLOW | {"dtype": "fp32"}
    old = make_bench("old", [FAST, fp32], created_at="2026-01-01T00:00:00+00:00", **CPU)
    # Eleven at night in New York is the next day in UTC.
    new = make_bench("new", [SLOW, MM], created_at="2026-01-31T23:00:00-05:00", **CPU)
    for folders in ([old, new], [new, old], [new, old, new]):
        forget_all()
        for folder in folders:
            assert remember(folder) == [EPYC]
        rows = find(cpu(), Sources())
        assert [(row[5], row[10], row[14], row[15]) for row in rows] == [
            ("bf16", 0.5e9, "2026-02-01T04:00:00+00:00", "new, 2026-02-01: mm 10 × 10 × 10"),
            ("fp32", 0.5e9, "2026-01-01T00:00:00+00:00", "old, 2026-01-01: mm 10 × 10 × 10"),
        ]


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
    sources = Sources(make_bench("b", points, **CPU))
    assert found(cpu(), sources) == [("product", 2, 2e9, "given", None)]
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
    with pytest.raises(UsageError, match="nothing in it is a point that tracekit bench measured"):
        Sources(alone)
    sources = Sources(make_bench("b", [line, FAST], **CPU))
    assert found(cpu(), sources) == [("product", 2, 2e9, "given", None)]
    assert ("1 line is no measured point" in caplog.text) == bool(line)


def test_what_a_line_says_of_its_run_is_not_believed(make_bench: MakeBench) -> None:
    point = FAST | {"run_name": "forged", "measured_at": "2999-01-01T00:00:00+00:00"}
    (read,) = read_points(make_bench("b", [point], **CPU)).points
    assert (read.run_name, read.measured_at) == ("b", "2026-01-31T12:00:00+00:00")
    (bare,) = read_points(make_bench("c", [point], created_at=None, **CPU)).points
    assert (bare.run_name, bare.measured_at) == ("c", None)


@pytest.mark.parametrize("date", ["yesterday", "9999-12-31T23:59:59-23:59", ""])
def test_a_date_that_is_none_is_left_out(make_bench: MakeBench, date: str) -> None:
    (read,) = read_points(make_bench("b", [FAST], created_at=date, **CPU)).points
    assert read.measured_at is None


def test_a_run_of_a_cpu_finds_what_was_measured_on_it(
    make_run: Callable[..., Path], make_bench: MakeBench, tiny_trace: Callable[..., Path]
) -> None:
    shapes = {"Input Dims": [[10, 10], [10, 10]], "Input type": ["c10::BFloat16"] * 2}
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 2}

    numbers = itertools.count()

    def reasons(**members: Any) -> set[str | None]:
        name = f"run{next(numbers)}"
        folder = make_run(name, **members)
        tiny_trace([op | {"args": shapes}], f"{name}/rank0.json")
        with tracekit.open(folder, cache=False) as trace:
            (row,) = trace.query("gemms").to_dicts()
            assert (row["ceiling_pct"] is None) == (row["ceiling_reason"] is not None)
            if row["ceiling_pct"] is not None:
                # 2,000 operations in 2 us are 1e9 operations/s.
                assert row["ceiling_pct"] == pytest.approx(50)
            return {row["ceiling_reason"]}

    assert remember(make_bench("bench", [FAST], **CPU)) == [EPYC]
    here = {"processor": EPYC}
    assert reasons(environment=here | {"thread_count": 2}) == {None}
    assert reasons(environment=here | {"thread_count": 1}) == {
        "it was measured with 2 threads, the rank had 1 thread"
    }
    # Before thread_count was recorded: only of tracekit's own workloads the variable tells it.
    old = here | {"variables": {"OMP_NUM_THREADS": "2"}}
    assert reasons(environment=old) == {None}
    assert reasons(environment=old, stage="custom") == {
        "nothing tells how many threads the rank had"
    }
    assert reasons(environment=here | {"variables": {"OMP_NUM_THREADS": "2,1"}}) == {
        "nothing tells how many threads the rank had"
    }
    nothing = {"no benchmark for this device"}
    assert reasons(environment={"processor": "another", "thread_count": 2}) == nothing
    assert reasons() == nothing
