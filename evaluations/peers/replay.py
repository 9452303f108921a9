"""Compares recorded ops with their replay by `tracekit export reproduce`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from made_parts import table

import tracekit

COUNT = 30
SHORTEST = """
SELECT w.name, e.args ->> '$."Input Dims"' AS shapes, min(w.host_ns)
FROM op_work AS w
INNER JOIN event AS e USING (trace_id, event_id)
WHERE shapes IS NOT NULL
GROUP BY ALL
"""


def _record(path: Path) -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    model = torch.nn.Sequential(torch.nn.Embedding(1000, 256), layer, torch.nn.Linear(256, 1000))
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 1000, (4, 64))
    profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True)
    for step in range(12):
        if step == 2:
            profiler.start()
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    profiler.stop()
    profiler.export_chrome_trace(str(path))


def replay() -> str:
    """Return the ops with their shortest recorded and shortest replayed call, µs."""
    with tempfile.TemporaryDirectory(prefix="tracekit-peers-") as name:
        trace, program = Path(name) / "trace.json", Path(name) / "ops.py"
        _record(trace)
        command = [sys.executable, "-m", "tracekit", "reproduce", str(trace), "--no-cache"]
        subprocess.run([*command, "--limit", str(COUNT), "-o", str(program)], check=True)
        done = subprocess.run(
            [sys.executable, str(program), "--json"],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        with closing(tracekit.open(trace, cache=False)) as opened:
            shortest = {
                (op, json.dumps(json.loads(shapes))): host_ns / 1e3
                for op, shapes, host_ns in opened.sql(SHORTEST).rows
            }
    rows = json.loads(done.stdout.splitlines()[-1])
    recorded = [shortest[row["op"], json.dumps(row["shapes"])] for row in rows]
    ratios = [
        min(row["host"]) / before for row, before in zip(rows, recorded, strict=True) if row["host"]
    ]
    lines: list[tuple[object, ...]] = []
    for row, before in zip(rows, recorded, strict=True):
        shapes = ", ".join(str(shape) for shape in row["shapes"] if shape not in ([], None))
        now = f"{min(row['host']):.1f}" if row["host"] else row["reason"]
        lines.append((f"`{row['op']}`", shapes, f"{before:.1f}", now))
    quartiles = ", ".join(f"{ratio:.2f}" for ratio in statistics.quantiles(ratios, n=4))
    text = table(("op", "shapes", "recorded, µs", "rerun, µs"), lines)
    return (
        f"{len(ratios)} of {len(rows)} ran, on the CPU with torch {version('torch')}, load "
        f"{os.getloadavg()[0]:.1f}. Quartiles of rerun / recorded time: {quartiles}."
        f"\n\n{text}"
    )
