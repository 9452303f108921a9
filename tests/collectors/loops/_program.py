"""A program of `programs`, bare and under `tracekit collect`: what cases of tests are."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import pytest

TOKENS = 2 * 16  # of a batch of `programs/tiny.py`


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that is run bare and wrapped; see `Loops.begin`.

    Attributes:
        script: the file of `programs`.
        words: its arguments.
        needs: packages of the `loops` extra.
        options: those of `tracekit collect`, if not the usual ones.
    """

    script: str
    words: tuple[str, ...] = ()
    ranks: int = 1
    needs: tuple[str, ...] = ()
    python: str = "eager"
    is_in_shell: bool = False
    options: tuple[str, ...] = ()

    @property
    def how(self) -> dict[str, Any]:
        how = {"ranks": self.ranks, "python": self.python, "is_in_shell": self.is_in_shell}
        return {**how, "options": self.options} if self.options else how

    def begin(self, loops: Any) -> None:
        if all(map(importlib.util.find_spec, self.needs)):
            loops.begin_both(self.script, *self.words, **self.how)

    def both(self, loops: Any) -> Any:
        for name in self.needs:
            pytest.importorskip(name, reason=f"{name} is not installed: pip install -e '.[loops]'")
        return loops.both(self.script, *self.words, **self.how)


def assert_unharmed(both: Any) -> None:
    """Check that a recorded program has done and left what it does and leaves without us."""
    bare, wrapped = both.bare, both.wrapped
    assert bare.exit_code == 0, bare.stderr
    assert wrapped.exit_code == 0, wrapped.stderr
    # Ranks print side by side.
    assert wrapped.lines == bare.lines
    if not any(line.startswith("rank ") for line in bare.lines):
        assert wrapped.stdout == bare.stdout
    assert wrapped.files == bare.files
    assert wrapped.left == bare.left == []


def phases(run: Any, rank: int = 0) -> dict[str, int]:
    """Return how often the recorded steps have each phase."""
    return {
        name.removeprefix("tk/phase/"): count
        for name, count in run.names(rank).items()
        if name.startswith("tk/phase/")
    }
