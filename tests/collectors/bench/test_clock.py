"""The clocks: what is inside of the time, and in which order a device is told."""

from __future__ import annotations

from typing import Any

import pytest

from tracekit.collectors.bench.clock import EventClock, WallClock


class Cuda:
    """Stands for torch.cuda and writes down what it is told."""

    def __init__(self, elapsed_ms: float = 1.5) -> None:
        self.told: list[str] = []
        self._elapsed_ms = elapsed_ms
        self._count = 0

    def synchronize(self, device: object) -> None:
        self.told.append(f"synchronize {device}")

    def _sleep(self, cycles: int) -> None:
        self.told.append(f"sleep {cycles}")

    def Event(self, *, enable_timing: bool) -> Any:  # noqa: N802 - torch's name
        assert enable_timing
        cuda, self._count = self, self._count + 1
        number = self._count

        class Event:
            def record(self) -> None:
                cuda.told.append(f"record {number}")

            def synchronize(self) -> None:
                cuda.told.append(f"wait {number}")

            def elapsed_time(self, other: object) -> float:
                del other
                return cuda._elapsed_ms

        return Event()


def test_events_hold_nothing_but_the_calls() -> None:
    cuda = Cuda()
    clock = EventClock("cuda:0", cuda)  # type: ignore[arg-type]
    took = clock.time_ns(lambda: cuda.told.append("call"), 2)
    assert took == 1_500_000
    assert cuda.told == [
        "synchronize cuda:0", "sleep 75000", "record 1", "call", "call", "record 2", "wait 2",
    ]  # fmt: skip


@pytest.mark.parametrize(("count", "cycles"), [(1, 75_000), (100, 1_500_000), (9999, 15_000_000)])
def test_the_device_is_held_for_as_long_as_calls_are_queued(count: int, cycles: int) -> None:
    cuda = Cuda()
    EventClock("cuda:0", cuda).time_ns(lambda: None, count)  # type: ignore[arg-type]
    assert cuda.told[1] == f"sleep {cycles}"


def test_a_device_without_that_kernel_is_timed_all_the_same() -> None:
    cuda = Cuda(2.0)
    cuda._sleep = None  # type: ignore[assignment,method-assign]
    assert EventClock("cuda:0", cuda).time_ns(lambda: None, 1) == 2e6  # type: ignore[arg-type]
    assert not any(told.startswith("sleep") for told in cuda.told)


def test_the_wall_clock_waits_outside_of_the_time() -> None:
    now, told = [0], []

    def synchronize() -> None:
        now[0] += 1000
        told.append("synchronize")

    def call() -> None:
        now[0] += 7
        told.append("call")

    clock = WallClock(synchronize, lambda: now[0])
    assert clock.time_ns(call, 3) == 21
    assert told == ["synchronize", "call", "call", "call", "synchronize"]
