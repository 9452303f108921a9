"""Measures benchmark points sequentially. An error is recorded in the line of its point.

Clocks, power, and temperature come from NVML (nvml.h). They are null if NVML does not report them,
as on a MIG slice.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..machine import memory
from ..machine.hardware import processor_name
from . import collectives, gemm, launches, memcpy
from .clock import MAX_QUEUED, Call, clock_of
from .launches import KERNELS
from .point import Outcome, Point, UnsupportedError, line_of
from .sampling import Budget, Timing, take_samples
from .settings import Settings

if TYPE_CHECKING:
    import torch

_FAMILIES: dict[str, ModuleType] = {
    "gemm": gemm,
    "memcpy": memcpy,
    "collective": collectives,
    "launch": launches,
}
# Minimum duration of a sample, ns. Ranks begin samples some microseconds apart, which matters less
# for longer samples.
_SAMPLE_NS = {"collective": 5e6}
_WARMUP_SHARE = 0.1
_WAKING_S = 1.0
_WAKING_SIDE = 2048
_REASON_LENGTH = 400
_SAY_UNSUPPORTED = (
    "not implemented for",
    "only supported on",
    "not supported",
    "NOT_SUPPORTED",
)
# From best to worst.
_OUTCOMES: tuple[Outcome, ...] = ("ok", "unsupported", "oom", "failed")


class LostDeviceError(Exception):
    """The device is unusable in this process; only a new process can continue."""


class LostGroupError(Exception):
    """A rank failed while others were inside a collective; only new processes can continue."""


def facts_of(device: torch.device) -> dict[str, str | int | None]:
    import torch

    is_cuda = device.type == "cuda"
    properties = torch.cuda.get_device_properties(device) if is_cuda else None
    return {
        "device": str(device) if is_cuda else "cpu",
        "device_name": torch.cuda.get_device_name(device) if is_cuda else processor_name(),
        "unit_count": properties.multi_processor_count if properties else None,
        "thread_count": torch.get_num_threads(),
    }


def measure(
    points: Sequence[Point],
    device: torch.device,
    settings: Settings,
    group: collectives.Group | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the line of each point, without its `bench_id`; all ranks measure the same points."""
    facts, state = facts_of(device), state_of(device)
    if any(point.family == "gemm" for point in points):
        _wake(device)
    for point in points:
        line = _line(point, device, facts, state, budget_of(point, settings), group)
        yield line
        _free(device, after_failure=line["outcome"] != "ok")


def _wake(device: torch.device) -> None:
    """Keep a GPU busy for a second, so that its clocks rise from their idle values."""
    if device.type != "cuda":
        return
    import torch

    square = torch.zeros(_WAKING_SIDE, _WAKING_SIDE, device=device)
    until_s = time.monotonic() + _WAKING_S
    while time.monotonic() < until_s:
        torch.mm(square, square)
        torch.cuda.synchronize(device)


