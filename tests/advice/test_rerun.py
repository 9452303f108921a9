"""Comparison of predictions with reruns."""

import json
import sys
from pathlib import Path

import pytest
from processes import finished
from seeded_faults import simulated_faults
from simulated_machine import simulate
from simulated_program import Machine
from traces_by_hand import span, work

from tracekit.comparison.noise import compare_series
from tracekit.errors import UsageError
from tracekit.manifest import Manifest
from tracekit.prediction.advising import Advice, Candidate
from tracekit.prediction.predicting import Prediction
from tracekit.prediction.rerun import changed_command, judge

SERVE = ["tracekit", "collect", "--stage", "serve", "--max-batch-requests", "4", "--concurrency=4"]
COLLECT = ["tracekit", "collect", "--opt", "R+Z3", "--nproc", "2", "--out", "runs/a", "--force"]


def _command(command, rule, *changes, **extra):
    """Return the command that applies a suggestion for a run that a command recorded."""
    run = Manifest("a", "0", "now", "pretrain", "ddp", command=command, extra=dict(extra))
    advice = Candidate(rule, "seen", None, changes, None, "", None)
    return changed_command(run, advice, Path("b"))


def _advice(low_pct, gain_pct, high_pct):
    """Return advice about a window of 1,000 ns."""
    low, gain, high = (1_000 - 10 * pct for pct in (low_pct, gain_pct, high_pct))
    predicted = Prediction(("host x0.5",), 1_000, 1_000, gain, high, low, 0.0, 0.0, ())
    return Advice(
        Candidate("rule", "seen", None, predicted.changes, None, "", None), predicted, 0.0
    )


@pytest.mark.parametrize(("after", "outcome"), [(60.0, "holds"), (90.0, "does not hold")])
def test_two_intervals_that_meet(after, outcome):
    base = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0]
    new = [one * after / 100 for one in base]
    verdict = judge(_advice(35, 40, 45), compare_series(base, new).gain)
    assert verdict.outcome == outcome
    assert verdict.measured_gain_pct == pytest.approx(100 - after)


def test_one_step_tells_nothing():
    verdict = judge(_advice(35, 40, 45), compare_series([100.0], [60.0]).gain)
    assert (verdict.outcome, verdict.measured_low_pct) == ("inconclusive", None)


@pytest.mark.parametrize(
    ("before", "rule", "after"),
    [
        ("R+Z3", "advice_recompute", "Z3"),
        ("R+Z3", "advice_attention", "R+Z3+F"),
        ("R", "advice_recompute", "Naive"),
        ("R+F", "advice_attention", "R+F"),
    ],
)
def test_the_command_of_a_rerun(before, rule, after):
    head, tail = ["tracekit", "collect", "--opt"], ["--nproc", "2", "--out"]
    words = _command([*head, before, *tail, "runs/a", "--force"], rule)
    assert words == [*head, after, *tail, "b"]


@pytest.mark.parametrize(
    "words",
    [
        ["--launch", "touch pwned"],
        ["--launch=touch pwned"],
        ["--url", "http://127.0.0.1:9"],
        ["--request-body", "{}"],
        ["--trace-dir", "/etc"],
        ["--served-model", "x"],
        ["--model", "/etc/evil"],
        ["--model", "evil"],
        ["--model"],
        ["--engine", "vllm"],
        ["--seed", "--launch"],
        ["--steps", "\u0661"],
        ["--memory-limit", "1GB\n"],
        ["--arrival", "poisson:1;2"],
        ["program"],
    ],
)
def test_options_that_a_rerun_drops(words):
    with pytest.raises(UsageError):
        _command([*COLLECT, *words], "advice_recompute")


def test_the_program_of_a_rerun_is_ours():
    words = _command(["evilmod", *COLLECT[1:]], "advice_recompute")
    assert words[:2] == ["tracekit", "collect"]


@pytest.mark.parametrize("size", ["16", -1, 0, [16], None, {}])
def test_a_missing_or_invalid_page_size(size):
    words = _command(
        [*SERVE, "--cache-blocks", "3"],
        "advice_serving_queue",
        "kv tokens=9",
        engine={"page_size": size},
    )
    assert words[words.index("--cache-blocks") + 1] == "9"


