"""What was predicted beside what a rerun measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_result import CliResult
from seeded_faults import simulated_faults
from simulated_machine import simulate
from simulated_program import Machine

from tracekit.comparison.noise import compare_series
from tracekit.errors import UsageError
from tracekit.prediction.advising import Advice, Candidate
from tracekit.prediction.predicting import Prediction
from tracekit.prediction.rerun import changed_command, judge

COLLECT = ["tracekit", "collect", "--opt", "R+Z3", "--nproc", "2", "--out", "runs/a", "--force"]


def _advice(low_pct: int, gain_pct: int, high_pct: int) -> Advice:
    """Return advice about a window of 1,000 ns."""
    low, gain, high = (1_000 - 10 * pct for pct in (low_pct, gain_pct, high_pct))
    told = Prediction(("host x0.5",), 1_000, gain, high, low, 0.0, 0.0, ())
    return Advice(Candidate("rule", "seen", None, told.changes, (), None, "", None), told, 0.0)


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        (60.0, "holds"),
        (90.0, "does not hold"),
    ],
)
def test_two_intervals_that_meet(after: float, outcome: str) -> None:
    base = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0]
    new = [one * after / 100 for one in base]
    verdict = judge(_advice(35, 40, 45), compare_series(base, new))
    assert verdict.outcome == outcome
    assert verdict.measured_gain_pct == pytest.approx(100 - after)


def test_one_step_tells_nothing() -> None:
    verdict = judge(_advice(35, 40, 45), compare_series([100.0], [60.0]))
    assert (verdict.outcome, verdict.measured_low_pct) == ("inconclusive", None)


@pytest.mark.parametrize(
    ("rule", "opt"),
    [("advice_recompute", "Z3"), ("advice_attention", "R+Z3+F")],
)
def test_the_command_of_a_rerun(rule: str, opt: str) -> None:
    words = changed_command(COLLECT, rule, Path("b"))
    assert words == ["tracekit", "collect", "--opt", opt, "--nproc", "2", "--out", "b"]


def test_a_method_that_was_the_only_one() -> None:
    words = changed_command(["tracekit", "collect", "--opt", "R"], "advice_recompute", Path("b"))
    assert words == ["tracekit", "collect", "--opt", "Naive", "--out", "b"]


def test_what_cannot_be_recorded_again_is_refused() -> None:
    with pytest.raises(UsageError, match="no option for advice_sync"):
        changed_command(COLLECT, "advice_sync", Path("b"))
    with pytest.raises(UsageError, match="own programs"):
        changed_command([*COLLECT, "--", "python", "x.py"], "advice_recompute", Path("b"))


def test_a_fault_that_was_taken_out(cli: Callable[..., CliResult], tmp_path: Path) -> None:
    fault = next(one for one in simulated_faults(7) if one.name == "loader without workers")
    for name, knobs in (("a", fault.faulty), ("b", fault.healthy)):
        (tmp_path / name).mkdir()
        simulate(Machine(**(knobs | {"steps": 8}))).write(tmp_path / name)
    done = cli("advise", tmp_path / "a", "--against", tmp_path / "b", "--format", "json")
    (row,) = done.json()
    assert row["rule"] == "advice_loading"
    assert row["outcome"] == "holds", row
    refused = cli("advise", tmp_path / "a", "--against", tmp_path / "b", "--rule", "advice_nix")
    assert refused.exit_code == 5
    assert "there is no advice of advice_nix" in refused.stderr
    assert cli("advise", tmp_path / "a", "--try", "--against", tmp_path / "b").exit_code == 2
