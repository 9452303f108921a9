"""A loop with a profiler of its own: never a second one beside it, and its trace stays whole."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from _program import Program, assert_unharmed


def ops(path: Path) -> Counter[str]:
    """Return how often each operator of torch is in a trace, and the loop's own marks."""
    events = json.loads(path.read_bytes())["traceEvents"]
    kept = ("aten::", "own/", "ProfilerStep#", "Optimizer.")
    return Counter(e["name"] for e in events if e.get("ph") == "X" and e["name"].startswith(kept))


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


# Lightning keeps steps 1 to 4, so ours is asked for no later ones.
AT_ONCE = ("--warmup", "1", "--steps", "1", "--profile-steps", "1")
PROFILED = {
    "scheduled": Program(script="own_profiler", words=("scheduled",)),
    "begins within ours": Program(script="own_profiler", words=("7", "9")),
    "ends before ours": Program(script="own_profiler", words=("2", "4")),
    "all of the loop": Program(script="own_profiler", words=("0", "11")),
    "lightning": Program(
        script="lightning_trainer", words=("profiler",), options=AT_ONCE, needs=("lightning",)
    ),
}


@pytest.mark.parametrize("case", PROFILED.values(), ids=PROFILED)
def test_the_loops_own_profile(case: Program, loops: Any) -> None:
    both = case.both(loops)
    assert_unharmed(both)
    bare, ours = (ops(next(one.folder.glob("*trace.json"))) for one in (both.bare, both.wrapped))
    assert bare["aten::linear"], "the loop's own trace holds its steps"
    assert ours == bare
    assert_told(both.wrapped.run)
    is_all = case is PROFILED["all of the loop"]
    assert bool(both.wrapped.run.manifest["repeats"]) != is_all, "only plain steps are throughput"
