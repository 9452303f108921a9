"""Several runs over time: their figures, their order, and changes."""

import json
import random

import pytest
from traces_by_hand import span, work

from tracekit.checking.baseline import save
from tracekit.checking.checking import make_baseline
from tracekit.checking.history import Run, changes, history, tables_of
from tracekit.cli._main import main
from tracekit.errors import UsageError
from tracekit.report.history_page import history_page


def of_runs(*medians):
    return [[one] for one in medians]


def test_a_change_between_runs_that_vary_less():
    """Eight runs of about 100, from the sixth on of about 120."""
    (found,) = changes(of_runs(100, 101, 99, 100, 101, 120, 121, 119))
    assert (found.place, found.before, found.after) == (5, 100, 120)
    assert (found.before_count, found.after_count, found.basis) == (5, 3, "runs")
    assert found.p_value < 0.005


def test_two_changes_have_medians_of_the_runs_between():
    found = changes(of_runs(*[100, 101, 99] * 3, *[150, 151, 149] * 3, *[120, 121, 119] * 3))
    assert [(one.place, one.before, one.after) for one in found] == [(9, 100, 150), (18, 150, 120)]
    assert [(one.before_count, one.after_count) for one in found] == [(9, 9), (9, 9)]


@pytest.mark.parametrize(
    "medians",
    [
        (100, 100, 100, 100, 100),
        (100, 101, 99, 100, 101.5, 101.6, 101.7),
        (100, 140, 90, 130, 95, 120, 110),
        (0, 0, 0, 0, 0, 0),
        (100,),
    ],
    ids=["alike", "below the margin", "noise", "zero", "one run"],
)
def test_no_change(medians):
    assert changes(of_runs(*medians)) == []


def test_of_noise_alone_one_in_a_hundred_changes():
    """300 histories of 12 runs that vary by 1 %: alpha is 0.5 %, and this seed's luck is fixed."""
    luck = random.Random(5)
    histories = [of_runs(*(luck.gauss(100, 1) for _ in range(12))) for _ in range(300)]
    assert sum(bool(changes(one, margin_pct=0)) for one in histories) <= 4


def test_of_few_runs_their_steps_decide():
    steps = [100.0, 101.0, 102.0, 103.0, 104.0, 105.0]
    later = [step + 20 for step in steps]
    (found,) = changes([steps, later])
    assert (found.place, found.basis) == (1, "steps")
    assert changes([steps, [step + 1 for step in steps]]) == []
    assert changes([[100.0], [120.0]]) == []


def test_shares_change_by_points():
    shares = of_runs(1.0, 1.0, 1.0, 2.5, 2.5, 2.5)
    assert changes(shares, is_share=True) == []
    assert [one.place for one in changes(shares, margin_pct=1, is_share=True)] == [3]


def made(make_run, name, day, steps_us):
    """A run of steps without idle time."""
    events, at = [], 0
    for number, length in enumerate(steps_us):
        events += [
            span("user_annotation", f"ProfilerStep#{number}", at, at + length),
            *work(at, at + 1, at + length, number + 1, "gemm"),
        ]
        at += length
    folder = make_run(name, created_at=f"2026-11-{day:02}T00:00:00+00:00")
    (folder / "rank0.json").write_text(json.dumps({"traceEvents": events}))
    return folder


@pytest.mark.nightly("opens five runs")
def test_runs_are_in_the_order_of_time(make_run, cache, tmp_path, capsys):
    late = made(make_run, "late", 9, [200, 201, 202, 203, 204, 205])
    early = made(make_run, "early", 8, [100, 101, 102, 103, 104, 105])
    names = [str(late), str(early)]
    found = history(names)
    assert found["history"].column("run") == ["early", "late"]
    assert history(names, by_date=False)["history"].column("run") == ["late", "early"]
    by_measure = {row["measure"]: row for row in found["history_changes"].to_dicts()}
    assert (by_measure["step_ns"]["run"], by_measure["step_ns"]["basis"]) == ("late", "steps")
    assert "idle_pct" not in by_measure
    page = tmp_path / "page.html"
    assert main(["check", "history", *names, "--page", str(page)]) == 0
    change = "ecorded step 102.500 µs → 202.500 µs (+97.6 %) from late on"
    assert change in capsys.readouterr().out
    assert change in page.read_text("utf-8")


def test_a_baseline_is_a_run_of_the_past(make_run, tmp_path):
    import tracekit

    folder = made(make_run, "a", 8, [100, 101, 102, 103, 104, 105])
    with tracekit.open(folder, cache=False) as trace:
        save(make_baseline("main", trace, "a"), tmp_path)
    found = history(["main", str(folder)], baselines=tmp_path, cache=False)["history"].to_dicts()
    assert [row["run"] for row in found] == ["a", "main"]
    assert found[0]["step_ns"] == found[1]["step_ns"] == 102_500


@pytest.mark.nightly("reads two runs; mfu has cases of its own")
def test_unprofiled_mfu_is_not_compared_with_profiled_mfu(make_run):
    """One run was measured without the profiler, at a tenth of its recorded step; the other not."""
    gemm = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}
    events = [
        span("user_annotation", "ProfilerStep#1", 0, 1000),
        span("cpu_op", "aten::mm", 0, 20, **gemm),
        *work(5, 20, 120, 1, "gemm_bf16"),
        span("user_annotation", "ProfilerStep#2", 1000, 1001),
        *work(1000, 1001, 1002, 2, "copy"),
    ]
    device = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]
    text = json.dumps({"deviceProperties": device, "traceEvents": events})
    measured = {"overhead": {"plain_step_ns": 550_000}}
    folders = [make_run("a", **measured), make_run("b")]
    for folder in folders:
        (folder / "rank0.json").write_text(text)
    found = history([str(folder) for folder in folders], cache=False)
    rows = {row["run"]: row for row in found["history"].to_dicts()}
    assert rows["a"]["mfu_pct"] == rows["b"]["mfu_pct"] is not None
    assert rows["a"]["run_mfu_pct"] > rows["a"]["mfu_pct"]
    assert rows["b"]["run_mfu_pct"] is None
    assert not found["history_changes"].rows


def test_several_runs_in_a_folder_are_named_one_by_one(make_run):
    folder = made(make_run, "a", 8, [100])
    made(make_run, "b", 9, [100])
    with pytest.raises(UsageError, match="contains 2 runs"):
        history([str(folder.parent)], cache=False)


def test_times_determine_the_order_and_paths_distinguish_runs(make_run, tmp_path):
    """Half past nine in Berlin is before nine in London."""
    later = made(make_run, "a", 8, [100])
    manifest = json.loads((later / "run.json").read_text("utf-8"))
    earlier = tmp_path / "other" / "a"
    earlier.mkdir(parents=True)
    for folder, instant in ((later, "08T09:00:00+00:00"), (earlier, "08T09:30:00+01:00")):
        text = json.dumps(manifest | {"created_at": f"2026-11-{instant}", "run_id": str(folder)})
        (folder / "run.json").write_text(text, "utf-8")
    (earlier / "rank0.json").write_bytes((later / "rank0.json").read_bytes())
    found = history([str(later), str(earlier)], cache=False)["history"]
    assert found.column("run") == [str(earlier), str(later)]


def test_names_of_runs_are_escaped():
    runs = [Run(f"<b>{n}", None, None, {"mfu_pct": [0.01 * 30.0**n] * 9}) for n in (0, 2)]
    page = history_page(tables_of(runs), ["<b>0", "<b>2"])
    assert "<b>0" not in page
    assert "&lt;0.1 % → 9.0 % (+89,900.0 %) from &lt;b&gt;2 on" in page
