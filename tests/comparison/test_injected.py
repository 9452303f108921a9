"""Traces with injected changes: the split reports them exactly, in the correct row."""

from itertools import pairwise

import pytest
from injected import Injected
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.render.sections import SECTIONS

_MLP = "model.layers.*.mlp"


def _step(number):
    """One step of 1,000 µs: two layers of two kernels, an all-reduce half hidden by a softmax."""
    at, key = 1000.0 * number, 100 * number
    events = [
        span("user_annotation", f"ProfilerStep#{number}", at, at + 1000),
        span("user_annotation", "tk/phase/forward", at + 5, at + 900),
    ]
    for layer in (0, 1):
        t, c = at + 200 * layer, key + 10 * layer
        name = f"tk/module/forward/model.layers.{layer}.mlp#MLP"
        shapes = {"Input Dims": [[64, 128], [128, 256]]}
        events += [
            span("user_annotation", name, t + 10, t + 200),
            span("cpu_op", "aten::mm", t + 20, t + 60, **shapes),
            call(t + 30, t + 35, c + 1),
            kernel("sm90_xmma_gemm_bf16", t + 40, t + 140, c + 1),
            span("cpu_op", "aten::add", t + 70, t + 90, **{"Input Dims": [[64, 256], []]}),
            call(t + 75, t + 80, c + 2),
            kernel("vectorized_elementwise_kernel", t + 145, t + 185, c + 2),
        ]
    return [
        *events,
        span("cpu_op", "c10d::allreduce_", at + 420, at + 440),
        call(at + 425, at + 430, key + 31),
        kernel("ncclDevKernel_AllReduce_Sum_bf16", at + 440, at + 560, key + 31, stream=20),
        span("cpu_op", "aten::softmax", at + 450, at + 470, **{"Input Dims": [[64, 64], [], []]}),
        call(at + 455, at + 460, key + 32),
        kernel("softmax_warp_forward", at + 470, at + 700, key + 32),
    ]


@pytest.fixture
def base():
    return Injected([event for number in (1, 2, 3) for event in _step(number)])


@pytest.fixture
def whole(base, tmp_path):
    """The unchanged trace, open."""
    with tracekit.open(base.write(tmp_path / "base.json"), cache=False) as trace:
        yield trace


@pytest.fixture
def compared(tmp_path, whole):
    """Return a function that compares a changed trace with the original."""

    def compare(changed):
        new = changed.write(tmp_path / "new.json")
        found = tracekit.compare(whole, new, per="window", cache=False)
        _adds_up(found)
        return found

    return compare


def _adds_up(found):
    for tree in (found.root, *map(found.tree, ("module", "class", "phase"))):
        assert tree.delta_ns == found.delta_ns
        for node in tree.walk():
            assert sum(node.effects.values()) == node.delta_ns
            if node.children:
                assert sum(child.base_ns for child in node.children) == node.base_ns
                assert sum(child.new_ns for child in node.children) == node.new_ns
    results = found.results()
    work = results["comparison_work"].to_dicts()
    assert sum(row["delta_ns"] for row in work) == found.delta_ns
    for row in work:
        assert sum(ns for name, ns in row.items() if name.startswith("by_")) == row["delta_ns"]
    split = results["comparison_split"].to_dicts()
    for node in split:
        inside = [row["delta_ns"] for row in split if row["parent"] == node["node"]]
        assert not inside or sum(inside) == node["delta_ns"]


def _rows(found):
    """Return the work whose time changed: part, module, class, how it was matched, ns, effects."""
    rows = []
    for leaf in found.root.walk():
        if leaf.level == "work" and leaf.delta_ns:
            (pair,) = leaf.pairs
            effects = {name: ns for name, ns in leaf.effects.items() if ns}
            row = (pair.part, pair.module, pair.class_name, pair.match)
            rows.append((*row, leaf.delta_ns, effects))
    return rows


def _named(name):
    return lambda event: name in event["name"]


def test_work_without_time_has_no_share(tmp_path, cache):
    """If all device work has zero length, shares are unknown."""
    events = [call(1, 2, 1), kernel("empty", 5, 5, 1), call(7, 8, 2), kernel("empty", 9, 9, 2)]
    path = Injected(events).write(tmp_path / "empty.json")
    found = tracekit.compare(path, path)
    assert (found.root.base_ns, found.matched_pct) == (4_000, None)
    drawn = SECTIONS["comparison"].lines(found.results(), 100, full=False)
    assert any("no device time to match" in line.plain for line in drawn)
    one = Injected(events[:2]).write(tmp_path / "one.json")
    (row,) = tracekit.compare(one, one).results()["comparison"].to_dicts()
    assert (row["base_ns"], row["base_outside_pct"], row["matched_pct"]) == (0, None, None)


def test_kernels_of_one_kind_7_pct_slower(base, compared):
    added_ns = base.lengthen(_named("xmma_gemm"), 70_000)
    assert added_ns == 6 * 7_000
    found = compared(base)
    assert _rows(found) == [("compute", _MLP, "gemm", "same", 42_000, {"by_cost_ns": 42_000})]
    assert (found.delta_ns, found.clock) == (42_000, None)