def budget_of(point: Point, settings: Settings) -> Budget:
    max_inner = MAX_QUEUED if "cuda_event" in point.timer or point.family == "launch" else 10_000
    if point.op == "graph_replay":
        max_inner = max(1, MAX_QUEUED // int((point.series or "").removeprefix(KERNELS)))
    return Budget(
        width_pct=settings.width_pct,
        seconds=settings.point_s,
        warmup_s=settings.point_s * _WARMUP_SHARE,
        sample_ns=_SAMPLE_NS.get(point.family, 1e6),
        max_inner=max_inner,
    )


def _line(
    point: Point,
    device: torch.device,
    facts: Mapping[str, str | int | None],
    state: DeviceState,
    budget: Budget,
    group: collectives.Group | None,
) -> dict[str, Any]:
    try:
        timing = _timing(point, device, budget, group)
    except LostGroupError:
        raise
    except _FailedOnOtherRankError as error:
        return line_of(point, facts, outcome=error.outcome, reason=str(error))
    except Exception as error:  # noqa: BLE001 - a point's failure is its result
        outcome, reason = outcome_of(error)
        if outcome == "failed":
            traceback.print_exc()
        return line_of(point, facts, outcome=outcome, reason=reason)
    return line_of(point, facts, timing=timing, state=state.read())


def _timing(
    point: Point, device: torch.device, budget: Budget, group: collectives.Group | None
) -> Timing:
    clock = clock_of(point.timer, device)
    if group is None:
        with _FAMILIES[point.family].prepared(point, device) as call:
            return take_samples(lambda count: clock.time_ns(call, count), budget)
    with _together(point, device, group) as call:

        def timed(count: int) -> float:
            group.wait()
            return clock.time_ns(call, count)

        try:
            return take_samples(timed, budget, group.largest)
        except Exception as error:
            raise LostGroupError(outcome_of(error)[1]) from error


class _FailedOnOtherRankError(Exception):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__("on another rank; see its log")
        self.outcome = outcome


@contextlib.contextmanager
def _together(point: Point, device: torch.device, group: collectives.Group) -> Iterator[Call]:
    with contextlib.ExitStack() as stack:
        call = _run_on_all_ranks(
            lambda: stack.enter_context(collectives.prepared(point, device)), group
        )
        _run_on_all_ranks(call, group)
        yield call


def _run_on_all_ranks(action: Callable[[], Any], group: collectives.Group) -> Any:
    """Run a function on all ranks.

    Raise its error on this rank, or else the worst outcome of the other ranks.
    """
    error: Exception | None = None
    result = None
    try:
        result = action()
    except Exception as caught:  # noqa: BLE001 - reported to the other ranks, then raised
        error = caught
    own = "ok" if error is None else outcome_of(error)[0]
    (worst,) = group.largest((float(_OUTCOMES.index(own)),))
    if error is not None:
        raise error
    if worst:
        raise _FailedOnOtherRankError(_OUTCOMES[int(worst)])
    return result


def outcome_of(error: BaseException) -> tuple[Outcome, str]:
    if isinstance(error, UnsupportedError):
        return "unsupported", str(error)
    if memory.is_out_of_memory(error):
        return "oom", memory.out_of_memory_reason(error)
    text = " ".join(str(error).split())[:_REASON_LENGTH]
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    is_unsupported = isinstance(error, NotImplementedError) or any(
        phrase in text for phrase in _SAY_UNSUPPORTED
    )
    return ("unsupported" if is_unsupported else "failed"), reason


def _free(device: torch.device, *, after_failure: bool) -> None:
    """Free the memory of a point; raise `LostDeviceError` if the device no longer answers."""
    if after_failure:
        gc.collect()
    if device.type != "cuda":
        return
    import torch

    try:
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        # Since torch 2.5, pinned memory has its own caching allocator.
        empty_host_cache = getattr(torch._C, "_host_emptyCache", None)
        if empty_host_cache is not None:
            empty_host_cache()
    except RuntimeError as error:
        raise LostDeviceError(str(error)) from error


_LIBRARY = "libnvidia-ml.so.1"
# nvml.h: NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU; a result of 0 is NVML_SUCCESS.
_CLOCK_SM = 1
_CLOCK_MEMORY = 2
_SENSOR_GPU = 0
_HZ_PER_MHZ = 10**6
_MILLIWATTS_PER_WATT = 1000

State = dict[str, float | int | None]


class DeviceState:
    def __init__(self, uuid: str | None, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        self._library: Any = None
        self._handle = ctypes.c_void_p()
        if uuid is None:
            return
        try:
            library = load(_LIBRARY)
            if library.nvmlInit_v2() == 0 and self._find(library, uuid):
                self._library = library
        except (OSError, AttributeError):
            # NVIDIA's driver is not installed, or it lacks a function.
            return

    def read(self) -> State:
        clock = self._ask("nvmlDeviceGetClockInfo", _CLOCK_SM)
        memory_clock = self._ask("nvmlDeviceGetClockInfo", _CLOCK_MEMORY)
        power = self._ask("nvmlDeviceGetPowerUsage")
        temperature = self._ask("nvmlDeviceGetTemperature", _SENSOR_GPU)
        return {
            "clock_hz": None if clock is None else clock * _HZ_PER_MHZ,
            "memory_clock_hz": None if memory_clock is None else memory_clock * _HZ_PER_MHZ,
            "power_w": None if power is None else power / _MILLIWATTS_PER_WATT,
            "temperature_c": temperature,
        }

    def _find(self, library: Any, uuid: str) -> bool:
        return any(
            library.nvmlDeviceGetHandleByUUID(
                f"{prefix}{uuid}".encode("ascii"), ctypes.byref(self._handle)
            )
            == 0
            for prefix in ("GPU-", "MIG-")
        )

    def _ask(self, function: str, *which: int) -> int | None:
        if self._library is None:
            return None
        value = ctypes.c_uint(0)
        ask = getattr(self._library, function, None)
        if ask is None or ask(self._handle, *which, ctypes.byref(value)) != 0:
            return None
        return value.value


def state_of(device: torch.device) -> DeviceState:
    if device.type != "cuda":
        return DeviceState(None)
    import torch

    # Available since torch 2.4, but not in all ROCm builds.
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return DeviceState(None if uuid is None else str(uuid))
