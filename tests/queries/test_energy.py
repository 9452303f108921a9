"""Analysis energy, on curves of power that can be integrated in the head."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import Event, call, kernel, span

import tracekit

BASE_S = 1_700_000_000
HEAD = "timestamp,device,power [W]"


def trace_of(*kernels: tuple[float, float], device: int = 0) -> list[Event]:
    """Steps of one kernel each, from and to s."""
    events: list[Event] = []
    for step, (start, end) in enumerate(kernels):
        at, until = start * 1e6, end * 1e6
        events += [
            span("user_annotation", f"ProfilerStep#{step}", at, until),
            call(at, at + 1, step + 1),
            kernel("gemm", at, until, step + 1, device=device),
        ]
    return events


@pytest.fixture
def energy(tiny_trace: Callable[..., Path], tmp_path: Path) -> Callable[..., Any]:
    """Return rows by scope and name; samples are s since the trace's time 0, and a value."""

    def rows(
        events: list[Event],
        samples: Mapping[float, float],
        head: str = HEAD,
        device: str = "0",
        **params: object,
    ) -> Any:
        trace = tiny_trace(events, baseTimeNanoseconds=BASE_S * 10**9)
        lines = [f"{BASE_S + at:.3f},{device},{value}" for at, value in samples.items()]
        (tmp_path / "power.csv").write_text("\n".join([head, *lines]))
        with tracekit.open(trace, tmp_path / "power.csv", cache=False) as opened:
            found = opened.query("energy", **params).to_dicts()
        return {(row["scope"], row["name"]): row for row in found}

    return rows


RAMP = {0: 100, 1: 100, 2: 300, 3: 300, 4: 100, 5: 100}


def test_trapezoids_between_samples_idle_time_included(energy: Callable[..., Any]) -> None:
    """From 0.5 to 1: 50; to 2, the next step: 200; to 3: 300; to 4: 200; to 4.5: 50 J."""
    found = energy(trace_of((0.5, 1), (2, 4.5)), RAMP)
    assert found["window", None]["energy_j"] == pytest.approx(800)
    assert found["window", None]["mean_power_w"] == pytest.approx(200)
    assert found["step", "0"]["energy_j"] == pytest.approx(250)
    assert found["step", "1"]["energy_j"] == pytest.approx(550)
    # Between the steps nothing is recorded, and no sample lies there.
    assert found["phase", "other"]["energy_j"] is None
    assert {row["covered_pct"] for row in found.values()} == {100}
    assert found["phase", "forward"]["energy_j"] == pytest.approx(50 + 300 + 200 + 50)


def test_a_step_between_two_samples_has_none(energy: Callable[..., Any]) -> None:
    found = energy(trace_of((0, 1), (2, 2.5), (2.5, 5)), RAMP)
    steps = [row["energy_j"] for (scope, _), row in found.items() if scope == "step"]
    assert steps == [pytest.approx(300), None, pytest.approx(450)]
    assert found["step", "1"]["reason"] == "fewer than two samples lie in that time"
    assert found["window", None]["energy_j"] == pytest.approx(300 + 150 + 450)


def test_a_counter_of_energy_is_subtracted_and_goes_before_power(
    energy: Callable[..., Any],
) -> None:
    samples = {0: "100,9", 1: "160,9", 2: "160,9", 3: "400,9"}
    found = energy(trace_of((0.5, 2.5)), samples, "timestamp,device,energy [J],power [W]")
    row = found["window", None]
    assert (row["energy_j"], row["counter"], row["clock"]) == (pytest.approx(150), "energy", "UTC")


def test_a_gap_between_samples_is_not_covered(energy: Callable[..., Any]) -> None:
    """Of 0 to 10 s, 2 to 9 is not covered: 3 s at 100 W."""
    samples = {0: 100, 1: 100, 2: 100, 9: 100, 10: 100}
    found = energy(trace_of((0, 10)), samples)
    row = found["window", None]
    assert (row["energy_j"], row["covered_pct"]) == (None, pytest.approx(30))
    assert row["reason"] == "samples cover too little of that time"
    row = energy(trace_of((0, 10)), samples, min_covered_pct=20)["window", None]
    assert (row["energy_j"], row["mean_power_w"]) == (pytest.approx(300), pytest.approx(100))
    row = energy(trace_of((0, 10)), samples, max_gap_ns=8 * 10**9)["window", None]
    assert (row["energy_j"], row["covered_pct"]) == (pytest.approx(1000), 100)


