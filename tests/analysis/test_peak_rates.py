"""Measured peak rates: which of them count for which device, and the reasons for others."""

import itertools
import json

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
    cpu,
    found,
    gpu,
    peak_rates_of,
)

import tracekit
from tracekit.errors import UsageError
from tracekit.opening import points_of

CPU_PEAK_RATE, GPU_PEAK_RATE = ("product", 2, 2e9, "given"), ("product", None, 2e9, "given")
NO_PEAK_RATE = (None, None, None, "given")
UNFIT = ("product", None, None, "given")
MI300X = GPU | {"device_name": "AMD Instinct MI300X"}


@pytest.mark.parametrize(
    ("place", "members", "expected", "word"),
    [
        (cpu(), CPU, CPU_PEAK_RATE, None),
        (cpu(" amd epyc "), CPU, CPU_PEAK_RATE, None),
        # A raw trace does not name the device, so the user's choice counts.
        (cpu(None, None, None), CPU, CPU_PEAK_RATE, None),
        (cpu(EPYC, None), CPU, CPU_PEAK_RATE, None),
        (cpu("AMD EPYC 7763"), CPU, NO_PEAK_RATE, "7763"),
        (cpu(EPYC, 1), CPU, UNFIT, "2 threads"),
        (cpu(), CPU | {"thread_count": None}, UNFIT, "thread count"),
        (cpu(), GPU, NO_PEAK_RATE, "CPU"),
        (gpu(), CPU, NO_PEAK_RATE, "CPU"),
        (gpu(), GPU, GPU_PEAK_RATE, None),
        (gpu(), GPU | {"unit_count": 132}, GPU_PEAK_RATE, None),
        (gpu(None, None), GPU, GPU_PEAK_RATE, None),
        (gpu(), GPU | {"unit_count": 114}, UNFIT, "114"),
        # A slice of a GPU has its own name.
        (gpu(f"{NAME} MIG 1g.10gb"), GPU, NO_PEAK_RATE, "MIG"),
        # A partition of an MI300X has the name of the complete device, and 38 of its 304 units.
        (gpu("AMD Instinct MI300X", 38), MI300X, UNFIT, "part"),
        (gpu("AMD Instinct MI300X", 304), MI300X, GPU_PEAK_RATE, None),
    ],
)
def test_given_peak_rates_count_for_the_measured_device(make_bench, place, members, expected, word):
    ((*values, reason),) = found(place, make_bench("b", [FAST], **members))
    assert tuple(values) == expected
    assert reason is None if word is None else word in reason


def test_peak_rates_of_the_same_number_of_threads_are_chosen(make_bench):
    points = [FAST | {"thread_count": 2}, SLOW | {"thread_count": 1}]
    bench = make_bench("b", points, **CPU)
    assert found(cpu(EPYC, 1), bench) == [("product", 1, 0.5e9, "given", None)]
    assert found(cpu(EPYC, 2), bench) == [(*CPU_PEAK_RATE, None)]
    (row,) = found(cpu(None, None), bench)
    assert "thread count" in row[-1]


def test_peak_rates_of_collectives_depend_on_machines_not_on_threads(make_bench):
    bench = make_bench("b", [ALL_REDUCE], **CPU)
    for place in (cpu(EPYC, 1), cpu(EPYC, 1, nodes=None)):
        assert found(place, bench) == [("collective", None, 1e9, "given", None)]
    (row,) = found(cpu(EPYC, 1, nodes=2), bench)
    assert "1 machine" in row[-1]


def test_peak_rates_of_several_devices_fit_no_unnamed_device(make_bench):
    points = [FAST | GPU, SLOW | GPU | {"device_name": "NVIDIA A100"}]
    (row,) = found(gpu(None), make_bench("b", points))
    assert row[:3] == (None, None, None)
    assert row[-1] is not None


def test_a_reason_names_at_most_three_devices(make_bench):
    points = [FAST | GPU | {"device_name": f"GPU {letter}"} for letter in "ABCDE"]
    (row,) = found(gpu(), make_bench("b", points))
    assert all(word in row[-1] for word in ("GPU A", "GPU B", "GPU C", "2 more", NAME))
    assert "GPU D" not in row[-1]


def test_a_device_without_a_name_in_the_file_is_unnamed(make_bench, tiny_trace):
    """Files of HIP graphs have no name of the device; the given peak rates count."""
    copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)", "pid": 0}
    args = {"device": 0, "stream": 7, "bytes": 1000}
    path = tiny_trace(
        [copy | {"tid": 7, "ts": 0, "dur": 10, "args": args}],
        deviceProperties=[{"id": 0, "name": " "}],
    )
    point = {"family": "memcpy", "op": "d2d", "message_bytes": 2000, "median_ns": 10_000.0}
    bench = make_bench("b", [point], **GPU)
    with tracekit.open(path, cache=False, peak_rates=bench) as trace:
        (row,) = trace.query("memcpy").to_dicts()
    assert row["measured_peak_pct"] == pytest.approx(50)


