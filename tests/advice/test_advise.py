"""Advice for seeded faults: the cause is first, its gain is correct, and healthy runs get none."""

from types import SimpleNamespace

import pytest
from seeded_faults import simulated_faults, simulated_healthy
from simulated_machine import simulate
from simulated_program import Machine
from traces_by_hand import call, span, work

import tracekit
from tracekit.analysis.result import Column, Result
from tracekit.prediction.advising import _with_joint_gains, advise

SEED = 4_711


_IN_GATE = ("loader without workers", "one slow rank", "device bound")


def _each(faults):
    late = pytest.mark.nightly("machines like those of the gate; truths are in tests/graph")
    return pytest.mark.parametrize(
        "fault",
        [pytest.param(one, marks=() if one.name in _IN_GATE else late) for one in faults],
        ids=lambda fault: fault.name,
    )


def _advised(fault, folder):
    machine = simulate(Machine(**fault.faulty))
    machine.write(folder)
    with tracekit.open(folder, cache=False) as trace:
        return trace.advise(), machine.window_ns


@_each(simulated_faults(SEED))
def test_the_cause_is_first_and_its_interval_contains_the_gain(fault, tmp_path):
    advised, window_ns = _advised(fault, tmp_path)
    first = advised.advice[0]
    assert first.candidate.rule == fault.rule
    true_pct = 100 * (1 - simulate(Machine(**fault.healthy)).window_ns / window_ns)
    low, high = first.prediction.range_pct
    assert low <= true_pct <= high
    predicted = first.prediction
    assert 100 * (1 - predicted.predicted_ns / predicted.before_ns) == pytest.approx(
        true_pct, abs=4
    )


@_each(simulated_healthy(SEED))
def test_healthy_runs_get_no_advice(fault, tmp_path):
    advised, _ = _advised(fault, tmp_path)
    assert advised.advice == ()


def _waiting():
    """Return two steps of 100 µs, half of which the host waits in a call."""
    events = []
    for number, start in enumerate((0, 100, 200)):
        events += [
            span("user_annotation", f"ProfilerStep#{number}", start, start + 100),
            span("user_annotation", "write_log", start, start + 50),
            *work(start + 52, start + 55, start + 95, number + 1),
            call(start + 60, start + 98, 10 + number, "cudaDeviceSynchronize"),
        ]
    return events


def test_the_answer_as_a_table(tiny_trace):
    with tracekit.open(tiny_trace(_waiting()), cache=False) as trace:
        advised = trace.advise()
    first = advised.as_result().to_dicts()[0]
    assert first["rule"] == "advice_python"
    assert first["change"] == "range=write_log remove"
    # Steps of 100 µs gain 50 each.
    assert first["before_step_ns"] == pytest.approx(100_000, rel=0.01)
    assert first["gain_ns"] == pytest.approx(50_000, rel=0.01)
    assert first["low_pct"] <= first["gain_pct"] <= first["high_pct"]
    assert [one.joint_gain_pct for one in advised.advice] == sorted(
        one.joint_gain_pct for one in advised.advice
    )


def test_an_uncertain_rule_does_not_exclude_others_from_the_joint_gain():
    pcts = {"advice_compile": (-1, 16), "advice_casts": (1, 8), "advice_sync": (1, 3)}
    every = [
        (
            SimpleNamespace(rule=rule, changes=[rule]),
            SimpleNamespace(range_pct=pct, gain_pct=pct[1]),
        )
        for rule, pct in pcts.items()
    ]
    gain = lambda rules: SimpleNamespace(gain_pct=sum(pcts[rule][1] for rule in rules))  # noqa: E731
    joined = _with_joint_gains(every, SimpleNamespace(predict=gain))
    assert [one.joint_gain_pct for one in joined] == [16, 8, 11]


@pytest.mark.nightly("the golden output has the command")
def test_the_command(tiny_trace, cli):
    path = tiny_trace(_waiting())
    refused = cli("advise", path, "--rule", "advice_python")
    assert (refused.exit_code, refused.stdout) == (2, "")
    healthy = tiny_trace([*work(0, 5, 100, 1), *work(50, 100, 200, 2)], "healthy.json")
    codes = [cli("check", one, "--rule", "advice <= 5%").exit_code for one in (path, healthy)]
    assert codes == [1, 0]


def test_a_rule_of_the_users_own(tiny_trace, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    header = ["-- Is there a kernel?", "--", "-- Kind: advice", "-- Scope: run"]
    sql = (
        "SELECT 'kernels' AS what, 'device' AS place, 'kind=compute x0.5' AS change, "
        "sum(dur_ns)::BIGINT AS cost_ns, 'buy' AS remedy, "
        "NULL::VARCHAR AS evidence FROM attributed_events"
    )
    (folder / "half_kernels.sql").write_text("\n".join([*header, sql]), "utf-8")
    with tracekit.open(tiny_trace(work(0, 5, 100, 1)), cache=False, queries=[folder]) as trace:
        (only,) = trace.advise().advice
    assert (only.candidate.rule, only.candidate.remedy) == ("half_kernels", "buy")
    assert only.prediction.gain_pct == pytest.approx(50, abs=0.1)


BROAD, MORE, NARROW = (f"name={name} remove" for name in ("broad", "more", "narrow"))


class _Replay:
    """A replay whose answers are given: gains in ns of 1,000 by the first change."""

    before_ns, step_count, run_step = 1_000, 0, None

    def __init__(self, gains):
        self.gains = gains

    def predict(self, changes):
        from tracekit.prediction.predicting import Prediction

        low, gain, high = map(sum, zip(*(self.gains[change] for change in changes), strict=True))
        ends = (1_000 - gain, 1_000 - high, 1_000 - low)
        return Prediction((*changes,), 1_000, 1_000, *ends, 0.0, 0.0, ())


def _no_load():
    raise AssertionError


def _answered(gains, *rows):
    result = Result("rule", tuple(Column(name, "VARCHAR") for name in "abcdef"), [*rows])
    return advise([("rule", lambda: result)], lambda: _Replay(gains), _no_load, 1_000)


def _ranked(gains, *rows):
    return [one.candidate.what for one in _answered(gains, *rows).advice]


def _row(what, change, cost_ns=500):
    return (what, None, change, cost_ns, "do it", None)


def test_of_two_equal_gains_the_simpler_change_comes_first():
    gains = {BROAD: (80, 90, 120), MORE: (0, 0, 0), NARROW: (70, 90, 110)}
    rows = (_row("two changes", f"{BROAD}; {MORE}"), _row("one change", NARROW))
    assert _ranked(gains, *rows) == ["one change", "two changes"]
    gains[NARROW] = (50, 60, 70)
    assert _ranked(gains, *rows) == ["two changes", "one change"]


def test_gains_below_their_noise_are_not_listed():
    gains = {BROAD: (-5, 20, 40), MORE: (8, 9, 10), NARROW: (80, 90, 100)}
    rows = (_row("noise", BROAD), _row("little", MORE), _row("cheap", NARROW, cost_ns=9))
    assert _ranked(gains, *rows) == []


def test_large_uncertain_gains_are_listed():
    gains = {BROAD: (-50, 184, 370), NARROW: (80, 90, 100)}
    found = _answered(gains, _row("little", NARROW), _row("a sleep", BROAD))
    assert [(one.candidate.what, one.is_certain) for one in found.advice] == [
        ("a sleep", False),
        ("little", True),
    ]
