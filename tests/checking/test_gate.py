"""The gate of this repository finds what is not as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tracekit
from tracekit.checking.checking import check
from tracekit.checking.rules import load_rules

REPO = Path(__file__).resolve().parents[2]
GATE = REPO / "tests" / "checking" / "gate"


@pytest.mark.nightly("reads a complete run; `make gate` applies the rules")
def test_the_gate_fails_on_another_run(opened: Callable[[Path], tracekit.Trace]) -> None:
    """`make gate` sees that all are kept: so each must fail where the figures are others."""
    rules, settings = load_rules(GATE / "rules.toml")
    assert REPO / settings["baselines"] == GATE
    # Nothing of these differs between two runs that could be read in full.
    same = {"what is read", "phases are known", "modules are known", "classes are known"}
    changing = [rule for rule in rules if rule.name not in same]
    other = opened(REPO / "sample_traces" / "pretrain_R+Z3")
    report = check(other, changing, against="pretrain_Naive", baselines=GATE)
    assert {one.outcome for one in report.judgements} == {"failed"}
    assert len(changing) >= 12
