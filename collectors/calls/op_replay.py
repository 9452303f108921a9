"""Reruns single ops with recorded arguments and prints their times.

`tracekit export reproduce` writes this file with the calls appended; it needs only torch. Shapes,
types, strides, numbers, and lists of numbers are as recorded by torch.profiler with
`record_shapes`. Traces contain no tensor values: floating-point tensors are random, and others
zero, which is a valid index. Times come from the profiler, like the times in the trace.
"""

from __future__ import annotations

import ast
import json
import math
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

WARMUPS, CALLS = 3, 20
MAX_BYTES = 8_000_000_000
"""Maximum size of a created argument, bytes."""

DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "c10::Half": torch.float16,
    "c10::BFloat16": torch.bfloat16,
    "long int": torch.int64,
    "int": torch.int32,
    "short int": torch.int16,
    "signed char": torch.int8,
    "unsigned char": torch.uint8,
    "bool": torch.bool,
    "c10::complex<float>": torch.complex64,
    "long": torch.int64,
    "c10::complex<double>": torch.complex128,
    "c10::Float8_e4m3fn": torch.float8_e4m3fn,
}


MAX_SIGNS = 1_000
"""Maximum number of characters of a number or a list of numbers."""


class UnknownError(Exception):
    """An argument is unknown or cannot be created."""


def named(text: str) -> str:
    """Return a short one-line ASCII version of a string from the trace."""
    return ascii(text)[1:-1][:100]


def tensor(dims: list[int], dtype: str, strides: list[int], device: str) -> torch.Tensor:
    if dtype not in DTYPES:
        raise UnknownError(f"a tensor of type {named(dtype or 'unknown')}")
    if len(strides) != len(dims):
        strides = list(torch.empty(dims, device="meta").stride())
    if any(size < 0 for size in (*dims, *strides)):
        raise UnknownError(named(f"a tensor of shape {dims} and strides {strides}"))
    is_empty = 0 in dims
    last = sum((size - 1) * stride for size, stride in zip(dims, strides, strict=True))
    length = 0 if is_empty else last + 1
    # With strides of 0, results are larger than the storage of the tensor.
    needed_bytes = max(length, math.prod(dims)) * DTYPES[dtype].itemsize
    if needed_bytes > MAX_BYTES:
        raise UnknownError(named(f"a tensor of {needed_bytes:,} bytes"))
    kind = DTYPES[dtype]
    flat = torch.zeros(length, dtype=kind, device=device)
    if kind.is_floating_point or kind.is_complex:
        flat = torch.randn(length, device=device).to(kind)
    return flat.as_strided(dims, strides)


def argument(case: dict[str, Any], place: int, device: str) -> Any:
    """Return an argument of a call; None if it was not recorded."""
    kind, dims, value = (case[name][place] for name in ("types", "shapes", "numbers"))
    strides = case["strides"][place] if place < len(case["strides"]) else []
    if kind == "TensorList":
        # Traces lack the types of tensors in lists; `list_type` is the type of the other arguments.
        strides = strides or [[] for _ in dims]
        return [
            tensor(*one, device)
            for one in zip(dims, [case["list_type"]] * len(dims), strides, strict=True)
        ]
    if kind in ("Scalar", "ScalarList"):
        if len(value) > MAX_SIGNS:
            raise UnknownError(f"a number with {len(value):,} characters")
        try:
            number = ast.literal_eval(value.replace("inf", "1e999"))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise UnknownError(f"the number {named(value)}") from None
        if isinstance(number, list):  # possibly the shape of a new tensor
            sizes = [max(one, 1) for one in number if isinstance(one, int)]
            if math.prod(sizes) > MAX_BYTES:
                raise UnknownError(f"the numbers {named(value)}")
        return number
    return tensor(dims, kind, strides, device) if kind else None


def fits(kind: str, given: Any) -> bool:
    """Return whether an argument matches a schema type."""
    if given is None:
        return True
    is_tensor = isinstance(given, torch.Tensor)
    if isinstance(given, list):
        wants = "Tensor" in kind
        return "List[" in kind and all(isinstance(one, torch.Tensor) == wants for one in given)
    return is_tensor == ("Tensor" in kind) and ("List[" not in kind) and "str" not in kind


