"""GEMMs as in linear layers: activations [M, K] times weights [N, K]^T.

Operands are random, because a GPU that multiplies zeros draws less power and runs at higher clocks.
Every call uses the same operands, so small ones stay in the device's cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .clock import Call
from .point import Point, UnsupportedError

if TYPE_CHECKING:
    import torch

TORCH_NAMES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "tf32": "float32",
    "fp32": "float32",
    "fp8": "float8_e4m3fn",
}
DTYPES = tuple(TORCH_NAMES)


def dtypes_of(device: torch.device) -> tuple[str, ...]:
    """Return the default types; on CPUs, fp16 is usually emulated, and torch has no fp8 kernels."""
    if device.type == "cpu":
        return ("fp32", "bf16")
    import torch

    if torch.version.hip is not None:
        return ("bf16", "fp16", "fp32")
    capability = torch.cuda.get_device_capability(device)
    # Ampere has bf16 and tf32; Ada and Hopper have fp8 (CUDA C++ Programming Guide, 20.2).
    types = ["bf16", "fp16", "tf32", "fp32"] if capability >= (8, 0) else ["fp16", "fp32"]
    return tuple(types + ["fp8"] * (capability >= (8, 9)))


@contextlib.contextmanager
def prepared(point: Point, device: torch.device) -> Iterator[Call]:
    assert point.m is not None
    assert point.n is not None
    assert point.k is not None
    make = {"mm": _mm, "scaled_mm": _scaled_mm, "grouped_mm": _grouped_mm}[point.op]
    with _fp32_precision("tf32" if point.dtype == "tf32" else "ieee", device):
        yield make(point, (point.m, point.n, point.k), device)


def _mm(point: Point, shape: tuple[int, int, int], device: torch.device) -> Call:
    import torch

    m, n, k = shape
    dtype = _torch_type(point)
    left = torch.randn(m, k, device=device, dtype=dtype)
    right = torch.randn(n, k, device=device, dtype=dtype).t()
    out = torch.empty(m, n, device=device, dtype=dtype)
    return lambda: torch.mm(left, right, out=out)


def _scaled_mm(point: Point, shape: tuple[int, int, int], device: torch.device) -> Call:
    """Multiply fp8 matrices with one scale each and fast accumulation, as for data-sheet rates."""
    import torch

    scaled_mm = getattr(torch, "_scaled_mm", None)
    if scaled_mm is None:
        raise UnsupportedError("this torch version has no scaled GEMM (torch._scaled_mm)")
    m, n, k = shape
    dtype = _torch_type(point)
    left = torch.randn(m, k, device=device, dtype=torch.bfloat16).to(dtype)
    right = torch.randn(n, k, device=device, dtype=torch.bfloat16).to(dtype).t()
    one = torch.ones((), device=device)
    return lambda: scaled_mm(
        left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
    )


def _grouped_mm(point: Point, shape: tuple[int, int, int], device: torch.device) -> Call:
    import torch

    function = getattr(torch.nn.functional, "grouped_mm", None)
    grouped_mm = function or getattr(torch, "_grouped_mm", None)
    if grouped_mm is None:
        raise UnsupportedError("this torch version has no grouped GEMM (torch._grouped_mm)")
    m, n, k = shape
    count = point.batch or 1
    dtype = _torch_type(point)
    left = torch.randn(count * m, k, device=device, dtype=dtype)
    right = torch.randn(count, n, k, device=device, dtype=dtype).transpose(-2, -1)
    ends = torch.arange(m, count * m + 1, m, device=device, dtype=torch.int32)
    return lambda: grouped_mm(left, right, offs=ends)


def _torch_type(point: Point) -> torch.dtype:
    import torch

    result = getattr(torch, TORCH_NAMES[point.dtype or "fp32"], None)
    if result is None:
        raise UnsupportedError(f"this torch version has no {point.dtype}")
    return result


@contextlib.contextmanager
def _fp32_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Set the fp32 precision and restore it at the end.

    Use torch 2.9's new setting if it exists, because it must not be mixed with the old one.
    """
    if device.type != "cuda":
        if precision != "ieee":
            raise UnsupportedError("CPUs have no tf32")
        yield
        return
    import torch

    matmul: Any = torch.backends.cuda.matmul
    name, wanted = ("fp32_precision", precision)
    if not hasattr(matmul, name):
        name, wanted = ("allow_tf32", precision == "tf32")  # type: ignore[assignment]
    before = getattr(matmul, name)
    setattr(matmul, name, wanted)
    try:
        yield
    finally:
        setattr(matmul, name, before)
