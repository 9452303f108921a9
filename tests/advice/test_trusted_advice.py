"""What holds for every advice on real traces: it gains no more than was seen."""

import pytest
from every_trace import FOLDER, PATHS

import tracekit
from tracekit.prediction.changes import parse_change
from tracekit.prediction.predicting import KEEPS_WORK

H200 = FOLDER.parent / "h200"
IN_GATE = {"llama2-7b_1_layer", "hta_mi250_toy_train.json.gz"}
_OTHER_TRACE = pytest.mark.nightly("traces of an NVIDIA and an AMD device are in the gate")
MEASURED = [
    *("llama_base.json.gz", "llama_eager.json.gz", "llama_item_layer.json.gz"),
    *("llama_pageable.json.gz", "small_compile_graphs.json.gz", "streams.json.gz"),
    *("runs/methods/pretrain_R", "runs/loops/compiled_Trainer"),
]


def claims_broken(trace, advised):
    """Return what of the advice does not hold."""
    causes = trace.query("idle_causes").to_dicts()
    idle_ns = sum(row["idle_ns"] for row in causes)
    kernel_ns = sum(trace.query("kernel_classes").column("kernel_ns"))
    sums = {
        "advice_sync": sum(trace.query("sync_waits").column("wait_ns")),
        "advice_launch_bound": sum(
            row["idle_ns"] for row in causes if row["cause"] == "host_bound"
        ),
        "advice_python": idle_ns,
        "advice_recompute": sum(
            row["kernel_ns"] + row["idle_ns"]
            for row in trace.query("phases").to_dicts()
            if row["phase"] == "recompute"
        ),
        **dict.fromkeys(("advice_compile", "advice_attention", "advice_precision"), kernel_ns),
    }
    step = advised.run_step
    broken = []
    gains = [one.prediction.gain_pct or 0.0 for one in advised.advice]
    if gains != sorted(gains, reverse=True):
        broken.append(f"gains are not sorted: {gains}")
    for one, row in zip(advised.advice, advised.as_result().to_dicts(), strict=True):
        seen, predicted = one.candidate, one.prediction
        if not row["low_pct"] <= row["gain_pct"] <= row["high_pct"]:
            broken.append(f"{seen.rule}: {row['gain_pct']} is not in its interval")
        if row["gain_pct"] > row["joint_gain_pct"] + 1e-9:
            broken.append(f"{seen.rule}: gains less with others")
        if one.load is not None:
            continue
        if predicted != trace.predict(*seen.changes):
            broken.append(
                f"{seen.rule}: predict says {trace.predict(*seen.changes)}, not {predicted}"
            )
        if abs(row["gain_pct"] * row["before_step_ns"] / 100 - row["gain_ns"]) > 1:
            broken.append(f"{seen.rule}: {row['gain_pct']} % of a step are not {row['gain_ns']}")
        if seen.rule in sums and (seen.cost_ns or 0) > sums[seen.rule]:
            broken.append(f"{seen.rule}: sees {seen.cost_ns} of {sums[seen.rule]}")
        keywords = {parse_change(text).keyword for text in seen.changes}
        if step is not None and step.busy_ns is not None and keywords <= KEEPS_WORK:
            most_ns = max(step.high_ns or 0, predicted.before_step_ns or 0) - step.busy_ns
            if row["gain_ns"] > max(most_ns, 0):
                broken.append(f"{seen.rule}: gains more than a step is idle")
    return broken


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if {*path.parts} & IN_GATE else _OTHER_TRACE) for path in PATHS],
    ids=lambda path: "/".join(path.parts[-2:]),
)
def test_no_more_is_gained_than_was_seen(answered, path):
    trace = answered(path).trace
    if not trace.query("timeline").rows:
        pytest.skip("no work of a device is recorded")
    assert claims_broken(trace, trace.advise()) == []


@pytest.mark.nightly("recordings of a GPU")
@pytest.mark.parametrize("name", MEASURED)
def test_no_more_is_gained_than_was_seen_on_a_gpu(name):
    if not (H200 / name).exists():
        pytest.skip(f"{H200 / name} is not there")
    with tracekit.open(H200 / name) as trace:
        advised = trace.advise()
        assert claims_broken(trace, advised) == []
    rules = [one.candidate.rule for one in advised.advice]
    remedies = " ".join(one.candidate.remedy for one in advised.advice)
    if name == "llama_eager.json.gz":
        # Fused attention saved 13.7 of 55.1 ms in unprofiled steps.
        (fused,) = (one for one in advised.advice if one.candidate.rule == "advice_attention")
        assert fused.prediction.range_pct[1] > 100 * 13.7 / 55.1 - 1.5
    if "compile" in name:
        assert "torch.compile" not in remedies
    if name == "small_compile_graphs.json.gz":
        assert "reduce-overhead" not in remedies
        assert "fused=True" not in remedies
    if name == "streams.json.gz":
        assert rules == []