def call_of(case: dict[str, Any], device: str) -> Callable[[], object]:
    """Return a function that calls the first matching overload of the op."""
    namespace, _, name = case["op"].partition("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    arguments = [argument(case, place, device) for place in range(len(case["types"]))]
    for overload in packet.overloads():
        op = getattr(packet, overload)
        wanted = op._schema.arguments
        if len(wanted) != len(arguments):
            continue
        if not all(fits(str(w.type), one) for w, one in zip(wanted, arguments, strict=True)):
            continue
        passed = [
            (w, one)
            for w, one in zip(wanted, arguments, strict=True)
            if one is not None or not w.has_default_value()
        ]
        missing = [w.name for w, one in passed if one is None and "Optional" not in str(w.type)]
        if missing:
            raise UnknownError(f"the argument {missing[0]}")
        by_name = {w.name: one for w, one in passed}
        return lambda: op(**by_name)
    raise UnknownError("an overload that takes such arguments")


def repeat(case: dict[str, Any], range_name: str, device: str) -> str | None:
    """Call an op several times within a range; return the error, if any."""
    try:
        call = call_of(case, device)
        for _ in range(WARMUPS):
            call()
        with record_function(range_name):
            for _ in range(CALLS):
                call()
    except UnknownError as error:
        return f"unknown: {error}"
    except (
        *(ArithmeticError, AttributeError, IndexError, MemoryError),
        *(RuntimeError, TypeError, ValueError),
    ) as error:
        return f"refused by torch: {named(str(error).partition(chr(10))[0])}"
    return None


def measure(cases: list[dict[str, Any]], device: str) -> list[dict[str, Any]]:
    """Return the host and device times of each case, µs, or the reason why there are none."""
    activities = [ProfilerActivity.CPU]
    activities += [ProfilerActivity.CUDA] if device == "cuda" else []
    with torch.no_grad(), profile(activities=activities) as profiler:
        reasons = [repeat(case, f"replay {at}", device) for at, case in enumerate(cases)]
        if device == "cuda":
            torch.cuda.synchronize()
    results: list[dict[str, Any]] = [{"reason": why, "host": [], "device": []} for why in reasons]
    for event in profiler.events():
        name = "" if event.cpu_parent is None else event.cpu_parent.name
        if name.startswith("replay ") and event.name == cases[int(name[7:])]["op"]:
            results[int(name[7:])]["host"].append(event.time_range.elapsed_us())
            results[int(name[7:])]["device"].append(event.device_time_total)
    return results


def shown(times_us: list[float]) -> str:
    return f"{statistics.median(times_us):.1f} ({min(times_us):.1f})" if times_us else "-"


def main(cases: list[dict[str, Any]]) -> None:
    torch.manual_seed(0)
    has_device = torch.cuda.is_available() and any(case["is_on_device"] for case in cases)
    device = "cuda" if has_device else "cpu"
    measured = measure(cases, device)
    if "--json" in sys.argv:
        rows = [{**case, **now} for case, now in zip(cases, measured, strict=True)]
        sys.stdout.write(json.dumps(rows) + "\n")
        return
    lines = [
        (
            f"µs per call: recorded mean; now median (minimum) of {CALLS} on {device}, "
            f"{torch.__version__}"
        ),
        f"{'host then':>10} {'host now':>20} {'device then':>12} {'device now':>20}  op, shapes",
    ]
    for case, now in zip(cases, measured, strict=True):
        why = now["reason"]
        if why is None and "TensorList" in case["types"]:
            why = f"lists of tensors interpreted as {named(case['list_type'])}"
        host_then = "-" if case["host_us"] is None else f"{case['host_us']:.1f}"
        device_then = f"{case['device_us']:.1f}" if case["is_on_device"] else "-"
        device_now = shown(now["device"] if has_device else [])
        lines.append(
            f"{host_then:>10} {shown(now['host']):>20} {device_then:>12} {device_now:>20}  "
            f"{named(case['op'])} {json.dumps(case['shapes']):.300}" + (f" ({why})" if why else "")
        )
    sys.stdout.write("\n".join(lines) + "\n")
