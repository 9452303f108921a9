"""Measures the analyses of many ranks for 64, 256, and 1,024 ranks.

    python evaluations/benchmarks/bench_ranks.py [--ranks 64,256,1024]

Runs are synthetic (made_runs.py), with tensor and pipeline sizes of 4 and a slow rank. Each is
ingested once, and then every analysis of many ranks runs on the store. Prints CPU seconds, and
whether the slow rank is named first.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path

from made_runs import Layout, make_run

import tracekit
from tracekit.analysis.breakdown import RANKS_BREAKDOWN

_SLOW = 13
_PER_MIB = 1024


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(ranks: int, folder: Path) -> None:
    """Create a run, and print the cost of its analyses."""
    layout = Layout(data=ranks // 16, tensor=4, pipeline=4)
    paths = make_run(folder, layout, microbatches=4, slow_ranks={_SLOW: 1.3})
    sizes = sum(path.stat().st_size for path in paths)
    began = cpu_s()
    with tracekit.open(folder, cache=False) as trace:
        out = [f"{ranks} ranks, {sizes / 1e6:.1f} MB: read in {cpu_s() - began:.2f} s"]
        for name in ("collective_skew", *RANKS_BREAKDOWN):
            began = cpu_s()
            result = trace.query(name)
            out.append(f"  {name:<18} {cpu_s() - began:6.2f} s  {len(result.rows):,} rows")
            if name == "stragglers":
                first = result.to_dicts()[0]["name"]
                out.append(f"    first named: {first}, which is {first == f'rank {_SLOW}'}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _PER_MIB
    sys.stdout.write("\n".join([*out, f"  peak memory so far {peak:,} MiB", ""]))


def main() -> None:
    """Measure all sizes in ascending order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="64,256,1024", help="numbers of ranks, multiples of 16")
    for ranks in map(int, parser.parse_args().ranks.split(",")):
        with tempfile.TemporaryDirectory() as name:
            measure(ranks, Path(name))


if __name__ == "__main__":
    main()
