"""The modules of public traces, against what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tracekit

Opened = Callable[[Path], tracekit.Trace]

UNATTRIBUTED_LIMITS = {
    "tl_b200_vllm_eager": 3.0,
    "tl_mi300_resnet_ddp_recompute": 3.0,
    "tl_h100_qwen": 3.0,
    "tl_h100_owlv2_large": 3.0,
    "tl_mi300_sglang_prefill": 3.0,
}


@pytest.mark.parametrize("name", sorted(UNATTRIBUTED_LIMITS))
def test_linked_device_time_is_placed(opened: Opened, public_traces: Path, name: str) -> None:
    trace = opened(public_traces / f"{name}.json.gz")
    ((unplaced_pct,),) = trace.sql(
        "SELECT 100.0 * coalesce(sum(dur_ns) FILTER (row_name = '(unattributed)'), 0)"
        " / sum(dur_ns) FROM attribution JOIN device_events USING (trace_id, event_id, piece)"
        " WHERE launch_id IS NOT NULL"
    ).rows
    assert unplaced_pct <= UNATTRIBUTED_LIMITS[name]


def test_recomputation_has_the_modules_of_the_forward(opened: Opened, public_traces: Path) -> None:
    """mi300_resnet checkpoints whole blocks: what runs again is what ran, class by class."""
    trace = opened(public_traces / "tl_mi300_resnet_ddp_recompute.json.gz")
    counts: dict[str, dict[str, int]] = {"forward": {}, "recompute": {}}
    for phase in counts:
        counts[phase] = dict(
            trace.sql(
                "SELECT m.class, count(*) FROM attribution AS c"
                " JOIN module AS m USING (trace_id, module_id)"
                f" WHERE c.phase = '{phase}' AND c.link = 'launch'"
                " AND m.path LIKE '%CheckpointWrapper%' GROUP BY ALL"
            ).rows
        )
    assert counts["recompute"]
    for name, count in counts["recompute"].items():
        assert count == counts["forward"][name], name


def test_known_module_ranges(opened: Opened, public_traces: Path) -> None:
    """Hooks named every module: a backward op inside of a `bwd:` range is of that module."""
    trace = opened(public_traces / "cpu_llama_ckpt_module_ranges.json.gz")
    paths = {path for (path,) in trace.sql("SELECT path FROM module").rows}
    assert {"model.layers.1.self_attn.q_proj", "model.layers.0.mlp.gate_proj"} <= paths
    phases = set(trace.query("modules", layer=1).column("phase"))
    assert phases == {"forward", "recompute", "backward"}
    wrong = trace.sql(
        """
        WITH hook AS (
            SELECT trace_id, tid, ts_ns, ts_ns + dur_ns AS end_ns, substr(name, 5) AS path
            FROM annotations WHERE name LIKE 'bwd:%'
        ), inside AS (
            SELECT d.event_id, m.path, arg_max(h.path, h.ts_ns) AS hook_path
            FROM attribution AS c
            JOIN event AS d USING (trace_id, event_id)
            JOIN hook AS h ON d.tid = h.tid AND d.ts_ns >= h.ts_ns
                AND d.ts_ns + d.dur_ns <= h.end_ns
            JOIN module AS m USING (trace_id, module_id)
            WHERE c.phase = 'backward'
            GROUP BY ALL
        )
        SELECT path, hook_path FROM inside
        WHERE NOT starts_with(path, hook_path) AND NOT starts_with(hook_path, path)
        """
    ).rows
    assert wrong == []
