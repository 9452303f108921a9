"""A loop with a profiler of its own: never a second one beside it, and its trace stays whole."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


def ops(path: Path) -> Counter[str]:
    """Return how often each operator of torch is in a trace, and the loop's own marks."""
    events = json.loads(path.read_bytes())["traceEvents"]
    kept = ("aten::", "own/", "ProfilerStep#", "Optimizer.")
    return Counter(e["name"] for e in events if e.get("ph") == "X" and e["name"].startswith(kept))


def assert_untouched(both: Any) -> None:
    assert both.bare.exit_code == 0, both.bare.stderr
    assert both.wrapped.exit_code == 0, both.wrapped.stderr
    assert both.wrapped.stdout == both.bare.stdout
    assert both.wrapped.files == both.bare.files
    assert both.wrapped.left == []


def assert_told(run: Any) -> None:
    """Ours holds the loop's own trace, or says in a sentence what is missing."""
    made = run.manifest
    assert made["outcome"] == "ok"
    assert any("profiler" in note for note in made["notes"]), made["notes"]
    if run.traces:
        steps = run.steps()
        assert all(own <= {number} for number, own in steps.items()), steps
        assert made["traces"] == run.traces
    assert made["repeats"] or made["overhead"]["profiled_step_ns"], "its steps are timed"


@dataclass(frozen=True)
class Profiled:
    """A loop with a profiler of its own, and what the usual options are replaced by."""

    script: str
    words: tuple[str, ...]
    how: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def begin(self, loops: Any) -> None:
        if all(importlib.util.find_spec(name) for name in self.needs):
            loops.begin_both(self.script, *self.words, **self.how)


# Lightning keeps steps 1 to 4, so ours is asked for no later ones.
AT_ONCE = {"options": ("--warmup", "1", "--steps", "1", "--profile-steps", "1")}
PROFILED = {
    "scheduled": Profiled("own_profiler", ("scheduled",)),
    "begins within ours": Profiled("own_profiler", ("7", "9")),
    "ends before ours": Profiled("own_profiler", ("2", "4")),
    "all of the loop": Profiled("own_profiler", ("0", "11")),
    "lightning": Profiled("lightning_trainer", ("profiler",), AT_ONCE, needs=("lightning",)),
}


@pytest.mark.parametrize("case", PROFILED.values(), ids=PROFILED)
def test_the_loops_own_profile(case: Profiled, loops: Any, needs: Any) -> None:
    needs(*case.needs)
    both = loops.both(case.script, *case.words, **case.how)
    assert_untouched(both)
    bare, ours = (ops(next(one.folder.glob("*trace.json"))) for one in (both.bare, both.wrapped))
    assert bare["aten::linear"], "the loop's own trace holds its steps"
    assert ours == bare
    assert_told(both.wrapped.run)
    is_all = case is PROFILED["all of the loop"]
    assert bool(both.wrapped.run.manifest["repeats"]) != is_all, "only plain steps are throughput"
