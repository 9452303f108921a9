"""Selection of points: the paper's points in full scale, and all kinds in small scale."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from tracekit.collectors.bench import gemm  # noqa: E402
from tracekit.collectors.bench.plan import plan  # noqa: E402
from tracekit.collectors.bench.point import FAMILIES  # noqa: E402
from tracekit.collectors.bench.settings import Settings  # noqa: E402

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ALL = ("bf16", "fp16", "tf32", "fp32", "fp8")


def points(family, device=GPU, group_size=8, **members):
    settings = Settings(families=members.pop("families", FAMILIES), **members)
    return plan(settings, device, family, group_size)


@pytest.fixture(autouse=True)
def _hopper(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _=None: (9, 0))


def test_types_by_device(monkeypatch):
    found = {}
    for capability in ((7, 0), (8, 0), (8, 9), (9, 0)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, c=capability: c)
        found[capability] = gemm.dtypes_of(GPU)
    assert found == {(7, 0): ("fp16", "fp32"), (8, 0): ALL[:4], (8, 9): ALL, (9, 0): ALL}
    assert gemm.dtypes_of(CPU) == ("fp32", "bf16")


def test_figure_11():
    """M from 4096 to 16384 in steps of 512 for three weight shapes, and plus 13 for one of them."""
    curves = {}
    for point in points("gemm", dtypes=("bf16",)):
        curves.setdefault(str(point.series), []).append((point.m, point.n, point.k))
    rows = range(4096, 16385, 512)
    assert curves["N4096_K4096"] == [(m, 4096, 4096) for m in rows]
    assert curves["N11008_K4096"] == [(m, 11008, 4096) for m in rows]
    assert curves["N16384_K16384"] == [(m, 16384, 16384) for m in rows]
    assert curves["unaligned_N11008_K4096"] == [(m + 13, 11008, 4096) for m in rows]
    assert curves["table12"] == [(666, 11008, 4096), (10624, 11008, 4096)]


def test_the_projections_of_llama2():
    """70B has keys and values of 8 of its 64 heads: 8192 + 2 * 1024 columns."""
    found = {point.series: (point.n, point.k) for point in points("gemm", dtypes=("bf16",))}
    assert found["llama2-7b/qkv"] == (12288, 4096)
    assert found["llama2-7b/gate_up"] == (22016, 4096)
    assert found["llama2-13b/down"] == (5120, 13824)
    assert found["llama2-70b/qkv"] == (10240, 8192)
    assert found["llama2-70b/lm_head"] == (32000, 8192)


def test_every_type_has_its_product():
    found = {(point.dtype, point.op) for point in points("gemm")}
    assert found == {
        *((name, "mm") for name in ALL[:4]), ("bf16", "grouped_mm"), ("fp8", "scaled_mm"),
    }  # fmt: skip
    assert {point.timer for point in points("gemm")} == {"cuda_event"}


def test_figure_12():
    found = points("memcpy")
    kinds = Counter((point.op, point.memory) for point in found)
    directions = [("h2d", "pinned"), ("h2d", "pageable"), ("d2h", "pinned"), ("d2h", "pageable")]
    assert kinds == dict.fromkeys([*directions, ("d2d", None)], 23)
    sizes = [point.message_bytes for point in found if point.op == "d2d"]
    assert sizes == [2**power for power in range(10, 33)]


def test_figures_13_to_15():
    """Every rank has an equal part of a message."""
    found = points("collective", group_size=6)
    assert {point.op for point in found} >= {"all_gather", "reduce_scatter", "reduce"}
    assert len(Counter(point.op for point in found)) == 7
    assert all(point.message_bytes % 24 == 0 for point in found if point.message_bytes)
    assert all((point.backend, point.group_size) == ("nccl", 6) for point in found)
    sizes = [point.message_bytes or 0 for point in found if point.op == "reduce"]
    assert sizes[0] == 1008
    assert sizes[-1] >= 2**30


def test_launches():
    on_gpu = Counter(point.op for point in points("launch"))
    assert on_gpu == {"op_call": 1, "empty_kernel": 2, "graph_replay": 6, "stream_sync": 2}
    assert [point.op for point in points("launch", CPU)] == ["op_call"]


def test_a_cpu_has_small_points_of_every_kind():
    found = [point for family in FAMILIES for point in points(family, CPU, 2)]
    assert {point.op for point in found} >= {"mm", "grouped_mm", "h2h", "all_reduce", "op_call"}
    assert {point.timer for point in found} == {"wall_clock"}
    assert len(found) < 100
    assert max(point.message_bytes or 0 for point in found if point.op == "h2h") == 2**28


def test_own_sizes_and_ops():
    shapes = points("gemm", CPU, dtypes=("fp32",), shapes=((3, 4, 5),))
    assert [(p.m, p.n, p.k, p.batch, p.series) for p in shapes] == [(3, 4, 5, 1, None)]
    # With `all`, sizes of one kind omit families without this kind.
    assert points("memcpy", CPU, shapes=((3, 4, 5),)) == []
    assert points("collective", CPU, shapes=((3, 4, 5),)) == []
    assert points("gemm", CPU, sizes_bytes=(8,)) == []
    found = points("collective", CPU, 2, ops=("reduce",), sizes_bytes=(1, 100, 103))
    assert [(point.op, point.message_bytes) for point in found] == [("reduce", 8), ("reduce", 96)]
    types = points("collective", CPU, 2, families=("collective",), dtypes=("bf16", "fp16"))
    assert {point.dtype for point in types} == {"bf16", "fp16"}
