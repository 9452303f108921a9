"""Layers by repetition against those of modules, in recordings from which modules are taken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import tracekit

H200 = Path(__file__).parents[3] / "shared" / "h200"
WITH_MODULES = {
    "llama_stack.json.gz": 8,
    "moe.json.gz": 4,
    "runs/pretrain_Naive_batch_2/rank0.json.gz": 32,
    "runs/finetune_L_batch_1/rank0.json.gz": 32,
}
BY_MODULES = (
    "SELECT m.layer, sum(dur_ns)::BIGINT FROM attributed_events AS a "
    "JOIN module AS m USING (trace_id, module_id) "
    "WHERE m.layer IS NOT NULL AND a.phase = 'forward' GROUP BY m.layer ORDER BY m.layer"
)


def tells_module(event: dict[str, Any]) -> bool:
    name = str(event.get("name"))
    return name.startswith(("nn.Module: ", "tk/module/")) or event.get("cat") == "python_function"


@pytest.mark.parametrize(("name", "layer_count"), WITH_MODULES.items())
def test_layers_are_those_of_modules(name: str, layer_count: int, tmp_path: Path) -> None:
    source = H200 / name
    if not source.is_file():
        pytest.skip(f"no recording {source}")
    with tracekit.open(source, cache=False) as trace:
        right = trace.sql(BY_MODULES).rows
    document = json.loads(gzip.decompress(source.read_bytes()))
    document["traceEvents"] = [e for e in document["traceEvents"] if not tells_module(e)]
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(document), "utf-8")
    with tracekit.open(bare, cache=False) as trace:
        rows = trace.query("repeated_layers").to_dicts()
    found = [(row["layer"], row["kernel_ns"]) for row in rows if row["place"] == "layer"]
    assert len(right) == layer_count
    assert found == right
