"""Measures many ranks in object storage with each engine: in-process, local processes, and Ray.

A synthetic run is uploaded to a local S3 server. Each engine reads it into a dataset in the same
bucket, followed by a breakdown of the dataset. Times are wall and CPU times of complete processes,
without Ray's daemons. Memory is the proportional set size (PSS) of the engine's processes: the peak
sum, and the largest process.

    .venv-dev/bin/python evaluations/benchmarks/bench_scale.py --ranks 64 256 1024
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "shared"))

import s3_server
from made_runs import Layout, make_run

from tracekit.storage import Location

BREAKDOWN_S = 3.0
"""Limit for a breakdown of 1,024 ranks from the finished dataset, s."""

_SAMPLE_S = 0.25
_UPLOADS = 8


class Cost(Struct, frozen=True):
    """Wall and CPU seconds of a command, and its memory in bytes."""

    wall_s: float
    cpu_s: float
    all_bytes: int
    largest_bytes: int
    exit_code: int


def measure(command: Sequence[str], env: dict[str, str]) -> Cost:
    """Run a command to its end, and sample the memory of its process tree."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    # Processes may leave the process tree, like Ray's daemons, but inherit the environment.
    mark = f"TRACEKIT_BENCH={os.getpid()}-{begin}"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        command, env={**os.environ, **env, name: value}, stdout=subprocess.DEVNULL
    )
    most = [0, 0]
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(_SAMPLE_S):
            result = _shares_bytes(mark.encode())
            most[0] = max(most[0], sum(result))
            most[1] = max(most[1], *result, 0)

    sampler = threading.Thread(target=sample)
    sampler.start()
    exit_code = process.wait()
    wall_s = time.perf_counter() - begin
    is_over.set()
    sampler.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall_s, cpu_s, most[0], most[1], exit_code)


def _shares_bytes(mark: bytes) -> list[int]:
    """Return the proportional set size of each process whose environment contains a mark."""
    results = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes():
                text = (folder / "smaps_rollup").read_text(encoding="ascii")
                (line,) = [line for line in text.splitlines() if line.startswith("Pss:")]
                results.append(int(line.split()[1]) << 10)
        except (OSError, ValueError):
            continue
    return results


def upload(folder: Path, place: Location) -> tuple[int, int]:
    """Upload the files of a run to a bucket; return their number and size."""
    files = sorted(folder.iterdir())
    with ThreadPoolExecutor(_UPLOADS) as pool:
        list(pool.map(lambda file: (place / file.name).upload(file), files))
    return len(files), sum(file.stat().st_size for file in files)


def main() -> int:
    """Measure, and print a line per engine and number of ranks; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument(
        "--steps", type=int, default=100, help="steps per rank: about 9 kB of text each"
    )
    parser.add_argument("--engines", nargs="+", default=["serial", "processes", "ray"])
    args = parser.parse_args()
    tracekit = str(Path(sys.executable).with_name("tracekit"))
    is_missed = False
    with (
        tempfile.TemporaryDirectory(prefix="tk-scale-") as top,
        s3_server.serving(Path(top, "s3")) as s3,
    ):
        os.environ.update(s3.environment)
        env = {"TRACEKIT_CACHE_DIR": f"{top}/cache"}
        for rank_count in args.ranks:
            folder = Path(top, f"run{rank_count}")
            make_run(folder, Layout(data=rank_count), steps=args.steps, is_compressed=True)
            place = Location.of(f"s3://tracekit-scale/run{rank_count}")
            count, size_bytes = upload(folder, place)
            print(f"{count} ranks, {size_bytes / 1e6:.1f} MB packed", flush=True)
            for engine in args.engines:
                dataset = f"s3://tracekit-scale/{engine}{rank_count}.tracekit"
                command = [tracekit, "ingest", str(place), "-o", dataset, "--engine", engine]
                cost = measure(command, env)
                below = (Location.of(dataset) / "**").glob()
                files = [file for file in below if file.is_file()]
                dataset_bytes = sum(file.size_bytes() or 0 for file in files)
                print(
                    f"  {engine:<10} {cost.wall_s:7.1f} s, processor {cost.cpu_s:6.1f} s, "
                    f"all {cost.all_bytes / 1e6:7.1f} MB, "
                    f"largest {cost.largest_bytes / 1e6:6.1f} MB, "
                    f"dataset {dataset_bytes / 1e6:.1f} MB in {len(files)} files"
                    + (f", exit code {cost.exit_code}" if cost.exit_code else ""),
                    flush=True,
                )
            asking = measure([tracekit, "breakdown", dataset], env)
            is_missed |= rank_count >= 1024 and asking.wall_s > BREAKDOWN_S
            print(
                f"  breakdown  {asking.wall_s:7.1f} s, processor {asking.cpu_s:6.1f} s, "
                f"all {asking.all_bytes / 1e6:7.1f} MB  (bar {BREAKDOWN_S} s for 1,024 ranks)",
                flush=True,
            )
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
