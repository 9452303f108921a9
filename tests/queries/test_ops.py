"""Analyses ops and op_arguments of real traces; small ones are in tests/cases/cpu_work.case."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from every_trace import Answered, on_every_trace

import tracekit


@on_every_trace
def test_own_figures_add_up(answered: Answered, path: Path) -> None:
    ask = answered(path)
    rows = ask("ops", limit=0).to_dicts()
    timeline = ask("timeline").to_dicts()
    assert sum(row["direct_wall_ns"] for row in rows) == sum(row["busy_ns"] for row in timeline)
    by_arguments = ask("op_arguments", limit=0).to_dicts()
    for name in ("op_count", "self_host_ns", "direct_kernel_ns"):
        assert sum(row[name] for row in rows if row["op"]) == sum(row[name] for row in by_arguments)


PROGRAM = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile

layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
model = torch.nn.Sequential(torch.nn.Embedding(50, 16), layer, torch.nn.Linear(16, 50))
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, 50, (2, 8))
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
profiler.export_chrome_trace(sys.argv[1])
rows = [
    (by_shape, row.key, row.input_shapes if by_shape else None, row.count)
    + (row.cpu_time_total, row.self_cpu_time_total)
    for by_shape in (False, True)
    for row in profiler.key_averages(group_by_input_shape=by_shape)
    if not row.is_user_annotation
]
print(json.dumps(rows))
"""


def test_torch_says_the_same(python: Callable[[str], str], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    done = subprocess.run(
        [python("eager"), "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    with tracekit.open(path, cache=False) as trace:
        ours: dict[tuple[str, str | None], list[int]] = {}
        for by_shape, name in ((False, "ops"), (True, "op_arguments")):
            for row in trace.query(name, limit=0).to_dicts():
                shapes = json.dumps(json.loads(row["shapes"] or "[]")) if by_shape else None
                sums = ours.setdefault((row["op"], shapes), [])
                sums += [row[column] for column in ("op_count", "self_host_ns", "host_ns")]
    assert len(theirs) > 200
    folded = set()
    for by_shape, name, shapes, count, host_us, self_us in theirs:
        own = ours.pop((name, json.dumps(shapes) if by_shape else None))
        # Torch's times are doubles of µs, and its table tells no types apart.
        assert sum(own[1::3]) == pytest.approx(self_us * 1e3, abs=0.01 * count)
        if len(own) == 3:
            assert own[2] == pytest.approx(host_us * 1e3, abs=0.01 * count)
        if sum(own[::3]) != count:
            folded.add(name)
    # Torch's table makes one call of two where an op does nothing but call itself.
    assert folded <= {"aten::mul", "aten::div_"}
    assert ours == {}
