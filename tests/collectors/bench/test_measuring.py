"""The timed calls, and points that cannot be measured."""

import json
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from tracekit.collectors.bench import gemm, launches, measuring, memcpy  # noqa: E402
from tracekit.collectors.bench.measuring import budget_of, measure, outcome_of  # noqa: E402
from tracekit.collectors.bench.point import Point, UnsupportedError, line_of, to_text  # noqa: E402
from tracekit.collectors.bench.sampling import Timing  # noqa: E402
from tracekit.collectors.bench.settings import Settings  # noqa: E402

CPU = torch.device("cpu")
QUICK = Settings(families=("gemm",), point_s=0.01)


def product(op="mm", dtype="fp32", batch=1, m=16):
    return Point("gemm", op, dtype=dtype, m=m, n=48, k=32, batch=batch)


def called(module, point):
    with module.prepared(point, CPU) as call:
        return call()


@pytest.mark.parametrize(
    ("op", "dtype", "batch", "shape"),
    [("mm", "fp32", 1, (16, 48)), ("mm", "bf16", 1, (16, 48)), ("grouped_mm", "bf16", 3, (48, 48))],
)
def test_gemms_have_the_requested_shape(op, dtype, batch, shape):
    out = called(gemm, product(op, dtype, batch))
    assert tuple(out.shape) == shape
    assert out.dtype == getattr(torch, {"fp32": "float32", "bf16": "bfloat16"}[dtype])
    assert out.float().std() > 1


def test_eight_bit_floats_where_torch_has_them():
    (line,) = measure([product("scaled_mm", "fp8")], CPU, QUICK)
    if line["outcome"] == "ok":
        out = called(gemm, product("scaled_mm", "fp8"))
        assert (tuple(out.shape), out.dtype) == ((16, 48), torch.bfloat16)
    else:
        assert line["reason"]


def test_a_cpu_has_no_tf32():
    with pytest.raises(UnsupportedError, match="CPUs have no tf32"):
        called(gemm, product(dtype="tf32"))


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ({"fp32_precision": "none"}, {"fp32_precision": "tf32"}),
        ({"allow_tf32": False}, {"allow_tf32": True}),
    ],
)
def test_the_precision_of_fp32_is_restored(before, inside, monkeypatch):
    matmul = SimpleNamespace(**before)
    monkeypatch.setattr(torch.backends.cuda, "matmul", matmul)
    with gemm._fp32_precision("tf32", torch.device("cuda")):
        assert vars(matmul) == inside
    assert vars(matmul) == before


def test_copies_and_ops():
    target = called(memcpy, Point("memcpy", "h2h", memory="pageable", message_bytes=5000))
    assert (target.numel(), target.sum().item()) == (5000, 5000)
    assert called(launches, Point("launch", "op_call")).tolist() == [2.0]


def test_every_point_has_its_line_whatever_becomes_of_it():
    points = [
        product(),
        product(dtype="tf32"),
        # More than the address space, as some allocators promise anything smaller.
        Point("gemm", "mm", dtype="fp32", m=2**31 - 1, n=48, k=2**24),
        Point("gemm", "mm", dtype="fp32", m=2**24, n=2**24, k=2**24),
        product(m=17),
    ]
    lines = list(measure(points, CPU, QUICK))
    assert [line["m"] for line in lines] == [point.m for point in points]
    outcomes = [line["outcome"] for line in lines]
    assert outcomes == ["ok", "unsupported", "oom", "oom", "ok"]
    good, bad = lines[0], lines[2]
    assert good["min_ns"] <= good["median_ns"] <= good["max_ns"]
    assert (good["min_ns"], good["max_ns"]) == (min(good["sample_ns"]), max(good["sample_ns"]))
    assert len(good["sample_ns"]) == good["repeat_count"]
    assert (good["device"], good["timer"], good["unit_count"]) == ("cpu", "wall_clock", None)
    assert "allocate" in bad["reason"]
    assert "median_ns" not in bad
    json.loads(to_text(good))


def test_lines_are_as_the_store_reads_them():
    from tracekit.schema import RUN_TABLES

    (columns,) = (
        {c.name for c in table.columns} for table in RUN_TABLES if table.name == "benchmark"
    )
    timing = Timing(3, 2, [2.0, 1.0, 4.0, 3.0, 5.0, 6.0])
    facts = measuring.facts_of(CPU)
    line = line_of(product(), facts, timing=timing, state={"clock_hz": 5})
    assert set(line) <= columns
    wanted = (3, 6, 2, 3.5, 1.0, 6.0, 95, 5)
    names = ("warmup_count", "repeat_count", "inner_count", "median_ns", "low_ns", "high_ns")
    assert tuple(line[name] for name in (*names, "confidence_pct", "clock_hz")) == wanted
    few = line_of(product(), facts, timing=Timing(1, 1, [1.0, 2.0]))
    assert (few["median_ns"], few["low_ns"], few["confidence_pct"]) == (1.5, None, None)


def test_no_more_calls_wait_for_a_device_than_it_takes():
    """A stream takes about a thousand launches; a graph counts as its number of kernels."""
    graph = Point("launch", "graph_replay", series="kernels_100", timer="cuda_event")
    assert budget_of(graph, QUICK).max_inner == 5
    assert budget_of(Point("launch", "empty_kernel"), QUICK).max_inner == 500
    assert budget_of(Point("memcpy", "h2d", timer="cuda_event"), QUICK).max_inner == 500
    assert budget_of(product(), QUICK).max_inner == 10_000


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), "oom"),
        (MemoryError(), "oom"),
        (NotImplementedError("no kernel"), "unsupported"),
        (RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"), "unsupported"),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling cublas"),
            "unsupported",
        ),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "failed"),
        (ValueError("a\nb"), "failed"),
    ],
)
def test_outcomes_of_errors(error, outcome):
    found, reason = outcome_of(error)
    assert found == outcome
    assert "\n" not in reason
