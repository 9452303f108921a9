"""The clock of steps and their phases, by the host's time and by events of a device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tracekit.collectors.loop import times  # noqa: E402
from tracekit.collectors.loop.times import StepClock, median_ns, warm_ns  # noqa: E402
from tracekit.collectors.machine import accelerator  # noqa: E402

US = 1_000


@dataclass
class Event:
    at_ns: int

    def elapsed_time(self, other: Event) -> float:
        return (other.at_ns - self.at_ns) / 1e6


@dataclass
class Machine:
    """Stands in for the clock of a host, or for a device that records events."""

    now_ns: int = 0
    events: list[Event] = field(default_factory=list)

    def event(self, device: Any) -> Event | None:
        if device.type == "cpu":
            return None
        self.events.append(Event(self.now_ns))
        return self.events[-1]


@pytest.fixture(params=["cpu", "cuda"])
def clock(request: pytest.FixtureRequest, machine: Machine) -> StepClock:
    return StepClock(torch.device(request.param))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(times.time, "perf_counter_ns", lambda: made.now_ns)
    monkeypatch.setattr(accelerator, "event", made.event)
    monkeypatch.setattr(accelerator, "synchronize", lambda _: None)
    return made


def run(clock: StepClock, machine: Machine, *acts: str | int) -> None:
    """Let time pass, µs; `+forward` begins a phase, `-forward` ends it, other names are methods."""
    for act in acts:
        if isinstance(act, int):
            machine.now_ns += act * US
        elif act[0] in "+-":
            (clock.begin_phase if act[0] == "+" else clock.end_phase)(act[1:])
        else:
            getattr(clock, act)()


STEP = (1, "+forward", 10, "-forward", 2, "+backward", 20, "-backward", "+optimizer", 5)


def test_phases_of_steps(clock: StepClock, machine: Machine) -> None:
    run(clock, machine, *STEP, "-optimizer", 1, "tick", *STEP, 3, "-optimizer", "tick")
    assert clock.stop() == [39 * US, 41 * US]
    first, second = clock.phases()
    assert first == {"forward": 10 * US, "backward": 20 * US, "optimizer": 5 * US}
    assert second == {**first, "optimizer": 8 * US}


def test_a_phase_inside_of_another_is_not_in_it(clock: StepClock, machine: Machine) -> None:
    run(clock, machine, "+optimizer", 1, "+forward", 10, "-forward", 2, "-optimizer", 4, "tick")
    assert clock.stop() == [17 * US]
    assert clock.phases() == [{"optimizer": 3 * US, "forward": 10 * US}]


def test_what_is_in_no_step_is_in_no_phase(clock: StepClock, machine: Machine) -> None:
    acts = ("+forward", 1, "-forward", "pause", "+evaluation", 9, "-evaluation", "resume", 2)
    run(clock, machine, *acts, "+forward", 3, "-forward", "tick")
    assert clock.stop() == [6 * US]
    assert clock.phases() == [{"forward": 4 * US}]


def test_a_phase_that_ends_without_a_beginning(clock: StepClock, machine: Machine) -> None:
    run(clock, machine, "-forward", 1, "+forward", 2, "tick", "-forward", 3, "tick")
    assert clock.stop() == [3 * US, 3 * US]
    assert clock.phases() == [{}, {}], "of one that goes on at the step's end nothing is known"


def test_a_step_of_many_phases_has_none(clock: StepClock, machine: Machine) -> None:
    run(clock, machine, *("+forward", 1, "-forward") * 1_000, "tick", "+forward", 1, "-forward")
    run(clock, machine, "tick")
    assert len(machine.events) < 300, "the device is not asked for all of them"
    assert clock.stop() == [1_000 * US, US]
    assert clock.phases() == [{}, {"forward": US}]


def test_dropped_and_forgotten_steps(clock: StepClock, machine: Machine) -> None:
    run(clock, machine, "+forward", 1, "-forward", "tick", "drop", "+forward", 2, "-forward")
    run(clock, machine, "pause", "forget_parts", "resume", "+forward", 3, "-forward", "tick")
    assert clock.stop() == [3 * US]
    assert clock.phases() == [{"forward": 3 * US}]


def test_the_first_step_with_ranges_is_cold() -> None:
    assert warm_ns([900, 10, 12]) == 11
    assert warm_ns([900]) == 900
    assert median_ns([]) is warm_ns([]) is None
