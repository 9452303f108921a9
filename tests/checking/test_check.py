"""`tracekit check`: rules, baselines, reports, and exit codes."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from every_trace import MADE_UP, REPO
from msgspec.structs import replace
from sides_by_hand import gemm_side
from traces_by_hand import span, work

from tracekit.checking.baseline import Baseline, load, names, save
from tracekit.checking.checking import check, make_baseline, measure
from tracekit.checking.evaluate import judge
from tracekit.checking.measured import Measured
from tracekit.checking.report import Report, annotation_lines, junit_text
from tracekit.checking.rules import load_rules, parse_rule
from tracekit.errors import UsageError
from tracekit.prediction.advising import NOTHING_OF_LOAD

SAMPLE = REPO / "sample_traces" / "pretrain_Naive"


def _measured(steps_ns):
    return Measured("x", gemm_side(steps_ns), {}, {"peak_memory": 5e9})


BASE = [1000, 1001, 1002, 1003, 1004, 1005]


@pytest.mark.parametrize(
    ("rule", "change", "outcome"),
    [
        ("step_time <= +3%", 1.00, "passed"),
        ("step_time <= +3%", 1.05, "failed"),
        ("step_time <= +3%", 1.03, "inconclusive"),
        ("step_time <= +0%", 1.00, "inconclusive"),
        ("step_time <= -10%", 0.80, "passed"),
        ("class.gemm.wall_ns <= +2%", 1.05, "failed"),
        ("compute_pct <= 100", 1.00, "passed"),
        ("step_time <= 1.003 us", 1.0, "passed"),
        ("step_time < 1 us", 1.0, "failed"),
        ("peak_memory <= 4.9 GB", 1.0, "failed"),
        ("peak_memory <= +0%", 1.0, "passed"),
        ("class.gemm.kernel_count = 1", 1.0, "passed"),
        ("mfu >= 0.4", 1.0, "inconclusive"),
    ],
)
def test_a_rule_is_judged(rule, change, outcome):
    new = _measured([round(value * change) for value in BASE])
    assert judge(parse_rule(rule), new, _measured(BASE)).outcome == outcome


def test_one_step_each_decides_nothing():
    found = judge(parse_rule("step_time <= +3%"), _measured([2000]), _measured([1000]))
    assert (found.outcome, found.change_pct) == ("inconclusive", 100.0)


def test_unknown_targets_are_rejected():
    for text in ("speed <= 3", "class.gemm.colour <= 3"):
        with pytest.raises(UsageError, match="unknown rule target"):
            judge(parse_rule(text), _measured(BASE), None)
    with pytest.raises(UsageError, match="needs a baseline"):
        judge(parse_rule("step_time <= +3%"), _measured(BASE), None)


def test_reports_contain_no_closing_tags():
    rule = parse_rule("step_time <= 1 ns", name='a "name" <&> \x1b[2J\n::error::x\x85\u2028')
    report = Report("x<y", None, [judge(rule, _measured(BASE), None)])
    suite = ET.fromstring(junit_text(report))
    assert suite.get("failures") == "1"
    (case,) = suite.iter("testcase")
    assert case.get("classname") == "x<y"
    (line,) = annotation_lines(report)
    assert line.startswith("::error title=tracekit check::")
    assert line.isprintable()


@pytest.fixture
def sample(opened):
    return opened(SAMPLE)


def test_a_baseline_is_equal_after_loading(sample, tmp_path):
    kept = make_baseline("main", sample, "pretrain_Naive")
    place, size_bytes = save(kept, tmp_path)
    path = Path(place.shown)
    assert names(tmp_path) == ["main"]
    again = load("main", tmp_path)
    assert again == load(str(path), tmp_path)
    side, other = kept.side, again.side
    assert other.series(other.cells) == side.series(side.cells)
    assert replace(again, side=side) == kept
    for part in ("compute", "idle"):
        sums = [
            side.series(cell for cell in one.cells if cell.part == part) for one in (side, other)
        ]
        assert sums[0] == sums[1]
    assert path.stat().st_size == size_bytes < 100_000
    before = path.read_text()
    save(again, tmp_path)
    assert path.read_text() == before


def test_rules_about_a_run(sample, tmp_path):
    save(make_baseline("main", sample, "pretrain_Naive"), tmp_path)
    texts = {
        "step_time <= +500%": "passed",
        "class.gemm.kernel_count <= +0%": "passed",
        "peak_memory <= +0%": "passed",
        "health.device_time_in_phase >= 95": "passed",
        "timeline.idle_pct <= 20": "passed",
        "timeline.idle_pct <= 1": "failed",
        "count(kernel LIKE 'aten::%mm') = 0": "failed",
        "FROM rejected": "passed",
        "FROM trace": "failed",
        'module("*.self_attn").wall_ns <= 1 ms': "failed",
        "class.gemm.kernel_ns <= +500%": "inconclusive",
    }
    rules = [parse_rule(text) for text in texts]
    report = check(sample, rules, against="main", baselines=tmp_path)
    found = {one.rule.text: one.outcome for one in report.judgements}
    assert found == texts
    assert report.outcome == "failed"
    assert report.result().column("outcome") == list(texts.values())


def test_rules_hold_for_every_rank(opened, tmp_path):
    trace = opened(SAMPLE.with_name("pretrain_R+Z3"))
    save(make_baseline("main", trace, "two ranks"), tmp_path)
    texts = "timeline.compute_ns = 682235254 ns", "health.inferred_device_time <= +0%"
    report = check(trace, [*map(parse_rule, texts)], against="main", baselines=tmp_path)
    assert [one.outcome for one in report.judgements] == ["failed", "passed"]


def test_a_module_includes_its_submodules(sample):
    measured = measure(sample, "x")
    inside = measured.values('module("*.self_attn*").kernel_ns').series
    whole = measured.values('module("*.self_attn").kernel_ns').series
    assert inside == whole
    rows = sample.query("modules", rollup=True).to_dicts()
    kernel_ns = sum(
        row["total_kernel_ns"] for row in rows if row["module_path"].endswith(".self_attn")
    )
    side = measured.cells()[0]
    assert whole == [kernel_ns / side.unit_count]


@pytest.mark.parametrize(
    "members",
    [
        {"sample_units": [-1]},
        {"sample_units": "x"},
        {"sample_units": [0]},
        {"sample_names": []},
        {"total_ns": 10**40},
        {"unit_count": None},
        {"unit_count": 0},
        {"per": "year"},
        {"figures": {"peak_memory": -1}},
        {"health": {"truncated": float("nan")}},
        {"facts": [["a", "b", "c", "d"]]},
        {"modules": [[None, None, None]]},
        {"modules": [["a", "b", None], ["b", "a", None]]},
        {"modules": [[str(number), str(number + 1), None] for number in range(600)]},
        {"total_ns": 10**400},
        {"cells": []},
        {"plain_step_ns": [-1]},
        {"cells": [["compute", "gemm", "forward", "m", None, 1, 1, [-5]]]},
        {"latencies_ns": [["ttft", 3, [2, 1, 3], None]]},
        {"latencies_ns": [["ttft", 3, [1, 2], None]]},
        {"latencies_ns": [["ttft", 3, ["a", "b", "c"], None]]},
        {"latencies_ns": [["ttft", 0, [], None]]},
        {"latencies_ns": [["ttft", 10**15, [1, 2], None]]},
        {"latencies_ns": [["ttft", 0, [1], [0]]]},
        {"latencies_ns": [["ttft"]]},
        {"latencies_ns": 7},
    ],
)
def test_a_baseline_with_impossible_values_is_rejected(members, tmp_path):
    """Baselines are untrusted, and the check depends on their figures."""
    place, _ = save(Baseline("main", gemm_side(BASE), {}, {}), tmp_path)
    load("main", tmp_path)
    document = json.loads(Path(place.shown).read_text()) | members
    Path(place.shown).write_text(json.dumps(document))
    with pytest.raises(UsageError, match="not a baseline of this version"):
        load("main", tmp_path)


def test_a_broken_baseline_is_refused(tmp_path):
    for text in ("{", "[" * 100_000, "[]", '{"tracekit_baseline": 99}'):
        (tmp_path / "main.baseline.json").write_text(text)
        with pytest.raises(UsageError, match="not a baseline"):
            load("main", tmp_path)
    with pytest.raises(UsageError, match="no baseline named 'other'"):
        load("other", tmp_path)
    with pytest.raises(UsageError, match="not a valid baseline name"):
        save(Baseline("../x", gemm_side(BASE), {}, {}), tmp_path)


@pytest.mark.parametrize(
    ("rules", "more", "exit_code"),
    [
        (["timeline.idle_pct <= 40"], [], 0),
        (["timeline.idle_pct <= 1"], [], 1),
        (["p99(ttft) <= 1 s"], [], 7),
        (["p99(ttft) <= 1 s"], ["--inconclusive", "pass"], 0),
        (["p99(ttft) <= 1 s"], ["--inconclusive", "fail"], 1),
        (["health.requests_missing = 0"], ["--inconclusive", "report"], 7),
        (['module("nothing").wall_ns <= 1 s'], [], 2),
        (["count(kernl = 'x') = 0"], [], 2),
        (["SELECT nothing FROM trace"], [], 2),
        (["mfu"], [], 2),
        ([], [], 2),
    ],
)
def test_exit_codes(cli, rules, more, exit_code):
    options = [part for rule in rules for part in ("--rule", rule)]
    assert cli("check", MADE_UP, *options, *more).exit_code == exit_code


def test_the_command_as_a_ci_runs_it(cli, tmp_path):
    saved = cli("check", "baseline", "save", "main", SAMPLE)
    assert (saved.exit_code, saved.stderr) == (0, "")
    assert saved.stdout.startswith(".tracekit/baselines/main.baseline.json: 2 samples, ")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.tracekit.check]\n"
        'against = "main"\n'
        'rules = {launches = "class.gemm.kernel_count <= +0%", idle = "idle_pct <= 1"}\n'
    )
    checked = cli("check", SAMPLE, "--junit", "out.xml", "--annotations", "github")
    assert checked.exit_code == 1
    assert [line.split()[:2] for line in checked.stdout.splitlines()[2:4]] == [
        ["passed", "launches"],
        ["failed", "idle"],
    ]
    assert checked.stderr.startswith("::error title=tracekit check::idle: failed: ")
    assert ET.parse(tmp_path / "out.xml").getroot().get("tests") == "2"
    (tmp_path / "pyproject.toml").write_text("[tool.tracekit.check")
    refused = cli("check", SAMPLE)
    assert (refused.exit_code, refused.stderr.split(":")[:2]) == (2, ["error", " pyproject.toml"])
    shown = cli("check", "baseline", "show", "main", "--format", "json").json()
    assert sum(row["wall_ns"] for row in shown) == pytest.approx(180_470_688.0)


SAMPLES = REPO / "sample_traces"
SERVED = SAMPLES / "serve_vllm"


def test_advice_on_requests_alone_decides_nothing(cli, tmp_path):
    for name in ("run.json", "requests.jsonl"):
        (tmp_path / name).write_bytes((SERVED / name).read_bytes())
    assert cli("check", tmp_path, "--rule", "advice <= 5%").exit_code == 7
    advised = cli("advise", tmp_path)
    assert (advised.exit_code, advised.stdout) == (0, f"{NOTHING_OF_LOAD}\n")


@pytest.mark.nightly("reads two complete runs")
def test_sides_that_do_not_both_mark_steps(cli):
    """Time per request needs no steps, so times are of windows on both sides."""
    rules = ["--rule", "p50(ttft) <= 10 s", "--rule", "step_time <= +900%"]
    done = cli("check", SERVED, "--against", SAMPLE, *rules, "--format", "json")
    first, second = json.loads(done.stdout)
    assert (done.exit_code, first["outcome"]) == (7, "passed")
    window = cli("query", "timeline", SAMPLE, "--format", "json")
    widths = [row["window_ns"] for row in json.loads(window.stdout)]
    assert second["base_value"] == pytest.approx(sum(widths) / len(widths))


def test_a_run_of_one_step_is_compared_per_step(cli, tmp_path):
    """A window of eight steps has more kernels than a window of one."""
    for name, count, kernels in (("base", 8, 1), ("new", 1, 2)):
        events = [
            event
            for at in range(0, 100 * count, 100)
            for event in (
                span("user_annotation", f"ProfilerStep#{at}", at, at + 99),
                *(
                    e
                    for n in range(kernels)
                    for e in work(at + n, at + 9 + n, at + 10 + n, at + n + 1, "gemm")
                ),
            )
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    base, new = tmp_path / "base.json", tmp_path / "new.json"
    rule = ("--rule", "class.gemm.kernel_count <= +0%", "--format", "json", "--no-cache")
    assert cli("check", "baseline", "save", "one", new).exit_code == 0
    for sides, value in (((new, base), 2), ((base, "one"), 1)):
        (row,) = cli("check", sides[0], "--against", sides[1], *rule).json()
        assert (row["value"], row["base_value"]) == (value, 3 - value)
    assert cli("compare", base, new, "--no-cache").stdout.splitlines()[1].startswith("Step")


def test_a_baseline_of_another_unit_is_refused(cli):
    assert cli("check", "baseline", "save", "main", SAMPLE).exit_code == 0
    rule = ("--rule", "step_time <= +3%", "--per", "window")
    done = cli("check", SAMPLE, "--against", "main", *rule)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "baseline main is per step, not per window" in done.stderr


def test_several_runs_have_no_figure_of_one(cli):
    rules = ["--rule", "step_time <= 1 s", "--rule", "peak_memory <= 1 TB"]
    done = cli("check", SAMPLES, *rules, "--format", "json")
    time, memory = json.loads(done.stdout)
    assert (done.exit_code, time["outcome"], memory["outcome"]) == (7, *["inconclusive"] * 2)
    assert "contains 6 runs" in time["reason"]
    assert "peak_memory is unknown" in memory["reason"]


GATE = REPO / "tests" / "checking" / "gate"


@pytest.mark.nightly("reads a complete run; `make gate` applies the rules")
def test_the_gate_fails_on_another_run(opened):
    """`make gate` expects all rules to pass, so each must fail for other figures."""
    rules, settings = load_rules(GATE / "rules.toml")
    assert REPO / (settings.baselines or "") == GATE
    # These do not differ between two completely read runs.
    same = {"what is read", "phases are known", "modules are known", "classes are known"}
    changing = [rule for rule in rules if rule.name not in same]
    other = opened(REPO / "sample_traces" / "pretrain_R+Z3")
    report = check(other, changing, against="pretrain_Naive", baselines=GATE)
    assert {one.outcome for one in report.judgements} == {"failed"}
    assert len(changing) >= 12
