"""A compiled loop is compiled as without tracekit: as many graphs, breaks and compilations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from _program import TOKENS, Program, assert_unharmed


def assert_recorded(run: Any, ranks: int = 1, optimizer_count: int = 2) -> None:
    assert run.manifest["outcome"] == "ok"
    for rank in range(ranks):
        steps = run.steps(rank)
        assert len(steps) == 2
        for number, own in steps.items():
            assert own <= {number}
        assert any(steps.values())
        names = run.names(rank)
        assert names["tk/phase/optimizer"] == optimizer_count
        assert sum(names[name] for name in names if name.startswith("own/")) >= 1


@dataclass(frozen=True, kw_only=True)
class Compiled(Program):
    """A compiled loop, and what its ranks train on in a step."""

    python: str = "compiling"
    tokens: int = TOKENS

    def begin(self, loops: Any) -> None:
        if "inductor" in self.words:
            # What it compiles from C++ is there for the recorded one.
            loops.begin(self.script, *self.words, **self.how)
        else:
            super().begin(loops)

    def both(self, loops: Any) -> Any:
        if "inductor" in self.words:
            loops.begin(self.script, *self.words, **self.how).result()
        both = super().both(loops)
        assert any("dynamo" in line for line in both.bare.lines)
        return both


COMPILED = {
    "in place": Compiled(script="compiled", words=("place", "eager")),
    "each layer": Compiled(script="compiled", words=("layers", "eager"), python="cold"),
    "inductor": Compiled(script="compiled", words=("model", "inductor")),
    "ddp": Compiled(script="ddp", words=("compiled", "eager"), ranks=2, tokens=64),
    "trainer": Compiled(
        script="transformers_trainer",
        words=("compiled", "eager"),
        tokens=64,
        needs=("transformers", "accelerate"),
    ),
}
each_loop = pytest.mark.parametrize("case", COMPILED.values(), ids=COMPILED)


@pytest.fixture
def both(case: Compiled, loops: Any) -> Any:
    return case.both(loops)


@each_loop
def test_it_is_compiled_as_without_tracekit(case: Compiled, both: Any) -> None:
    assert_unharmed(both)


@each_loop
def test_it_is_recorded(case: Compiled, both: Any) -> None:
    run = both.wrapped.run
    assert_recorded(run, ranks=case.ranks)
    assert run.tokens_per_step() == pytest.approx(case.tokens)


def test_layers_with_a_call_of_their_own(loops: Any) -> None:
    """Dynamo traces through `nn.Module.__call__` there, and guards on what that is."""
    both = loops.both("compiled", "calling", "eager", python="compiling")
    assert_unharmed(both)
    assert both.wrapped.run.manifest["outcome"] == "ok"
    assert len(both.wrapped.run.steps()) == 2


def test_a_compiled_step(loops: Any) -> None:
    both = loops.both("compiled", "step", "eager", python="compiling")
    assert_unharmed(both)
    run = both.wrapped.run
    # What runs within one call of a compiled function has no inner times that we could see.
    assert run.manifest["outcome"] == "ok"
    steps = run.steps()
    assert len(steps) == 2
    assert all(own <= {number} for number, own in steps.items()), steps


def test_the_library_around_a_plain_loop(loops: Any) -> None:
    ours = loops.begin("library").result()
    assert_same_as(loops.begin("plain").result(), ours)
    assert_recorded(ours.run)
    assert ours.run.steps() == {number: {number} for number in ours.run.steps()}
    assert ours.run.tokens_per_step() == pytest.approx(32)


def test_the_library_around_a_compiled_loop(loops: Any) -> None:
    ours = loops.begin("library", "eager", python="compiling").result()
    assert_same_as(loops.begin("compiled", "place", "eager", python="compiling").result(), ours)
    assert_recorded(ours.run)
    assert ours.run.tokens_per_step() == pytest.approx(32)


def assert_same_as(bare: Any, ours: Any) -> None:
    assert bare.exit_code == 0, bare.stderr
    assert ours.exit_code == 0, ours.stderr
    assert ours.stdout == bare.stdout
    assert ours.files == bare.files
    assert ours.left == []


def test_health_tells_that_a_region_is_compiled(loops: Any, cli: Any) -> None:
    both = loops.both("compiled", "place", "eager", python="compiling")
    result = cli("health", str(both.wrapped.run.path), "--format", "json")
    assert result.exit_code == 0, result.stderr
    rows = {row["metric"]: row for row in result.json()}
    region = rows["compiled_region_device_time"]
    assert region["value"] > 0
    assert region["severity"] == "note"
