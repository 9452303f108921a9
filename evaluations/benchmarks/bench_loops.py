"""Compares step times of training loops under `tracekit collect` with the loops alone.

Each loop of `tests/collectors/loops/programs` runs alternately bare and wrapped, and prints the
time of every step. Medians over the same steps are compared: timed steps without ranges, steps with
ranges, and steps after the recording.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[2] / "tests" / "collectors" / "loops" / "programs"
LOOPS = {
    "plain": ("plain",),
    "evaluation": ("evaluation",),
    "autocast, accumulated": ("autocast",),
    "distillation": ("distillation",),
    "gan": ("gan",),
    "transformers": ("transformers_trainer",),
    "trl": ("trl_sft",),
    "lightning": ("lightning_trainer",),
    "accelerate": ("accelerate_loop",),
    "ddp": ("ddp",),
    "compiled": ("compiled", "model", "aot_eager"),
    "compiled in place": ("compiled", "place", "aot_eager"),
    "compiled layers": ("compiled", "layers", "aot_eager"),
}
STEPS = 160
WARMUP, TIMED, PROFILED = 10, 40, 30
OPTIONS = ("--warmup", WARMUP, "--steps", TIMED, "--profile-steps", PROFILED)
# The first step of each part is omitted, because hooks are attached or removed there. Between the
# parts, the profiler warms up, steps are profiled, and the run folder is written.
PARTS = {
    "timed": slice(WARMUP + 1, WARMUP + TIMED),
    "ranges": slice(WARMUP + TIMED + 1, WARMUP + TIMED + PROFILED),
    "after": slice(WARMUP + TIMED + 2 * PROFILED + 11, STEPS - 1),
}
LIMITS = {"timed": 1.02, "ranges": 1.05, "after": 1.02}


def main() -> int:
    """Measure, print a line per loop, and return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "loops", nargs="*", metavar="LOOP", help=f"some of {', '.join(LOOPS)}; default: all"
    )
    parser.add_argument("--repeats", type=int, default=5, help="repeats per loop [default: 5]")
    parser.add_argument("--width", type=int, default=256, help="width of the model [default: 256]")
    given = parser.parse_args()
    unknown = set(given.loops) - set(LOOPS)
    if unknown:
        parser.error(f"unknown loop: {', '.join(sorted(unknown))}")
    print(f"{'loop':<24}{'bare step':>12}" + "".join(f"{name:>10}" for name in PARTS))
    print(f"{'at most':<36}" + "".join(f"{limit:>10.2f}" for limit in LIMITS.values()))
    is_missed = False
    for name in given.loops or LOOPS:
        pairs = []
        for number in range(given.repeats):
            both = {}
            for is_wrapped in (False, True) if number % 2 else (True, False):
                both[is_wrapped] = step_times_ns(LOOPS[name], given.width, is_wrapped=is_wrapped)
            pairs.append((both[False], both[True]))
        bare_ns = statistics.median(itertools.chain(*(bare for bare, _ in pairs)))
        ratios = {
            part: statistics.median(
                statistics.median(ours[steps]) / statistics.median(bare[steps])
                for bare, ours in pairs
            )
            for part, steps in PARTS.items()
        }
        is_missed |= any(ratios[part] > limit for part, limit in LIMITS.items())
        figures = "".join(f"{ratio:>10.3f}" for ratio in ratios.values())
        print(f"{name:<24}{bare_ns / 1e6:>9.3f} ms{figures}", flush=True)
    return int(is_missed)


def step_times_ns(words: Sequence[str], width: int, *, is_wrapped: bool) -> list[int]:
    """Run a loop once, and return the time between consecutive steps, ns.

    Raises:
        RuntimeError: the loop failed.
    """
    with tempfile.TemporaryDirectory(prefix="bench-loops-") as folder:
        script, *rest = words
        command: list[object] = [sys.executable]
        if script == "ddp":
            command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
        command += [PROGRAMS / f"{script}.py", *rest]
        if is_wrapped:
            tracekit = Path(sys.executable).with_name("tracekit")
            command = [tracekit, "collect", "--out", "run", *OPTIONS, "--", *command]
        times = Path(folder) / "times.json"
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "LOOP_STEPS": str(STEPS),
            "LOOP_TIMES": str(times),
            "LOOP_WIDTH": str(width),
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not times.is_file():
            raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stderr[-4000:]}")
        instants = json.loads(times.read_text("utf-8"))
        return [after - before for before, after in itertools.pairwise(instants)]


if __name__ == "__main__":
    sys.exit(main())
