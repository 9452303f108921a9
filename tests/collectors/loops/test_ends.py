"""However a program ends: its exit code is ours, and the run that died is there to be seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

BEFORE, WITHIN, AFTER = 3, 7, 10  # the recorded steps are 6 and 7


@dataclass(frozen=True)
class End:
    """How a program ends in a step, and what becomes of that."""

    step: int
    how: str
    exit_code: int
    outcome: str
    reason: str

    def begin(self, loops: Any) -> Any:
        loops.begin("plain")
        return loops.begin("ends", str(self.step), self.how, is_wrapped=True)


ENDS = {
    "fails before": End(BEFORE, "raise", 1, "failed", "on purpose"),
    "fails within": End(WITHIN, "raise", 1, "failed", "on purpose"),
    "fails after": End(AFTER, "raise", 1, "failed", "on purpose"),
    "device memory": End(WITHIN, "torch-oom", 1, "oom", "memory"),
    "host memory": End(WITHIN, "no-memory", 1, "oom", "memory"),
    "os._exit": End(WITHIN, "exit", 3, "failed", "3"),
    "sys.exit": End(WITHIN, "sys-exit", 4, "failed", "4"),
    "crashes": End(WITHIN, "SIGSEGV", 139, "failed", "SIGSEGV"),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
def test_a_program_that_ends_badly(case: End, loops: Any) -> None:
    result = case.begin(loops).result()
    assert result.exit_code == case.exit_code, result.stderr
    # It is the plain loop up to the step that does not end.
    whole = loops.begin("plain").result().stdout.splitlines()
    assert result.stdout.splitlines() == whole[: case.step]
    assert result.files == []
    assert result.left == []
    made = result.run.manifest
    assert made["outcome"] == case.outcome
    assert made["exit_code"] == case.exit_code
    assert case.reason in made["reason"]
    assert made["traces"] == result.run.traces
    if case.step == AFTER:
        assert result.run.traces == ["rank0.json.gz"]
        assert result.run.steps() == {6: {6}, 7: {7}}
    if case.step == WITHIN and case.how in ("raise", "sys-exit", "torch-oom"):
        # Step 6 is whole, and Python had the time to write what there was of it.
        assert result.run.traces == ["rank0.json.gz"]
        assert result.run.steps()[6] == {6}
    if case.how == "raise":
        assert "ValueError: on purpose" in result.stderr


def test_the_program_alone_ends_so(loops: Any) -> None:
    for name in ("host memory", "crashes"):
        end = ENDS[name]
        assert loops.begin("ends", str(end.step), end.how).result().exit_code == end.exit_code


def test_a_child_outlives_its_program(loops: Any) -> None:
    result = loops.start([*loops.collect(), *loops.program("background_child")]).end(wait_s=1)
    assert result.exit_code == 0, result.stderr
    assert result.left == ["sleep 300"]
    assert result.run.manifest["outcome"] == "ok"


def test_ranks_that_die_together(loops: Any) -> None:
    how = {"ranks": 2, "is_wrapped": True}
    result = loops.begin("ends", str(WITHIN), "raise", **how).result()
    assert result.exit_code == 1, result.stderr  # torchrun's own
    assert result.left == []
    made = result.run.manifest
    assert made["outcome"] == "failed"
    assert made["exit_code"] == 1
    assert "on purpose" in made["reason"]
    assert made["parallel"]["world_size"] == 2


def test_a_program_that_trains_too_little_or_nothing(loops: Any) -> None:
    own, script = loops.program("plain", python=loops.python("eager"))
    for words in (["-c", "print('done')"], [script]):
        process = loops.start([*loops.collect(), own, *words], env={"LOOP_STEPS": "3"})
        result = process.end()
        assert result.exit_code == 0, result.stderr
        words = "no Python of it was seen to import torch" if "-c" in words else "step"
        assert words in result.stderr
        assert result.left == []


def test_a_program_that_records_itself(loops: Any) -> None:
    program = loops.program("library", python=loops.python("eager"))
    bare = loops.start(program).end()
    wrapped = loops.start([*loops.collect(out="outer"), *program]).end()
    assert wrapped.exit_code == bare.exit_code == 0, wrapped.stderr
    assert wrapped.stdout == bare.stdout
    assert wrapped.files == bare.files
    assert wrapped.run.manifest["outcome"] == "ok"
    assert wrapped.run.steps() == {6: {6}, 7: {7}}
    assert "the program records its loop itself, by tracekit.collect" in wrapped.stderr
    assert not (wrapped.folder / "outer").exists()
