"""Measures the cost of profiler options: trace size, event count, and step time.

Trains a Llama with random weights on the CPU under `tracekit.collect`, alternating between the
options. Figures are medians, and ratios compare profiled and unprofiled steps of the same run.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import tracekit
from tracekit import manifest

CHOICES: dict[str, dict[str, bool]] = {
    "without shapes": {"record_shapes": False},
    "as it is": {},
    "flops": {"with_flops": True},
    "memory": {"profile_memory": True},
    "stacks": {"with_stack": True},
    "everything": {"with_flops": True, "profile_memory": True, "with_stack": True},
}
PROFILED = 3


def main() -> int:
    """Measure, and print a row per option."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="repeats per option [default: 3]")
    parser.add_argument("--layers", type=int, default=4, help="layers of the model [default: 4]")
    parser.add_argument("--width", type=int, default=256, help="width of the model [default: 256]")
    given = parser.parse_args()
    result: dict[str, list[tuple[float, ...]]] = {name: [] for name in CHOICES}
    for _ in range(given.repeats):
        for name, options in CHOICES.items():
            result[name].append(measure(given.layers, given.width, options))
    print(f"{'':<16}{'MB a step':>11}{'as .gz':>9}{'events a step':>15}{'step time':>11}")
    for name, rows in result.items():
        plain, packed, events, ratio = (statistics.median(column) for column in zip(*rows))  # noqa: B905
        print(f"{name:<16}{plain:>11.2f}{packed:>9.3f}{events:>15,.0f}{ratio:>9.2f} ×")
    return 0


def measure(layers: int, width: int, options: dict[str, bool]) -> tuple[float, ...]:
    """Return MB, compressed MB, events per step, and the slowdown of a step by profiling."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            vocab_size=512,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(0, 512, (2, 128))
    with tempfile.TemporaryDirectory(prefix="bench-choices-") as folder:
        run = Path(folder, "run")
        stderr = io.StringIO()
        given: dict[str, Any] = {"warmup": 2, "steps": 5, "profile_steps": PROFILED, **options}
        with (
            contextlib.redirect_stderr(stderr),
            tracekit.collect(model=model, out=run, **given) as step,
        ):
            for _ in range(2 + 5 + 2 * PROFILED + 2):
                with step():
                    model(input_ids=ids, labels=ids).loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
        packed = (run / "rank0.json.gz").read_bytes()
        run_manifest = manifest.read(run)
    assert run_manifest.overhead is not None, stderr.getvalue()
    assert run_manifest.overhead.profiled_step_ns
    assert run_manifest.overhead.plain_step_ns
    text = gzip.decompress(packed)
    return (
        len(text) / PROFILED / 1e6,
        len(packed) / PROFILED / 1e6,
        text.count(b'"ph":') / PROFILED,
        run_manifest.overhead.profiled_step_ns / run_manifest.overhead.plain_step_ns,
    )


if __name__ == "__main__":
    sys.exit(main())
