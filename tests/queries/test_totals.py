"""What reduces the rows of other analyses; sums by hand are in tests/cases/reductions.case."""

from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from every_trace import REPO
from given_rows import analysis_of, rows_of

import tracekit
from tracekit.analysis.breakdown import TOTALS
from tracekit.errors import UsageError

SAMPLES = REPO / "sample_traces"
RUN = SAMPLES / "pretrain_R+Z3"


def _also(name):
    return pytest.param(name, marks=pytest.mark.nightly("a second run of the same kind"))


def test_no_rows_have_no_total():
    for name, totals in TOTALS.items():
        window = rows_of("timeline", {"window_ns": 5})
        assert analysis_of(totals, rows_of(name), window).rows == []


@pytest.mark.parametrize("run", ["pretrain_R+Z3", _also("serve_vllm")])
def test_totals_are_the_sums_of_the_rows(opened, run):
    """Every column that both have and that counts or measures is the sum over the rows."""
    trace = opened(SAMPLES / run)
    found = trace.breakdown()
    assert all(
        found[total] == trace.query(total) for name, total in TOTALS.items() if name in found
    )
    keys = {"kernel_classes": ["class", "kind"], "phases": ["phase"], "idle_causes": ["cause"]}
    for name, key in keys.items():
        totals = found[TOTALS[name]]
        summed = [
            column
            for column in totals.column_names
            if column.endswith(("_ns", "_count"))
            and not column.startswith("step_")  # means per step
            and column in found[name].column_names
        ]
        assert summed
        sums = defaultdict(Counter)
        for row in found[name].to_dicts():
            sums[tuple(row[column] for column in key)].update({c: row[c] for c in summed})
        assert sums == {
            tuple(row[column] for column in key): Counter({c: row[c] for c in summed})
            for row in totals.to_dicts()
        }
    for name, column in (("kernel_classes", "wall_pct"), ("idle_causes", "idle_pct")):
        assert 0 < sum(found[TOTALS[name]].column(column)) < 100
    assert sum(found["phase_totals"].column("span_pct")) == pytest.approx(100)


@pytest.mark.parametrize("run", ["pretrain_Naive", _also("h200_finetune_L"), _also("serve_vllm")])
def test_parts_of_a_decoder_add_up(opened, run):
    trace = opened(SAMPLES / run)
    rows = trace.query("role_totals").to_dicts()
    assert sum(row["wall_ns"] for row in rows) == sum(trace.query("timeline").column("busy_ns"))
    steps = trace.query("step_totals").to_dicts()
    if steps:
        in_steps = sum(row["step_wall_ns"] for row in rows)
        assert in_steps == pytest.approx(steps[0]["step_work_ns"])
    else:
        assert {row["step_wall_ns"] for row in rows} == {None}


def test_an_analysis_may_call_another_with_parameters(opened, tmp_path):
    (tmp_path / "most.sql").write_text(
        "-- How many kernels?\n--\n-- Kind:    analysis\n-- Scope:   run\n"
        "-- Params:\n--   most  BIGINT = 1  kernels of a device\n"
        "-- Columns:\n--   n  BIGINT  rows\n\n"
        "SELECT count(*) AS n FROM kernels(p_limit := $most)\n",
        encoding="utf-8",
    )
    with tracekit.open(RUN, queries=tmp_path) as trace:
        assert trace.query("most").rows == [(2,)]
        assert trace.query("most", most=3).rows == [(6,)]
        with pytest.raises(UsageError, match="most"):
            trace.query("most", most="many")


def assert_nested(rows):
    """Check that rows of one depth do not overlap, and that each is inside a row one level up."""
    levels = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["from_ns"], row["to_ns"])):
        levels[row["depth"]].append(row)
    for level in levels.values():
        assert all(a["to_ns"] <= b["from_ns"] for a, b in pairwise(level))
    for depth in range(1, len(levels)):
        for row in levels[depth]:
            assert any(
                one["from_ns"] + one["self_wall_ns"] <= row["from_ns"]
                and row["to_ns"] <= one["to_ns"]
                and one.get("class") == row.get("class")
                for one in levels[depth - 1]
            ), row["module_path"]


@pytest.mark.parametrize("run", ["pretrain_R+Z3", _also("finetune_QL"), _also("serve_vllm")])
def test_modules_and_phases_lie_within_those_around_them(run, opened):
    trace = opened(SAMPLES / run)
    rows = trace.query("module_icicle").to_dicts()
    totals = trace.query("module_totals").to_dicts()
    timeline = trace.query("timeline")
    drawn = {row["module_path"]: row for row in rows if row["view"] == "modules"}
    assert len(drawn) == len(totals)
    for total in totals:
        row = drawn[total["module_path"]]
        for column in ("total_wall_ns", "self_wall_ns", "wall_pct", "depth", "kernel_count"):
            assert row[column] == total[column], total["module_path"]
    for view, column in (("modules", "busy_ns"), ("phases", "window_ns")):
        shown = [row for row in rows if row["view"] == view]
        width_ns = sum(row["to_ns"] - row["from_ns"] for row in shown if not row["depth"])
        assert width_ns == sum(timeline.column(column))
        assert_nested(shown)
    tops = {
        row["phase"]: (row["total_wall_ns"], row["idle_ns"])
        for row in rows
        if row["view"] == "phases" and not row["depth"]
    }
    phases = trace.query("phase_totals").to_dicts()
    assert tops == {row["phase"]: (row["wall_ns"], row["idle_ns"]) for row in phases}


@pytest.mark.parametrize("run", ["pretrain_R+Z3", _also("finetune_QL"), _also("serve_vllm")])
def test_below_each_class_lie_the_modules_that_had_its_work(run, opened):
    trace = opened(SAMPLES / run)
    rows = trace.query("class_icicle").to_dicts()
    totals = trace.query("kernel_class_totals").to_dicts()
    tops = {(r["class"], r["kind"]): r["total_wall_ns"] for r in rows if not r["depth"]}
    assert tops == {(row["class"], row["kind"]): row["wall_ns"] for row in totals}
    modules = Counter()
    own = Counter()
    for row in rows:
        if row["module_path"] is not None:
            modules[row["module_path"]] += row["total_wall_ns"]
    for row in trace.query("module_classes").to_dicts():
        own[row["module_path"]] += row["self_wall_ns"]
    asked = trace.query("module_totals").to_dicts()
    assert modules == {row["module_path"]: row["total_wall_ns"] for row in asked}
    assert own == {r["module_path"]: r["self_wall_ns"] for r in asked if r["kernel_count"]}
    assert_nested(rows)
    # A label is the part that a path adds to its parent.
    for name in ("class_icicle", "module_icicle"):
        labels = set(trace.query(name).column("label"))
        assert not any("/" in label for label in labels)
        assert run != "pretrain_R+Z3" or {"layers.*", "self_attn", "up_proj"} <= labels
