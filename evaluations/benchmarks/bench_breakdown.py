"""Compares `tracekit breakdown` with HTA, and with only parsing the file.

    python bench_breakdown.py --hta-python ENV/bin/python [TRACE]

Figures are for complete processes, with the file in the page cache.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from _measure import Contestant, compete, verdict

HERE = Path(__file__).resolve().parent
TRACE = HERE.parents[2] / "shared" / "traces" / "tl_h100_owlv2_large.json.gz"
PARSE_ONLY = "import gzip, sys, orjson; orjson.loads(gzip.open(sys.argv[1]).read())"


def main() -> int:
    """Measure, print, and return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trace", type=Path, nargs="?", default=TRACE)
    parser.add_argument(
        "--hta-python", type=Path, help="interpreter that has HTA; default: without HTA"
    )
    parser.add_argument("--tracekit", default=Path(sys.executable).with_name("tracekit"))
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    cold = Contestant(
        "tracekit breakdown, cold", [args.tracekit, "breakdown", args.trace, "--no-cache"]
    )
    parse = Contestant("orjson.loads", [sys.executable, "-c", PARSE_ONLY, args.trace])
    contestants = [cold, parse]
    hta = None
    if args.hta_python:
        hta = Contestant("HTA", [args.hta_python, HERE / "_hta.py", args.trace])
        contestants.append(hta)
    compete(contestants, args.repeats)

    with tempfile.TemporaryDirectory() as cache:
        warm = Contestant(
            "tracekit breakdown, warm",
            [args.tracekit, "breakdown", args.trace],
            {"TRACEKIT_CACHE_DIR": cache},
        )
        shown_help = Contestant("tracekit --help", [args.tracekit, "--help"])
        compete([warm, shown_help], args.repeats)

    for contestant in [*contestants, warm, shown_help]:
        print(contestant.row())
    print()
    holds = []
    if hta:
        holds.append(verdict("time against HTA", cold.wall_s / hta.wall_s, 0.25))
        holds.append(verdict("memory against HTA", cold.peak_bytes / hta.peak_bytes, 0.6))
    holds.append(verdict("time against orjson.loads (aim: 1)", cold.wall_s / parse.wall_s, 1.3))
    holds.append(verdict("warm, s", warm.wall_s, 0.5))
    holds.append(verdict("--help, s", shown_help.wall_s, 0.15))
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
