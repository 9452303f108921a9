"""Compares `tracekit bench` with other timers, and with itself when repeated.

    python evaluations/benchmarks/bench_points.py [--rounds 41] [--threads 1] [--cpu-time]

GEMMs are compared with `torch.utils.benchmark`, and a gloo all-reduce with a manual loop,
alternating in the same processes. Figures are ratios of the medians over all rounds, and the
interquartile range of tracekit's medians (variation between runs). By default, GEMMs use one
thread, because several threads would measure the scheduler of a busy machine. An all-reduce may
differ by the limit or by the variation of the manual loop. On a busy machine, use --cpu-time, which
compares the CPU time of the thread.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.benchmark import Timer

from tracekit.collectors.bench import collectives, gemm
from tracekit.collectors.bench.clock import WallClock
from tracekit.collectors.bench.collectives import Group
from tracekit.collectors.bench.point import Point
from tracekit.collectors.bench.sampling import Budget, take_samples
from tracekit.collectors.process.launch import run_ranks

CPU = torch.device("cpu")
SHAPES = ((64, 64, 64), (256, 256, 256), (512, 512, 512))
SIZES = (4096, 2**20)
GEMM_LIMIT = 0.05
GLOO_LIMIT = 0.15
BUDGET = Budget(seconds=0.1, warmup_s=0.01)


def spread_of(values: list[float]) -> float:
    """Return the interquartile range relative to the median."""
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


def compare(
    name: str,
    ours: Callable[[], float],
    theirs: Callable[[], float],
    rounds: int,
    limit: float,
    *,
    is_noisy: bool = False,
) -> bool:
    """Measure both alternately, print the ratio of medians, and return whether it is acceptable."""
    own, other = [], []
    for number in range(rounds):
        # The second one has warm caches, so the order alternates.
        for mine in (True, False) if number % 2 else (False, True):
            (own if mine else other).append(ours() if mine else theirs())
    ratio = statistics.median(own) / statistics.median(other)
    limit = max(limit, spread_of(other)) if is_noisy else limit
    verdict = "ok" if abs(ratio - 1) <= limit else "MISSED"
    sys.stdout.write(
        f"{name:<32} {statistics.median(own) / 1e3:12.2f} µs  {ratio:6.3f} of theirs "
        f"(limit {1 - limit:.2f} to {1 + limit:.2f}) {verdict}   "
        f"quartiles of {rounds} rounds {100 * spread_of(own):.1f} % apart, theirs "
        f"{100 * spread_of(other):.1f} %\n"
    )
    sys.stdout.flush()
    return verdict == "ok"


def products(rounds: int, *, by_cpu_time: bool) -> bool:
    """Compare GEMMs of three sizes."""
    now_ns, now_s = time.perf_counter_ns, time.perf_counter
    if by_cpu_time:
        now_ns, now_s = time.thread_time_ns, time.thread_time
    good = True
    for m, n, k in SHAPES:
        point = Point("gemm", "mm", dtype="fp32", m=m, n=n, k=k)
        left, right, out = torch.randn(m, k), torch.randn(n, k).t(), torch.empty(m, n)
        timer = Timer(
            "torch.mm(left, right, out=out)",
            globals={"torch": torch, "left": left, "right": right, "out": out},
            num_threads=torch.get_num_threads(),
            timer=now_s,
        )

        def ours(point: Point = point) -> float:
            with gemm.prepared(point, CPU) as call:
                clock = WallClock(now_ns=now_ns)
                return take_samples(lambda count: clock.time_ns(call, count), BUDGET).median()

        def theirs(timer: Timer = timer) -> float:
            return timer.blocked_autorange(min_run_time=BUDGET.seconds).median * 1e9

        good &= compare(f"mm fp32 {m}×{n}×{k}", ours, theirs, rounds, GEMM_LIMIT)
    return good


def all_reduce(rank: int, folder: Path, rounds: int) -> bool:
    """Compare an all-reduce of two sizes, as one of two ranks."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    group, good = Group(CPU), True
    for size in SIZES:
        point = Point("collective", "all_reduce", dtype="fp32", message_bytes=size, group_size=2)
        tensor = torch.zeros(size // 4)

        def ours(point: Point = point) -> float:
            with collectives.prepared(point, CPU) as call:
                clock = WallClock()

                def timed(count: int) -> float:
                    group.wait()
                    return clock.time_ns(call, count)

                budget = Budget(seconds=0.1, warmup_s=0.01, sample_ns=5e6)
                return take_samples(timed, budget, group.largest).median()

        def theirs(tensor: torch.Tensor = tensor) -> float:
            times = []
            for _ in range(10):
                dist.barrier()
                begin = time.perf_counter()
                for _ in range(10):
                    dist.all_reduce(tensor)
                times.append((time.perf_counter() - begin) / 10)
            return statistics.median(group.largest(times)) * 1e9

        name = f"all_reduce gloo {size} bytes"
        # Every rank measures; the first one prints.
        if rank == 0:
            good &= compare(name, ours, theirs, rounds, GLOO_LIMIT, is_noisy=True)
        else:
            for number in range(rounds):
                for measure in (ours, theirs) if number % 2 else (theirs, ours):
                    measure()
    dist.destroy_process_group()
    return good


def main() -> int:
    """Compare, and return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.folder is not None:
        torch.set_num_threads(1)
        return not all_reduce(int(os.environ["RANK"]), given.folder, given.rounds)
    torch.set_num_threads(given.threads)
    good = products(given.rounds, by_cpu_time=given.cpu_time)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [str(Path(__file__)), "--folder", name, "--rounds", str(given.rounds)]
        failure = run_ranks(words, 2, folder)
        sys.stdout.write((folder / "rank0.log").read_text())
    return not (good and failure is None)


if __name__ == "__main__":
    sys.exit(main())