def test_all_work_2_pct_slower_is_other_clocks(base, compared):
    added_ns = base.lengthen(lambda event: "nccl" not in event["name"], 20_000)
    found = compared(base)
    assert float(found.clock) == pytest.approx(1.02)
    assert found.root.effects["by_clock_ns"] == added_ns == 3 * (2 * 2_800 + 4_600)


def test_an_added_copy(base, compared):
    gemm = next(event for event in base.work() if "gemm" in event["name"])
    base.add_copy(gemm, 12_345)
    found = compared(base)
    assert _rows(found) == [
        ("exposed_memcpy", _MLP, "memcpy_d2d", "new", 12_345, {"by_new_ns": 12_345})
    ]


def test_a_lost_overlap(base, compared):
    reduction = next(event for event in base.work() if "AllReduce" in event["name"])
    hidden_ns = 90_000
    base.insert([(reduction["start"] + 30_000, hidden_ns)])
    reduction["end"] -= hidden_ns
    found = compared(base)
    (row,) = _rows(found)
    assert (row[0], *row[2:]) == (
        *("exposed_comm", "comm_allreduce", "same", hidden_ns),
        {"by_overlap_ns": hidden_ns},
    )


def test_a_late_host(base, compared):
    # Between the two layers the device waits for a launch at 230 µs.
    base.insert([(1_000_000 + 222_000, 50_000)])
    found = compared(base)
    (row,) = _rows(found)
    assert row == ("idle", _MLP, "host_bound", row[3], 50_000, {"by_idle_ns": 50_000})


def test_a_fused_pair(base, compared):
    work = base.work()
    for first, second in pairwise(work):
        if "gemm" in first["name"]:
            assert base.fuse(first, second, "fused_gemm_add_kernel") == 5_000
    found = compared(base)
    rows = {row[0]: row for row in _rows(found)}
    assert found.delta_ns == 0
    assert rows["idle"][4] == -6 * 5_000
    assert rows["compute"][1:5] == (_MLP, "elementwise+gemm → gemm", "place", 6 * 5_000)
    (work,) = [
        row for row in found.results()["comparison_work"].to_dicts() if row["match"] == "place"
    ]
    assert (len(work["base_kernels"]), work["new_kernels"]) == (2, ["fused_gemm_add_kernel"])


def test_names_of_another_vendor(base, compared):
    base.rename(lambda name: "Cijk_Alik_Bljk_BBS" if "xmma_gemm" in name else name)
    found = compared(base)
    assert (found.delta_ns, found.matched_pct, _rows(found)) == (0, 100.0, [])
    matches = {pair.match for pair in found.pairs if "Cijk" in "".join(pair.new_names)}
    assert matches == {"op and shape"}


def test_steps_are_those_of_the_trace(tmp_path, whole, base):
    """Per step, the sums equal analysis steps."""
    base.lengthen(_named("softmax"), 100_000)
    longer = base.write(tmp_path / "new.json")
    found = tracekit.compare(whole, longer, cache=False)
    _adds_up(found)
    assert (found.per, found.base.unit_count, found.verdict) == ("step", 3, "slower")
    spans = [row["span_ns"] for row in whole.query("steps").to_dicts() if row["step"]]
    assert found.root.base_sum_ns == sum(spans)
    assert found.root.base_ns == round(sum(spans) / 3)
    assert found.delta_ns == 23_000
    assert [row[4] for row in _rows(found)] == [23_000]


_MODULE = "model.layers.0.mlp"


def _recomputing(*, is_recomputed):
    """A forward of 100 µs and a backward of 200 µs, between them the forward once more."""
    parts = [("forward", "gemm_fwd", 100), ("recompute", "gemm_fwd", 110), ("backward", "bwd", 200)]
    events = []
    at = 0.0
    for number, (phase, name, dur) in enumerate(parts, 1):
        if phase == "recompute" and not is_recomputed:
            continue
        events += [
            span("user_annotation", f"tk/phase/{phase}", at, at + dur + 20),
            span("user_annotation", f"tk/module/{phase}/{_MODULE}#MLP", at + 1, at + dur + 15),
            call(at + 2, at + 4, number),
            kernel(name, at + 10, at + 10 + dur, number),
        ]
        at += dur + 20
    return events


def test_recomputation_that_the_base_has_not(tmp_path):
    base, new = (
        Injected(_recomputing(is_recomputed=flag)).write(tmp_path / f"{flag}.json")
        for flag in (False, True)
    )
    found = tracekit.compare(base, new, cache=False)
    # The kernel of 110 µs, and the gap of 20 µs before it.
    back = tracekit.compare(new, base, cache=False)
    for one, delta_ns in ((found, 130_000), (back, -130_000)):
        assert one.delta_ns == one.root.effects["by_recompute_ns"] == delta_ns
