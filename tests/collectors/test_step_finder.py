"""Where steps begin: by the order of calls for training (F) and optimizers' steps (a letter)."""

from __future__ import annotations

import pytest

from tracekit.collectors.loop.step_finder import StepFinder


def bounds(events: str) -> list[str]:
    """Return the events of each step, as a watch tells them apart."""
    finder = StepFinder()
    steps = [""]
    for event in events:
        if event != "F":
            finder.optimizer_stepped(event)
        elif finder.is_over:
            if finder.begin():
                steps[-2:] = [steps[-2] + steps[-1]]
            steps.append("")
        steps[-1] += event
    return steps


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("FaFaFa", ["Fa", "Fa", "Fa"]),
        ("FFFaFFFa", ["FFFa", "FFFa"]),  # accumulation
        ("FabFab", ["Fab", "Fab"]),  # two optimizers, one after the other
        ("FaaFaa", ["Faa", "Faa"]),
        # The halves of a GAN: the first iteration tells that there are two optimizers.
        ("FdFgFdFgFdFg", ["FdFg", "FdFg", "FdFg"]),
        # Five steps of the critic for each of the generator.
        ("FdFdFgFdFdFgFdFdFg", ["Fd", "FdFg", "FdFdFg", "FdFdFg"]),
        ("FaFabFab", ["Fa", "Fab", "Fab"]),  # one that is frozen at first
        ("FFF", ["FFF"]),
    ],
)
def test_steps(events: str, expected: list[str]) -> None:
    assert bounds(events) == expected


def test_an_optimizer_that_is_used_no_more_is_forgotten() -> None:
    steps = bounds("Fab" + "Fa" * 12)
    assert steps[0] == "Fab"
    assert steps[-1] == "Fa"
    assert steps[1] == "Fa" * 8, "it was waited for eight times"


def test_one_that_comes_back_late_is_waited_for() -> None:
    iteration = "Fd" * 10 + "Fg"
    steps = bounds(iteration * 6)
    assert steps[-3:] == [iteration] * 3, steps


def changes(events: str) -> list[int]:
    """Return at which events it is told that more optimizers take part than before."""
    finder = StepFinder()
    found = []
    for number, event in enumerate(events):
        if event != "F":
            finder.optimizer_stepped(event)
        elif finder.is_over:
            finder.begin()
        if finder.take_change():
            found.append(number)
    return found


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("FaFaFa", []),
        ("FabFab", []),  # both step in the first step
        ("FdFdFdFgFdFdFdFg", [7]),  # three steps were none, as the generator shows
        ("Fa" * 9 + "FabFab", [20]),
    ],
)
def test_what_was_taken_for_steps_were_parts(events: str, expected: list[int]) -> None:
    assert changes(events) == expected
