"""Analysis phases: busy and idle time of every phase; together the window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from every_trace import Answered, on_every_trace

import tracekit

Opened = Callable[[Path], tracekit.Trace]

TRAINING = (
    *("cpu_llama_ckpt_module_ranges", "cpu_llama_lora", "cpu_llama_z3_rank0", "cpu_llama_z3_rank1"),
    *("deepseek_train_h800", "hta_a100_cudagraph", "hta_ddp_nccl_metadata", "hta_mi250_toy_train"),
    *("hta_resnet_v100_ns", "hta_sampled_rank0_noflows", "hta_sampled_rank1_noflows"),
    *("kineto_v100_resnet_2021", "tl_mi300_resnet_ddp_recompute"),
)


@on_every_trace
def test_phases_and_modules_and_roles_add_up(answered: Answered, path: Path) -> None:
    """Busy time is the same whichever way it is parted; with idle time it is the window."""
    ask = answered(path)
    window = {(row["rank"], row["device"]): row for row in ask("timeline").to_dicts()}
    for name, column in (("modules", "self_wall_ns"), ("roles", "wall_ns"), ("phases", "wall_ns")):
        sums = dict.fromkeys(window, 0)
        for row in ask(name).to_dicts():
            sums[row["rank"], row["device"]] += row[column]
        assert sums == {place: row["busy_ns"] for place, row in window.items()}, name
    idle = dict.fromkeys(window, 0)
    for row in ask("phases").to_dicts():
        idle[row["rank"], row["device"]] += row["idle_ns"]
    assert idle == {place: row["idle_ns"] for place, row in window.items()}


@on_every_trace
def test_every_device_event_has_one_context(opened: Opened, path: Path) -> None:
    trace = opened(path)
    keys = "trace_id, event_id, piece"
    for one, other in (("device_events", "attribution"), ("attribution", "device_events")):
        missing = trace.sql(f"SELECT {keys} FROM {one} EXCEPT ALL SELECT {keys} FROM {other}")
        assert missing.rows == []


@pytest.mark.parametrize("name", TRAINING)
def test_device_time_of_training_is_in_a_phase(
    opened: Opened, public_traces: Path, name: str
) -> None:
    trace = opened(public_traces / f"{name}.json.gz")
    metrics = {row["metric"]: row["value"] for row in trace.health().to_dicts()}
    assert metrics["device_time_in_phase"] >= 99.0


def test_serving_phases(opened: Opened, public_traces: Path) -> None:
    for name, phases in {
        "tl_mi300_sglang_prefill": {"prefill"},
        "tl_mi300_sglang_decode_graph": {"decode"},
        "tl_mi300_vllm_piecewise": {"mixed"},
    }.items():
        trace = opened(public_traces / f"{name}.json.gz")
        rows = {row["phase"]: row["span_pct"] for row in trace.query("phases").to_dicts()}
        assert sum(rows.get(phase, 0) for phase in phases) > 99, (name, rows)
