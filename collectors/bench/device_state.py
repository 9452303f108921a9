"""Clocks, power and temperature of an NVIDIA device, as its driver tells them (NVML).

The library comes with the driver (libnvidia-ml.so.1, nvml.h); where it is missing, or does not tell
of a device (a slice of a GPU, another vendor's), the figures are null.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_LIBRARY = "libnvidia-ml.so.1"
# nvml.h: NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU; a result of 0 is NVML_SUCCESS.
_CLOCK_SM = 1
_CLOCK_MEMORY = 2
_SENSOR_GPU = 0
_HZ_PER_MHZ = 10**6
_MILLIWATTS_PER_WATT = 1000

State = dict[str, float | int | None]


class DeviceState:
    """Asks NVML about the device of a UUID as CUDA tells it, without a prefix; None for a CPU."""

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
            # No driver of NVIDIA's, or one that lacks a function.
            return

    def read(self) -> State:
        """Return `clock_hz`, `memory_clock_hz`, `power_w` and `temperature_c`; null if unknown."""
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
        """Take the device's handle; NVML writes `GPU-` or `MIG-` in front of what CUDA tells."""
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

    # Since torch 2.4; not on every build of ROCm.
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return DeviceState(None if uuid is None else str(uuid))