@pytest.fixture
def unsafe_run(make_run, tmp_path):
    """Return a run whose command names a module of the current folder, and that folder."""
    command = ["evilmod", "collect", "--opt", "R", "--engine", "megatron"]
    run = make_run("run", command=command, traces=["rank0.json"])
    again = span("user_annotation", "tk/module/recompute/mlp#MLP", 100, 150)
    events = [*work(4, 10, 40, 1), again, *work(104, 110, 140, 2), *work(160, 165, 200, 3)]
    (run / "rank0.json").write_text(json.dumps({"traceEvents": events}))
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    for name in ("evilmod", "tracekit", "torch", "transformers"):
        (cwd / f"{name}.py").write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')")
    return run, cwd


def test_a_rerun_needs_consent(unsafe_run, cli):
    run, cwd = unsafe_run
    refused = cli("advise", run, "--try", "--rule", "advice_recompute", cwd=cwd)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--try would run tracekit collect --opt Naive --engine megatron" in refused.stderr
    assert cli("advise", run, "--yes").exit_code == 2


@pytest.mark.nightly("starts the collector; the command of a rerun is tested above")
def test_no_module_of_the_current_folder_is_imported(unsafe_run, tmp_path):
    run, cwd = unsafe_run
    command = Path(sys.executable).with_name("tracekit")
    ended = finished(
        *(command, "advise", run, "--try", "--rule", "advice_recompute", "--yes"),
        cwd=cwd,
        TRACEKIT_CACHE_DIR=str(tmp_path / "cache"),
        RANK="0",
    )
    assert ended.returncode in (6, 7), ended.stderr  # without a GPU or with one
    assert "records tracekit collect --opt Naive --engine megatron" in ended.stderr
    assert not (tmp_path / "pwned").exists()


def test_changes_without_options_are_rejected():
    with pytest.raises(UsageError):
        _command(COLLECT, "advice_sync", "op=aten::item remove")
    with pytest.raises(UsageError):
        _command([*COLLECT, "--", "python", "x.py"], "advice_recompute")
    with pytest.raises(UsageError):
        _command(SERVE, "advice_serving_prefill", "prefill apart")


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ("batch limit=8", {"--max-batch-requests": "8", "--concurrency": "8"}),
        ("batch tokens=64", {"--max-batch-tokens": "64"}),
        ("kv tokens=1024", {"--cache-blocks": "64"}),
    ],
)
def test_limits_of_an_engine_and_its_client(change, options):
    words = _command(SERVE, "advice_serving_queue", change, engine={"page_size": 16})
    assert words[:4] == SERVE[:4]
    expected = {"--max-batch-requests": "4", "--concurrency": "4", "--out": "b"} | options
    assert dict(zip(words[4::2], words[5::2], strict=True)) == expected


def test_only_the_limit_that_is_set_is_changed():
    words = _command(SERVE[:6], "advice_serving_queue", "batch limit=8")
    assert words == [*SERVE[:4], "--max-batch-requests", "8", "--out", "b"]


@pytest.mark.nightly("runs a program twice")
def test_a_removed_fault(cli, tmp_path):
    fault = next(one for one in simulated_faults(7) if one.name == "loader without workers")
    # Enough steps that the first one, without a prefetched batch, does not decide.
    for name, knobs in (("a", fault.faulty), ("b", fault.healthy)):
        (tmp_path / name).mkdir()
        simulate(Machine(**(knobs | {"steps": 24}))).write(tmp_path / name)
    done = cli("advise", tmp_path / "a", "--against", tmp_path / "b", "--format", "json")
    (row,) = done.json()
    assert row["rule"] == "advice_loading"
    assert (row["figure"], row["outcome"]) == ("step", "holds"), row
    # An existing run is not recorded again.
    (tmp_path / "b" / "run.json").write_text(
        json.dumps({"run_id": "b", "tracekit_version": "0", "created_at": "now", "stage": "custom",
                    "engine": "none", "traces": ["rank0.json.gz"]})
    )  # fmt: skip
    again = cli("collect", "--out", tmp_path / "b", "--against", tmp_path / "a")
    assert (again.exit_code, again.stderr) == (0, "")
    kept = json.loads((tmp_path / "b" / "logs" / "advice.json").read_text("utf-8"))
    assert kept["outcome"] == "holds"
    assert cli("collect", "--against", tmp_path / "none").exit_code == 2
    both = ("advise", tmp_path / "a", "--against", tmp_path / "b")
    assert cli(*both, "--rule", "advice_nix").exit_code == 5
    assert cli("advise", tmp_path / "a", "--try", "--against", tmp_path / "b").exit_code == 2
