"""Writes a made-up run by hand: ``python tests/shared/made_runs FOLDER --data 64 --slow 9``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from made_runs import Faults, Layout, Step, make_run, make_run_of_trace

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=Path)
for size in ("data", "tensor", "pipeline", "expert"):
    parser.add_argument(f"--{size}", type=int, default=1)
parser.add_argument("--node", type=int, default=8, help="ranks of a node")
parser.add_argument("--microbatches", type=int, default=1)
parser.add_argument("--steps", type=int, default=2)
parser.add_argument("--slow", type=int, help="a rank that is 30 %% slower")
parser.add_argument("--template", type=Path, help="a real trace that every rank does")
parser.add_argument("--gzip", action="store_true")
asked = parser.parse_args()
began = time.perf_counter()
layout = Layout(asked.data, asked.tensor, asked.pipeline, asked.expert, asked.node)
faults = Faults(slow_ranks={asked.slow: 1.3} if asked.slow is not None else {})
if asked.template:
    made = make_run_of_trace(asked.folder, asked.template, layout, faults, is_compressed=asked.gzip)
else:
    step = Step(microbatches=asked.microbatches, steps=asked.steps)
    made = make_run(asked.folder, layout, step, faults, is_compressed=asked.gzip)
bytes_ = sum(path.stat().st_size for path in made.paths)
sys.stdout.write(
    f"{len(made.paths)} ranks, {bytes_:,} bytes, {time.perf_counter() - began:.1f} s\n"
)
