"""Selects the points to measure.

The full scale contains the points of the paper (arXiv 2311.03687v2): Figure 11 and Table XII for
GEMMs, Figure 12 for copies, and Figures 13 to 15 for collectives. It also contains the linear
projections of Llama2. The small scale has the same kinds of points, in sizes that take less than a
minute on two CPU cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from . import collectives, gemm
from .launches import AFTER_KERNEL, IDLE, KERNELS
from .point import Point
from .settings import Settings

if TYPE_CHECKING:
    import torch

# Figure 11: N and K of each curve, with M from 4096 to 16384.
_CURVES = ((4096, 4096), (11008, 4096), (16384, 16384))
_UNALIGNED = (11008, 4096)
_UNALIGNED_BY = 13
_ROWS = range(4096, 16384 + 1, 512)
# The paper's curves are for bf16. For other types, every fourth point is measured.
_ROWS_OF_OTHERS = range(4096, 16384 + 1, 2048)
_CURVE_TYPE = "bf16"
_TABLE_XII = ((666, 11008, 4096), (10624, 11008, 4096))
# Hidden size, MLP size, and width of the keys (and of the values).
_LLAMA2 = {
    "llama2-7b": (4096, 11008, 4096),
    "llama2-13b": (5120, 13824, 5120),
    "llama2-70b": (8192, 28672, 1024),
}
_VOCABULARY = 32000
# Numbers of tokens, from decode of one sequence to prefill of several.
_LLAMA2_ROWS = (1, 16, 64, 256, 1024, 4096)
_LLAMA2_TYPES = ("bf16", "fp8")
# Number of groups, and the numbers of rows per group.
_GROUPS = (8, (256, 1024, 4096))

_SMALL_CURVES = {(512, 512): (128, 256, 512, 1024), (1024, 1024): (256, 512, 1024)}
_SMALL_UNALIGNED = (512, 512)
_SMALL_GROUPS = (4, (128,))

_COPIES = tuple(2**power for power in range(10, 32 + 1))
_SMALL_COPIES = tuple(2**power for power in range(10, 28 + 1, 2))
_MESSAGES = tuple(2**power for power in range(10, 32 + 1))
_SMALL_MESSAGES = tuple(2**power for power in range(10, 22 + 1, 4))
_GRAPH_SIZES = (1, 10, 100)


def plan(settings: Settings, device: torch.device, family: str, group_size: int) -> list[Point]:
    is_small = (settings.scale or ("full" if device.type == "cuda" else "small")) == "small"
    # If the user selects only GEMM shapes, no copies or collectives are measured.
    sizes = settings.sizes_bytes
    if family == "gemm":
        points = _products(settings, gemm.dtypes_of(device), is_small, device.type)
    elif family == "memcpy":
        if not settings.shapes:
            sizes = sizes or (_SMALL_COPIES if is_small else _COPIES)
        points = _copies(sizes, device.type)
    elif family == "collective":
        if not settings.shapes:
            sizes = sizes or (_SMALL_MESSAGES if is_small else _MESSAGES)
        dtypes = settings.dtypes if settings.families == ("collective",) else ()
        backend = settings.backend or ("nccl" if device.type == "cuda" else "gloo")
        points = _collectives(sizes, dtypes or ("fp32",), group_size, backend, device.type)
    else:
        points = _launches(device.type)
    return [point for point in points if not settings.ops or point.op in settings.ops]


def timer_of(device_type: str) -> str:
    return "cuda_event" if device_type == "cuda" else "wall_clock"


def _products(
    settings: Settings, own_types: Sequence[str], is_small: bool, device_type: str
) -> Iterator[Point]:
    dtypes = settings.dtypes or own_types
    if settings.shapes:
        shapes: Iterator[_Shaped] = (
            (None, dtype, shape, None) for dtype, shape in product(dtypes, settings.shapes)
        )
    elif settings.sizes_bytes:
        return
    else:
        shapes = _shapes(dtypes, is_small)
    for series, dtype, (m, n, k), batch in shapes:
        op = "grouped_mm" if batch else "scaled_mm" if dtype == "fp8" else "mm"
        timer = timer_of(device_type)
        yield Point("gemm", op, series, dtype, m, n, k, batch=batch or 1, timer=timer)


_Shaped = tuple[str | None, str, tuple[int, int, int], int | None]


def _shapes(dtypes: Sequence[str], is_small: bool) -> Iterator[_Shaped]:
    for dtype in dtypes:
        is_main = dtype == _CURVE_TYPE
        full = dict.fromkeys(_CURVES, _ROWS if is_main else _ROWS_OF_OTHERS)
        curves: Mapping[tuple[int, int], Sequence[int]] = _SMALL_CURVES if is_small else full
        for (n, k), rows in curves.items():
            yield from ((_curve(n, k), dtype, (m, n, k), None) for m in rows)
        n, k = _SMALL_UNALIGNED if is_small else _UNALIGNED
        for m in curves[n, k]:
            yield f"unaligned_{_curve(n, k)}", dtype, (m + _UNALIGNED_BY, n, k), None
        if is_main and not is_small:
            yield from (("table12", dtype, shape, None) for shape in _TABLE_XII)
        if is_main:
            count, group_rows = _SMALL_GROUPS if is_small else _GROUPS
            for m in group_rows:
                yield f"grouped_{_curve(n, k)}", dtype, (m, n, k), count
        if dtype in _LLAMA2_TYPES and not is_small:
            yield from _projections(dtype)


def _projections(dtype: str) -> Iterator[_Shaped]:
    for model, (hidden, inner, keys) in _LLAMA2.items():
        shapes = {
            "qkv": (hidden + 2 * keys, hidden),
            "output": (hidden, hidden),
            "gate_up": (2 * inner, hidden),
            "down": (hidden, inner),
            "lm_head": (_VOCABULARY, hidden),
        }
        for part, (n, k) in shapes.items():
            for m in _LLAMA2_ROWS:
                yield f"{model}/{part}", dtype, (m, n, k), None


def _curve(n: int, k: int) -> str:
    return f"N{n}_K{k}"


def _copies(sizes: Sequence[int], device_type: str) -> Iterator[Point]:
    if device_type == "cuda":
        kinds = [*product(("h2d", "d2h"), ("pinned", "pageable")), ("d2d", None)]
    else:
        kinds = [("h2h", "pageable")]
    for (op, memory), size_bytes in product(kinds, sizes):
        timer = timer_of(device_type)
        yield Point("memcpy", op, memory=memory, message_bytes=size_bytes, timer=timer)


def _collectives(
    sizes: Sequence[int],
    dtypes: Sequence[str],
    group_size: int,
    backend: str,
    device_type: str,
) -> Iterator[Point]:
    for dtype, op in product(dtypes, collectives.OPS):
        whole = (collectives.total_bytes(size, group_size, dtype) for size in sizes)
        for size_bytes in dict.fromkeys(whole):
            yield Point(
                "collective",
                op,
                dtype=dtype,
                message_bytes=size_bytes,
                group_size=group_size,
                backend=backend,
                timer=timer_of(device_type),
            )


def _launches(device_type: str) -> Iterator[Point]:
    yield Point("launch", "op_call", series="add_1")
    if device_type != "cuda":
        return
    for timer in ("wall_clock", "cuda_event"):
        yield Point("launch", "empty_kernel", timer=timer)
        for count in _GRAPH_SIZES:
            yield Point("launch", "graph_replay", series=f"{KERNELS}{count}", timer=timer)
    for series in (IDLE, AFTER_KERNEL):
        yield Point("launch", "stream_sync", series=series)
