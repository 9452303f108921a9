"""Clocks, power, and temperature of a device, read from a stand-in for NVML."""

import ctypes

from tracekit.collectors.bench.measuring import DeviceState

NOTHING = {"clock_hz": None, "memory_clock_hz": None, "power_w": None, "temperature_c": None}


FIGURES = {
    ("nvmlDeviceGetClockInfo", 1): 1410,
    ("nvmlDeviceGetClockInfo", 2): 1593,
    ("nvmlDeviceGetPowerUsage",): 305_250,
    ("nvmlDeviceGetTemperature", 0): 54,
}


class Library:
    """NVML with one device, `GPU-abc`; `missing` functions return that they are not supported."""

    def __init__(self, *missing, init=0):
        self._missing = missing
        self._init = init
        self.uuids = []

    def nvmlInit_v2(self):  # noqa: N802 - NVIDIA's name
        return self._init

    def nvmlDeviceGetHandleByUUID(self, uuid, handle):  # noqa: N802
        self.uuids.append(uuid)
        handle._obj.value = 77
        return 0 if uuid == b"GPU-abc" else 6

    def __getattr__(self, name):
        def tell(handle, *rest):
            *which, value = rest
            assert handle.value == 77
            assert isinstance(value._obj, ctypes.c_uint)
            value._obj.value = FIGURES[name, *which]
            return 3 if name.endswith(self._missing) else 0

        return tell


def test_figures_in_base_units():
    state = DeviceState("abc", lambda _: Library())
    assert state.read() == {
        "clock_hz": 1_410_000_000,
        "memory_clock_hz": 1_593_000_000,
        "power_w": 305.25,
        "temperature_c": 54,
    }


def test_missing_figures_are_null():
    read = DeviceState("abc", lambda _: Library("PowerUsage", "Temperature")).read()
    assert read["clock_hz"] == 1_410_000_000
    assert read["power_w"] is read["temperature_c"] is None
    unknown = Library()
    assert DeviceState("def", lambda _: unknown).read() == NOTHING
    assert unknown.uuids == [b"GPU-def", b"MIG-def"]


def test_without_a_driver_there_are_no_figures():
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    assert DeviceState("abc", missing).read() == NOTHING
    assert DeviceState("abc", lambda _: Library(init=9)).read() == NOTHING
    assert DeviceState("abc", lambda _: object()).read() == NOTHING
    assert DeviceState(None).read() == NOTHING
