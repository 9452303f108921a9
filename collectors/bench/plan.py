"""Which points are measured.

The full scale is the paper's (arXiv 2311.03687v2): Figure 11 and Table XII for products, Figure 12
for copies, Figures 13 to 15 for collectives, and the shapes of the projections of Llama2. The small
scale has the same kinds of points in sizes for which a CPU of two cores needs less than a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from . import collectives, gemm
from .launches import AFTER_KERNEL, IDLE, KERNELS
from .point import Point
from .settings import Settings

if TYPE_CHECKING:
    import torch

# Figure 11: N and K of the curves, M from 4096 to 16384.
_CURVES = ((4096, 4096), (11008, 4096), (16384, 16384))
_UNALIGNED = (11008, 4096)
_UNALIGNED_BY = 13
_ROWS = range(4096, 16384 + 1, 512)
# The paper's curves are of bf16; of the other types every fourth point.
_ROWS_OF_OTHERS = range(4096, 16384 + 1, 2048)
_CURVE_TYPE = "bf16"
_TABLE_XII = ((666, 11008, 4096), (10624, 11008, 4096))
# Hidden size, size of the MLP, width of keys (and of values).
_LLAMA2 = {
    "llama2-7b": (4096, 11008, 4096),
    "llama2-13b": (5120, 13824, 5120),
    "llama2-70b": (8192, 28672, 1024),
}
_VOCABULARY = 32000
# From decoding one sequence to prefilling several.
_LLAMA2_ROWS = (1, 16, 64, 256, 1024, 4096)
_LLAMA2_TYPES = ("bf16", "fp8")
_GROUPS = 8
_GROUP_ROWS = (256, 1024, 4096)

_SMALL_CURVES = {(512, 512): (128, 256, 512, 1024), (1024, 1024): (256, 512, 1024)}
_SMALL_UNALIGNED = (512, 512)
_SMALL_GROUPS, _SMALL_GROUP = 4, (128, 512, 512)

_COPIES = tuple(2**power for power in range(10, 32 + 1))
_SMALL_COPIES = tuple(2**power for power in range(10, 28 + 1, 2))
_MESSAGES = tuple(2**power for power in range(10, 32 + 1))
_SMALL_MESSAGES = tuple(2**power for power in range(10, 22 + 1, 4))
_GRAPH_SIZES = (1, 10, 100)


def plan(settings: Settings, device: torch.device, family: str, group_size: int) -> list[Point]:
    """Return the points of a family in the order in which they are measured.

    Args:
        settings: what was asked for.
        device: where they are measured.
        family: one of `point.FAMILIES`.
        group_size: ranks of the collectives.
    """
    is_small = (settings.scale or ("full" if device.type == "cuda" else "small")) == "small"
    if family == "gemm":
        points = _products(settings, gemm.dtypes_of(device), is_small, device.type)
    elif family == "memcpy":
        sizes = settings.sizes_bytes or (_SMALL_COPIES if is_small else _COPIES)
        points = _copies(() if settings.shapes and not settings.sizes_bytes else sizes, device.type)
    elif family == "collective":
        sizes = settings.sizes_bytes or (_SMALL_MESSAGES if is_small else _MESSAGES)
        if settings.shapes and not settings.sizes_bytes:
            sizes = ()
        dtypes = settings.dtypes if settings.families == ("collective",) else ()
        backend = settings.backend or ("nccl" if device.type == "cuda" else "gloo")
        points = _collectives(sizes, dtypes or ("fp32",), group_size, backend, device.type)
    else:
        points = _launches(device.type)
    return [point for point in points if not settings.ops or point.op in settings.ops]


def timer_of(device_type: str) -> str:
    """Return the clock of what a device computes."""
    return "cuda_event" if device_type == "cuda" else "wall_clock"


def _products(
    settings: Settings, own_types: Sequence[str], is_small: bool, device_type: str
) -> Iterator[Point]:
    dtypes = settings.dtypes or own_types
    if settings.shapes:
        shapes: Iterator[tuple[str | None, str, tuple[int, int, int], int | None]] = (
            (None, dtype, shape, None) for dtype, shape in product(dtypes, settings.shapes)
        )
    elif settings.sizes_bytes:
        return
    else:
        shapes = _small_products(dtypes) if is_small else _full_products(dtypes)
    for series, dtype, (m, n, k), batch in shapes:
        op = "grouped_mm" if batch else "scaled_mm" if dtype == "fp8" else "mm"
        yield Point(
            "gemm",
            op,
            series=series,
            dtype=dtype,
            m=m,
            n=n,
            k=k,
            batch=batch or 1,
            timer=timer_of(device_type),
        )


_Shaped = tuple[str | None, str, tuple[int, int, int], int | None]


def _small_products(dtypes: Sequence[str]) -> Iterator[_Shaped]:
    for dtype in dtypes:
        for (n, k), rows in _SMALL_CURVES.items():
            yield from ((_curve(n, k), dtype, (m, n, k), None) for m in rows)
        n, k = _SMALL_UNALIGNED
        for m in _SMALL_CURVES[n, k]:
            yield _unaligned(n, k), dtype, (m + _UNALIGNED_BY, n, k), None
        if dtype == _CURVE_TYPE:
            _, n, k = _SMALL_GROUP
            yield f"grouped_{_curve(n, k)}", dtype, _SMALL_GROUP, _SMALL_GROUPS


def _full_products(dtypes: Sequence[str]) -> Iterator[_Shaped]:
    for dtype in dtypes:
        rows = _ROWS if dtype == _CURVE_TYPE else _ROWS_OF_OTHERS
        for n, k in _CURVES:
            yield from ((_curve(n, k), dtype, (m, n, k), None) for m in rows)
        n, k = _UNALIGNED
        for m in rows:
            yield _unaligned(n, k), dtype, (m + _UNALIGNED_BY, n, k), None
        if dtype == _CURVE_TYPE:
            yield from (("table12", dtype, shape, None) for shape in _TABLE_XII)
            n, k = _UNALIGNED
            for m in _GROUP_ROWS:
                yield f"grouped_{_curve(n, k)}", dtype, (m, n, k), _GROUPS
        if dtype in _LLAMA2_TYPES:
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


def _unaligned(n: int, k: int) -> str:
    return f"unaligned_{_curve(n, k)}"


def _copies(sizes: Sequence[int], device_type: str) -> Iterator[Point]:
    if device_type == "cuda":
        kinds = [*product(("h2d", "d2h"), ("pinned", "pageable")), ("d2d", None)]
    else:
        kinds = [("h2h", "pageable")]
    for (op, memory), size_bytes in product(kinds, sizes):
        yield Point(
            "memcpy",
            op,
            memory=memory,
            message_bytes=size_bytes,
            timer=timer_of(device_type),
        )


def _collectives(
    sizes: Sequence[int],
    dtypes: Sequence[str],
    group_size: int,
    backend: str,
    device_type: str,
) -> Iterator[Point]:
    for dtype, op in product(dtypes, collectives.OPS):
        whole = (collectives.whole_bytes(size, group_size, dtype) for size in sizes)
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
