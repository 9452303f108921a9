"""One step for each recording: each command has the same recorded step, idle share, and gain."""

from pathlib import Path
from statistics import fmean

import pytest
from every_trace import MADE_UP, REPO
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.render.sections.device_time import idle_of_step

SHARED = REPO.parent / "shared"
_LARGE = pytest.mark.nightly("replays graphs of complete recordings")
LARGE = ("llama_base", "llama_bs8", "moe", "ddp", "conv", "small_graph", "streams")
RECORDINGS = (
    *(pytest.param(f"h200/{name}.json.gz", marks=_LARGE) for name in (*LARGE, "memory_snapshot")),
    *("untrusted/t01_kernels", "untrusted/t02_a_step", "untrusted/t09_first"),
    *("field2/43_idle", "field2/14_three"),
)


def _found(name):
    folder = SHARED / Path(name).parent
    paths = sorted(folder.glob(f"{Path(name).name}*")) if folder.is_dir() else []
    if not paths:
        pytest.skip(f"needs {name} of the shared recordings")
    return paths[0]


def _agrees(path):
    with tracekit.open(path, cache=False) as trace:
        (totals,) = trace.query("step_totals").to_dicts()
        (idle,) = trace.query("run_idle").to_dicts()
        bases = trace.query("unprofiled").to_dicts()
        phases = trace.query("run_phases").to_dicts()
        steps = [row for row in trace.query("steps").to_dicts() if row["step"] is not None]
        same = trace.predict("host x1")
        shown = idle_of_step({name: trace.query(name) for name in ("run_idle", "unprofiled")})
        advised = trace.advise()
        for one in advised.advice:
            again = trace.predict(*one.candidate.changes)
            assert (again.gain_pct, again.before_step_ns) == (
                one.prediction.gain_pct,
                one.prediction.before_step_ns,
            )
    steps_ns = [row["unprofiled_step_ns"] for row in bases]
    if None not in steps_ns:
        assert same.before_step_ns == pytest.approx(fmean(steps_ns), abs=1)
        assert shown["unprofiled_step_ns"] == pytest.approx(fmean(steps_ns), abs=1)
    step_ns = sum(row["span_ns"] for row in steps) / len(steps)
    assert totals["mean_span_ns"] == pytest.approx(step_ns)
    assert idle["recorded_step_ns"] == round(step_ns)
    of_ranks = [row["recorded_step_ns"] for row in bases]
    assert sum(of_ranks) / len(of_ranks) == pytest.approx(step_ns, abs=1)
    work_ns = sum(row["wall_ns"] for row in steps) / len(steps)
    assert idle["recorded_idle_pct"] == pytest.approx(100 * (1 - work_ns / step_ns), abs=1e-3)
    if len(bases) == 1:
        (base,) = bases
        assert base["recorded_idle_pct"] == pytest.approx(idle["recorded_idle_pct"], abs=1e-3)
        assert sum(row["recorded_ns"] for row in phases) == pytest.approx(step_ns, abs=len(phases))
        if base["unprofiled_step_ns"] is not None:
            assert base["unprofiled_step_ns"] <= step_ns + 1
            run_ns = sum(row["run_ns"] for row in phases)
            assert run_ns == pytest.approx(base["unprofiled_step_ns"], abs=len(phases))


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_command_has_the_same_step(name):
    _agrees(_found(name))


def test_steps_of_a_bundled_trace():
    _agrees(MADE_UP)


def test_ranges_of_a_name_are_steps(cli, tiny_trace):
    events = [
        event
        for number in range(2)
        for event in (
            span("user_annotation", f"denoising_step_{number}", 100 * number, 90 + 100 * number),
            call(10 + 100 * number, 11 + 100 * number, number + 1),
            kernel("k", 20 + 100 * number, 60 + 100 * number, number + 1),
        )
    ]
    path = tiny_trace(events)
    done = cli("query", "steps", path, "--step", "denoising_step_*", "--format", "csv")
    assert [line.split(",")[2] for line in done.stdout.splitlines()[1:]] == ["0", "1"]
    assert "--step" in cli("query", "steps", path).stderr
    refused = cli("query", "steps", path, "--step", "x*", "--rules", path)
    assert (refused.exit_code, refused.stdout) == (2, "")