def test_a_counter_that_begins_anew_covers_nothing(energy: Callable[..., Any]) -> None:
    samples = {0: 50, 1: 60, 2: 1, 3: 11}
    row = energy(trace_of((0, 3)), samples, "timestamp,device,energy [J]", min_covered_pct=0)
    assert row["window", None]["energy_j"] == pytest.approx(20)
    assert row["window", None]["covered_pct"] == pytest.approx(200 / 3)


def test_counters_of_the_trace_are_samples_too(tiny_trace: Callable[..., Path]) -> None:
    """As Kineto writes what CUPTI sampled of the hardware, and as programs write counters."""
    events = [
        kernel("k", 0, 9),
        *(
            {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": 5, "args": args}
            for name, pid, args in [
                ("dram__bytes_read.sum", "GPU 1 Counters", {"": 1.5}),
                ("queue", 4, {"waiting": 2, "it's": "x"}),
            ]
        ),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        found = [*trace.sql("SELECT device, name, at_ns, value FROM counter_samples")]
    assert found == [
        ("1", "dram__bytes_read.sum", 5_000, 1.5),
        (None, "queue: waiting", 5_000, 2),
        (None, "queue: it's", 5_000, None),
    ]


@pytest.mark.parametrize(
    ("head", "device"), [("timestamp,device,power.limit [W]", "0"), (HEAD, "1"), (HEAD, "cpu")]
)
def test_neither_limits_nor_other_devices(
    head: str, device: str, energy: Callable[..., Any]
) -> None:
    assert energy(trace_of((0, 3)), RAMP, head, device) == {}


def test_no_alignment_without_the_time_since_the_epoch(
    tiny_trace: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "power.csv").write_text(f"{HEAD}\n{BASE_S},0,7\n")
    with tracekit.open(tiny_trace(trace_of((0, 3))), tmp_path / "power.csv", cache=False) as trace:
        assert [*trace.sql("SELECT count(*) FROM system_sample")] == [(1,)]
        assert [*trace.sql("SELECT count(*) FROM counter_samples")] == [(0,)]


def test_energy_of_a_load_by_request_and_token(tmp_path: Path) -> None:
    """From 2 s to 6 s at 100 W, which is beyond the trace: 400 J for 4 requests, 40 tokens."""
    folder = tmp_path / "run"
    folder.mkdir()
    whole = {"baseTimeNanoseconds": BASE_S * 10**9, "traceEvents": trace_of((0, 2))}
    (folder / "rank0.json").write_text(json.dumps(whole))
    stated = {
        "run_id": "serve-1",
        "tracekit_version": "0",
        "created_at": "2026-01-01T00:00:00Z",
        "stage": "serve",
        "engine": "transformers",
        "traces": ["rank0.json"],
        "load": {
            "request_count": 5,
            "prompt_token_count": 8,
            "max_new_token_count": 10,
            "start_unix_ns": (BASE_S + 1) * 10**9,
        },
    }
    (folder / "run.json").write_text(json.dumps(stated))
    lines = [
        {"request_id": n, "outcome": "ok", "sent_ns": s, "end_ns": e, "output_token_count": 10}
        for n, (s, e) in enumerate([(1, 2), (1, 3), (2, 4), (3, 5)])
    ]
    lines.append({"request_id": 9, "outcome": "ok", "is_warmup": True, "sent_ns": 0, "end_ns": 9})
    for line in lines:
        line["sent_ns"] *= 10**9  # type: ignore[operator]
        line["end_ns"] *= 10**9  # type: ignore[operator]
    (folder / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    samples = "".join(f"{BASE_S + at},0,100\n" for at in range(8))
    (folder / "power.csv").write_text(f"{HEAD}\n{samples}")
    with tracekit.open(folder, cache=False) as trace:
        found = {row["name"]: row for row in trace.query("energy").to_dicts()}
    load = found["measured"]
    assert (load["dur_ns"], load["energy_j"]) == (4 * 10**9, pytest.approx(400))
    assert (load["request_count"], load["request_energy_j"]) == (4, pytest.approx(100))
    assert (load["token_count"], load["token_energy_j"]) == (40, pytest.approx(10))


def test_energy_of_a_token_of_training(make_run: Callable[..., Path], tmp_path: Path) -> None:
    whole = {"baseTimeNanoseconds": BASE_S * 10**9, "traceEvents": trace_of((0, 2), (2, 5))}
    folder = make_run("run", batch_size=2, sequence_length=100)
    (folder / "rank0.json").write_text(json.dumps(whole))
    (folder / "power.csv").write_text(HEAD + "".join(f"\n{BASE_S + at},0,100" for at in range(8)))
    with tracekit.open(folder, cache=False) as trace:
        found = {row["name"]: row for row in trace.query("energy").to_dicts()}
    assert (found["1"]["token_count"], found["1"]["token_energy_j"]) == (200, pytest.approx(1.5))
