"""Predictions: held against machines whose truth is known, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scenarios import BASES, SCENARIOS, Scenario
from simulated_machine import simulate
from simulated_program import Machine
from traces_by_hand import span

import tracekit
from tracekit.errors import QueryError, StoreError, UsageError
from tracekit.prediction.changes import parse_change
from tracekit.prediction.predicting import Prediction

MOST_PCT = 3.0
# Which streams wait for which is inferred there, from times alone.
BEYOND = {"four ranks without event calls: bandwidth x2"}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], tracekit.Trace]]:
    opened: dict[str, tracekit.Trace] = {}

    def trace_of(base: str) -> tracekit.Trace:
        if base not in opened:
            folder = tmp_path_factory.mktemp("machine")
            simulate(Machine(**BASES[base])).write(folder)
            opened[base] = tracekit.open(folder, cache=False)
        return opened[base]

    yield trace_of
    for trace in opened.values():
        trace.close()


@pytest.fixture(scope="module")
def predictions(
    traces: Callable[[str], tracekit.Trace],
) -> list[tuple[Scenario, Prediction]]:
    return [(one, traces(one.base).predict(*one.changes)) for one in SCENARIOS]


@pytest.mark.xdist_group("predictions")
def test_predictions_hold(predictions: list[tuple[Scenario, Prediction]]) -> None:
    errors, inside, wrong = {}, 0, []
    for one, found in predictions:
        assert found.predicted_ns is not None, one.name
        truth = one.true_ratio
        ratio = found.predicted_ns / found.before_ns
        errors[one.name] = 100 * abs(ratio / truth - 1)
        inside += found.low_ns <= truth * found.before_ns <= found.high_ns
        if abs(truth - 1) > 0.02 and (truth < 1) != (ratio < 1):
            wrong.append(one.name)
    assert {name for name, error in errors.items() if error > MOST_PCT} <= BEYOND
    assert max(errors.values()) < 5
    assert sum(errors.values()) / len(errors) < 1
    assert inside >= 0.9 * len(predictions)
    assert wrong == []


@pytest.mark.parametrize("change", ["class=gemm x0.5", "kind=comm x2"])
def test_contention_is_as_the_trace_tells(
    traces: Callable[[str], tracekit.Trace], change: str
) -> None:
    """Kernels take 30 % longer beside collectives: without that the errors are 2 and 3 %."""
    base = "four ranks, contention"
    (one,) = (one for one in SCENARIOS if (one.base, one.changes) == (base, (change,)))
    found = traces(base).predict(change)
    assert found.predicted_ns == pytest.approx(one.true_ratio * found.before_ns, rel=0.005)
    # 30 of 130 ns that a collective runs beside a kernel.
    assert "take longer by 22.0 % of the time that communication runs" in found.assumptions[-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no change"),
        ("class=gemm", "is no change"),
        ("speed x2", "is nothing that can be changed"),
        ("colour=red x2", "chooses nothing"),
        ("class=gemm faster", "is no action"),
        ("class=gemm x1e9", "is no action"),
        ("class=gemm x9999999", "at most"),
        ("class=gemm workers=2", "cannot be changed so"),
        ("loading workers=0", "is no action"),
        ("sync x0.5", "cannot be changed so"),
        ("bandwidth x0", "above 0"),
        ("overlap x2", "is nothing that can be changed"),
        ("recompute x2", "cannot be changed so"),
        ("optimizer on", "cannot be changed so"),
        ("zero stage=5", "is no action"),
        ("batch=0", "is no change"),
        ("algorithm=butterfly", "is no change"),
    ],
)
def test_texts_that_say_no_change(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_change(text)


@pytest.mark.parametrize(
    ("base", "text", "said"),
    [
        ("device bound", "class=nix x0.5", "no such work"),
        ("device bound", "op=aten::nix remove", "no such op"),
        ("free running", "sync remove", "no wait of the host"),
        ("device bound", "ranks=median", "there is one rank"),
        ("device bound", "bandwidth x2", "no collective"),
        ("two workers", "loading workers=4", "workers load its data already"),
    ],
)
def test_what_a_trace_cannot_say_is_refused(
    traces: Callable[[str], tracekit.Trace], base: str, text: str, said: str
) -> None:
    with pytest.raises(QueryError, match=said):
        traces(base).predict(text)


def test_names_of_traces_are_texts(tiny_trace: Callable[..., Path]) -> None:
    name = "x'; DROP TABLE trace; --"
    path = tiny_trace(
        [
            {"ph": "X", "cat": "kernel", "name": name, "ts": 10, "dur": 10, "pid": 0, "tid": 7,
             "args": {"device": 0, "stream": 7, "correlation": 1}},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 2,
             "pid": 1, "tid": 1, "args": {"correlation": 1}},
        ]
    )  # fmt: skip
    with tracekit.open(path, cache=False) as trace:
        found = trace.predict("name=x'*--* x2" if " " in name else name)
        assert (found.recorded_ns, found.predicted_ns) == (10_000, 20_000)
        with pytest.raises(QueryError, match="no such work"):
            trace.predict("name=';SELECT x2")
        assert len(trace.query("trace")) == 1


def test_another_device(tmp_path: Path) -> None:
    """A copy-like kernel goes by bandwidth; what is launch-bound stays, and so do collectives."""
    path = tmp_path / "rank0.json"
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "pid": 0, "tid": 7,
         "args": {"device": 0, "stream": 7, "correlation": number}}
        for name, ts, dur, number in [
            ("void at::native::vectorized_elementwise_kernel<4>", 10, 400, 1),
            ("void at::native::reduce_kernel<512>", 411, 2, 2),
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 413, 600, 3),
        ]
    ]  # fmt: skip
    events += [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 4 * number, "dur": 3,
         "pid": 1, "tid": 1, "args": {"correlation": number}}
        for number in (1, 2, 3)
    ]  # fmt: skip
    properties = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}]
    path.write_text(json.dumps({"deviceProperties": properties, "traceEvents": events}))
    with tracekit.open(path, cache=False) as trace:
        found = trace.predict("device=H200 SXM")
        # 3.35 TB/s to 4.8 TB/s: 400 µs are 279.167; 1 µs between, 2 µs and the collective stay.
        assert (found.recorded_ns, found.predicted_ns) == (1_003_000, 882_167)
        assert "NVIDIA H200 SXM" in found.assumptions[0]
        # Memory still: 400 µs × 3.35 / 5.3, each at 0.8 to 1.25 times that in the interval.
        amd = trace.predict("device=MI300X")
        kernels_ns = 400_000 * 3.35 / 5.3
        assert amd.predicted_ns == pytest.approx(603_000 + kernels_ns, abs=2)
        # Widened by what predictions miss; the collective would be 120 µs less and 150 µs more.
        assert amd.low_ns == pytest.approx(602_600 + 0.8 * kernels_ns, abs=30_000)
        assert amd.high_ns == pytest.approx(603_500 + 1.25 * kernels_ns, abs=30_000)
        with pytest.raises(QueryError, match="several devices"):
            trace.predict("device=H100")
        with pytest.raises(QueryError, match="no such device"):
            trace.predict("device=abacus")


def test_products_reach_another_share_of_another_peak(tmp_path: Path) -> None:
    """A product in bf16 of an H100 (80.3 % of the peak at best) on an MI300X (51.1 %)."""
    shapes = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}
    document = {
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        "traceEvents": [
            span("cpu_op", "aten::mm", 0, 20, **shapes),
            span("cuda_runtime", "cudaLaunchKernel", 5, 10, correlation=1),
            span("kernel", "gemm_bf16", 20, 220, correlation=1, device=0, stream=7),
        ],
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    with tracekit.open(path, cache=False) as trace:
        found = trace.predict("device=MI300X")
        back = trace.predict("device=RTX 3080")
    assert found.predicted_ns == pytest.approx(200_000 * 794.5 / 668.4, rel=1e-3)
    assert "51 %" in found.assumptions[1]
    # What an RTX 3080 reaches is not known: the ratio of the data sheets.
    assert back.predicted_ns == pytest.approx(200_000 * 989.5 / 59.5, rel=1e-3)


def test_the_command(cli: Callable[..., Any], tmp_path: Path) -> None:
    folder, timeline = tmp_path / "run", tmp_path / "predicted.json"
    simulate(Machine(**BASES["device bound"])).write(folder)
    done = cli("predict", folder, "--change", "class=gemm x0.5", "--timeline", timeline,
               "--format", "json")  # fmt: skip
    said = json.loads(done.stdout)
    assert done.exit_code == 0
    assert [*said] == [
        *("change", "recorded_ns", "before_ns", "predicted_ns", "low_ns", "high_ns"),
        "replay_error_pct",
        *("inferred_pct", "assumptions", "reason"),
    ]
    assert said["low_ns"] <= said["predicted_ns"] <= said["high_ns"] < said["recorded_ns"]
    again = json.loads(cli("query", "timeline", timeline, "--format", "json").stdout)
    assert abs(again[0]["window_ns"] - said["predicted_ns"]) <= 1
    # What ran on the host moved along, so that work is still where it was.
    compared = tracekit.compare(folder, timeline, cache=False)
    assert {pair.match for pair in compared.pairs} == {"same"}
    places = "SELECT phase, module_id, count(*) FROM attributed_events GROUP BY ALL ORDER BY ALL"
    with tracekit.open(folder, cache=False) as old, tracekit.open(timeline, cache=False) as new:
        assert old.sql(places).rows == new.sql(places).rows
    shown = cli("predict", folder, "--change", "class=gemm x0.5")
    assert "assumes: other work takes as long as it did" in shown.stdout
    page = tmp_path / "page.html"
    cli("predict", folder, "--change", "class=gemm x0.5", "--report", page)
    text = page.read_text("utf-8")
    assert f"{folder} → class=gemm x0.5" in text
    assert "--timeline predicted &amp;&amp; tracekit compare" in text
    refused = cli("predict", folder, "--change", "class=nix x2")
    assert refused.exit_code == 5
    assert "class here: gemm" in refused.stderr
    assert cli("predict", folder).exit_code == 2


def test_what_runs_again_is_drawn(traces: Callable[[str], tracekit.Trace], tmp_path: Path) -> None:
    """Calls with ops around them on the thread of the backward pass, their kernels behind them."""
    path = tmp_path / "predicted.json"
    recorded = traces("host bound")
    found = recorded.predict("recompute on module=layers.*", "accumulate x2", timeline=path)
    sums = "SELECT phase, count(*), sum(dur_ns) FROM attributed_events GROUP BY ALL"
    before = {phase: row for phase, *row in recorded.sql(sums)}
    with tracekit.open(path, cache=False) as trace:
        (row,) = trace.query("timeline")
        assert found.predicted_ns in row
        after = {phase: row for phase, *row in trace.sql(sums)}
        # All but the last sum of each layer, and what every micro-batch runs is there twice.
        count, ns = before["forward"]
        assert after["forward"] == [2 * count, 2 * ns]
        assert after["recompute"][0] == 2 * count * 5 // 6
        assert after["optimizer"] == before["optimizer"]
        early = (
            "FROM attributed_events AS a INNER JOIN launch AS l USING (trace_id, launch_id) "
            "WHERE a.ts_ns < l.ts_ns"
        )
        assert trace.sql(early).rows == []
        metrics = {row["metric"]: row["severity"] for row in trace.query("health").to_dicts()}
        assert metrics["same_stream_overlaps"] == metrics["unlinked_device_events"] == "ok"


def test_a_timeline_that_cannot_be_written(
    traces: Callable[[str], tracekit.Trace], tmp_path: Path
) -> None:
    place = tmp_path / "file"
    place.write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        traces("device bound").predict("class=gemm x0.5", timeline=place / "inside.json")
    assert [*tmp_path.iterdir()] == [place]


def test_it_abstains_where_more_is_unexplained_than_gained(
    cli: Callable[..., Any], tiny_trace: Callable[..., Path]
) -> None:
    """A kernel that begins 5 ms after its launch, for no reason that the trace has."""
    work = [("a", 10, 100, 1), ("b", 5_200, 100, 2)]
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "pid": 0, "tid": 7,
         "args": {"device": 0, "stream": 7, "correlation": number}}
        for name, ts, dur, number in work
    ]  # fmt: skip
    events += [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 5 * number, "dur": 3,
         "pid": 1, "tid": 1, "args": {"correlation": number}}
        for number in (1, 2)
    ]  # fmt: skip
    done = cli("predict", tiny_trace(events), "--change", "name=a x0.5")
    assert done.exit_code == 7
    assert "no prediction: 5.0" in done.stdout


def test_a_trace_without_work_of_a_device(
    cli: Callable[..., Any], tiny_trace: Callable[..., Path]
) -> None:
    event = {
        "ph": "X",
        "cat": "user_annotation",
        "name": "x",
        "ts": 1,
        "dur": 2,
        "pid": 1,
        "tid": 1,
    }
    path = tiny_trace([event])
    done = cli("predict", path, "--change", "host x0.5")
    assert (done.exit_code, done.stdout) == (5, "")
    assert "no work of a device is recorded" in done.stderr
    assert cli("replay", path).exit_code == 0
