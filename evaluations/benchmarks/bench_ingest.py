"""Measures `tracekit ingest` on large traces: speed, and whether peak memory depends on file size.

    python bench_ingest.py [TRACE]

make_trace.py creates the large traces from TRACE, in a temporary folder or, for later runs, in
--dir.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from _measure import Cost, measure, verdict

HERE = Path(__file__).resolve().parent
TRACE = HERE.parents[2] / "shared" / "traces" / "tl_h100_owlv2_large.json.gz"


def ingest(tracekit: Path, trace: Path, folder: Path, repeats: int) -> Cost:
    """Ingest a trace several times; return the best time and the highest peak."""
    store = folder / "bench.duckdb"
    costs = []
    for _ in range(repeats):
        store.unlink(missing_ok=True)
        costs.append(measure([tracekit, "ingest", trace, "-o", store], tree=True))
    store.unlink(missing_ok=True)
    return Cost(min(c.wall_s for c in costs), max(c.peak_bytes for c in costs))


def main() -> int:
    """Measure, print, and return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trace", type=Path, nargs="?", default=TRACE)
    parser.add_argument(
        "--gb", type=float, nargs="+", default=[1.0, 2.0], help="sizes of the JSON text"
    )
    parser.add_argument("--gz", action="store_true", help="compressed traces")
    parser.add_argument("--dir", type=Path, help="folder to create and keep the large traces in")
    parser.add_argument("--tracekit", type=Path, default=Path(sys.executable).with_name("tracekit"))
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()

    holds = []
    peaks = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.dir or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for gb in args.gb:
            trace = folder / f"{args.trace.name.partition('.')[0]}_{gb:g}gb.json{'.gz' * args.gz}"
            if not trace.exists():
                maker = [sys.executable, HERE / "make_trace.py", args.trace, trace]
                measure([*maker, "--gb", str(gb)])
            cost = ingest(args.tracekit, trace, folder, args.repeats)
            # The text size of a compressed file is unknown; it is at least the requested size.
            text_bytes = gb * 1e9 if args.gz else trace.stat().st_size
            speed = text_bytes / 1e6 / cost.wall_s
            print(
                f"{trace.name:<40} {cost.wall_s:8.2f} s {speed:8.1f} MB/s "
                f"{cost.peak_bytes / 1e6:8.1f} MB"
            )
            holds.append(verdict("MB of JSON per s (aim: 200)", speed, 120, at_least=True))
            holds.append(verdict("peak memory, MB", cost.peak_bytes / 1e6, 500))
            peaks.append(cost.peak_bytes)
            if not args.dir:
                trace.unlink()
    holds.append(verdict("largest peak / smallest peak", max(peaks) / min(peaks), 1.1))
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