@pytest.mark.nightly("opens two runs")
def test_given_peak_rates_precede_those_of_the_run_folder(make_run, make_bench, tiny_trace):
    shapes = {"Input Dims": [[10, 10], [10, 10]], "Input type": ["c10::BFloat16"] * 2}
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 2}
    here = {"processor": EPYC, "thread_count": 2}
    points = [{"bench_id": 0, "outcome": "ok", "sample_ns": [1.0], **FAST, **CPU}]
    folder = make_run("run", benchmarks=points, environment=here)
    trace = tiny_trace([op | {"args": shapes}], "run/rank0.json")
    statement = "SELECT flop_per_s, origin, source, reason FROM device_peak_rate"
    own = (2e9, "run folder", "run, 2026-01-31: mm 10 × 10 × 10", None)
    for path in (folder, trace):
        with tracekit.open(path, cache=False) as opened:
            assert opened.sql(statement).rows == [own]
    given = make_bench("c", [SLOW], **CPU)
    with tracekit.open(folder, cache=False, peak_rates=given) as opened:
        assert opened.sql(statement).rows == [
            (0.5e9, "given", "c, 2026-01-31: mm 10 × 10 × 10", None)
        ]
    (folder / "run.json").unlink()
    make_run("bare", benchmarks=points, environment={})
    bare = tiny_trace([op | {"args": shapes}], "bare/rank0.json")
    with tracekit.open(bare, cache=False) as opened:
        ((*_, reason),) = opened.sql(statement).rows
    assert "--peak-rates" in reason


def test_points_of_another_device_in_the_run_folder_are_ignored(make_run, tiny_trace):
    points = [{"bench_id": 0, "outcome": "ok", "sample_ns": [1.0], **FAST, **GPU}]
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 2}
    make_run("run", benchmarks=points, environment={"processor": EPYC, "thread_count": 2})
    with tracekit.open(tiny_trace([op], "run/rank0.json"), cache=False) as trace:
        assert trace.sql("FROM device_peak_rate").rows == []


def test_the_fastest_point_of_a_run_counts(make_bench, caplog):
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


INVALID_LINES = [
    *("", "no JSON", "[]", "7", "{}", '{"family": "gemm"}', "[" * 100_000),
    *(
        json.dumps(FAST | CPU | members)
        for members in ({"median_ns": -1}, {"m": -1}, {"m": 2**70}, {"m": "10"})
    ),
    *(json.dumps(FAST | CPU | {"device_name": name}) for name in (5, "x" * 10_000)),
    *(json.dumps(FAST | CPU).replace("1000.0", number) for number in ("NaN", "1e999")),
    '{"family": "\ud800"}'.encode("utf-8", "surrogatepass").decode("latin-1"),
]


def test_invalid_lines_are_skipped(make_bench, caplog):
    for number, line in enumerate(INVALID_LINES):
        with pytest.raises(UsageError, match=f"bench{number}"):
            points_of(make_bench(f"bench{number}", [line], **CPU))
    caplog.clear()
    bench = make_bench("b", [*INVALID_LINES, FAST], **CPU)
    assert found(cpu(), bench) == [(*CPU_PEAK_RATE, None)]
    assert str(len(INVALID_LINES) - 1) in caplog.text


def test_the_date_of_a_run_comes_from_its_manifest(make_bench):
    point = FAST | {"run_name": "forged", "measured_at": "2999-01-01T00:00:00+00:00"}
    for name, created_at, expected in (
        ("b", "2026-01-31T12:00:00+00:00", "2026-01-31T12:00:00+00:00"),
        # 11 p.m. in New York is the next day in UTC.
        ("n", "2026-01-31T23:00:00-05:00", "2026-02-01T04:00:00+00:00"),
        ("z", "2026-01-31T12:00:00", "2026-01-31T12:00:00+00:00"),
        ("c", None, None),
        ("d", "yesterday", None),
        ("e", "", None),
    ):
        (row,) = peak_rates_of(cpu(), make_bench(name, [point], created_at=created_at, **CPU))
        date = f", {expected[:10]}" if expected else ""
        assert (row["measured_at"], row["source"]) == (expected, f"{name}{date}: mm 10 × 10 × 10")


@pytest.mark.nightly("opens two runs")
def test_a_cpu_run_uses_the_peak_rates_of_its_processor_and_threads(
    make_run, make_bench, tiny_trace
):
    shapes = {"Input Dims": [[10, 10], [10, 10]], "Input type": ["c10::BFloat16"] * 2}
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 2}

    numbers = itertools.count()

    def reason(**members):
        name = f"run{next(numbers)}"
        folder = make_run(name, **members)
        tiny_trace([op | {"args": shapes}], f"{name}/rank0.json")
        with tracekit.open(folder, cache=False, peak_rates=bench) as trace:
            (row,) = trace.query("gemms").to_dicts()
            assert (row["measured_peak_pct"] is None) == (row["measured_peak_reason"] is not None)
            if row["measured_peak_pct"] is not None:
                # 2,000 operations in 2 us are 1e9 operations/s.
                assert row["measured_peak_pct"] == pytest.approx(50)
            return row["measured_peak_reason"]

    bench = make_bench("bench", [FAST], **CPU)
    here = {"processor": EPYC}
    assert reason(environment=here | {"thread_count": 2}) is None
    assert "2 threads" in str(reason(environment=here | {"thread_count": 1}))
    # Manifests without thread_count: the variable counts for tracekit's own workloads.
    old = here | {"variables": {"OMP_NUM_THREADS": "2"}}
    assert reason(environment=old, stage="custom") is None
    assert EPYC in str(reason(environment={"processor": "another", "thread_count": 2}))
    assert reason() is None
