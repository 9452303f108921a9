"""The categories of memory, held against those that torch tells by the flow of the data."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tracekit

torch = pytest.importorskip("torch")
pytest.importorskip("torch.profiler._memory_profiler")

NAMES = {
    "PARAMETER": "parameters",
    "OPTIMIZER_STATE": "optimizer state",
    "INPUT": "inputs",
    "TEMPORARY": "temporary",
    # What a backward pass makes on its way.
    "AUTOGRAD_DETAIL": "temporary",
    "ACTIVATION": "activations",
    "GRADIENT": "gradients",
    None: "unknown",
}


def perceptron() -> tuple[Any, Any]:
    layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)]
    return torch.nn.Sequential(*layers, torch.nn.LayerNorm(64)), torch.randn(128, 64)


def encoder() -> tuple[Any, Any]:
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2), torch.randn(4, 32, 64)


def recorded(make: Callable[[], tuple[Any, Any]], path: Path) -> Any:
    """Train for three steps and leave the trace; return the profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    options = {"profile_memory": True, "record_shapes": True, "with_stack": True}
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=activities, **options) as profiler:
            model, batch = make()
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(3):
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()
    profiler.export_chrome_trace(str(path))
    return profiler


def told_by_torch(profiler: Any, until_ns: int) -> dict[int, str]:
    """Return the categories of the blocks that are in use at a moment, by their addresses."""
    profile = profiler._memory_profile()
    live: dict[int, tuple[Any, int]] = {}
    for at_ns, action, (key, version), _ in profile.timeline:
        address = getattr(getattr(key, "storage", None), "ptr", None)
        if at_ns > until_ns or address is None:
            continue
        if action.name == "DESTROY":
            live.pop(address, None)
        else:
            live[address] = key, version + (action.name == "INCREMENT_VERSION")
    found = {address: profile._categories.get(*live[address]) for address in live}
    return {address: NAMES[getattr(one, "name", None)] for address, one in found.items()}


def at_the_peak(make: Callable[[], tuple[Any, Any]], path: Path) -> Counter[tuple[str, str | None]]:
    """Return the bytes in use at the peak of a recorded training, by our category and torch's."""
    profiler = recorded(make, path)
    trace_json = json.loads(path.read_bytes(), parse_float=Decimal)
    moments = [one for one in trace_json["traceEvents"] if one.get("name") == "[memory]"]
    peak = max(moments, key=lambda one: one["args"]["Total Allocated"])
    at_ns = trace_json["baseTimeNanoseconds"] + int(peak["ts"] * 1000)
    theirs = told_by_torch(profiler, at_ns)
    with tracekit.open(path, cache=False) as trace:
        ours = trace.sql(
            "SELECT m.address, e.bytes, e.category FROM memory_event AS e "
            "INNER JOIN memory AS m USING (trace_id, event_id) WHERE e.is_at_peak"
        ).rows
    pairs = Counter[tuple[str, str | None]]()
    for address, size, category in ours:
        pairs[category, theirs.get(address)] += size
    return pairs


@pytest.mark.parametrize("make", [perceptron, encoder])
def test_most_bytes_are_of_the_category_that_torch_tells(
    make: Callable[[], tuple[Any, Any]], tmp_path: Path
) -> None:
    pairs = at_the_peak(make, tmp_path / "trace.json")
    same = sum(size for (one, other), size in pairs.items() if one == other)
    assert same >= 0.95 * pairs.total(), pairs
    assert pairs["parameters", "parameters"] == sum(
        size for (_, other), size in pairs.items() if other == "parameters"
    )
