"""Many ranks from object storage: by a loop, by local processes, by Ray.

A run is made up, put into a bucket of a real S3 server on the loopback interface, and read into a
dataset in the same bucket by each engine; then a breakdown is asked of the finished dataset. Time
is that of whole processes, also of the processor, as the machine may be shared (of Ray without what
its daemons take); memory is the share (PSS) of each process of the engine, summed at the worst
moment, and the largest alone.

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
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "shared"))

import s3_server
from made_runs import Layout, Step, make_run

from tracekit.storage import Location

BREAKDOWN_S = 3.0
"""The bar for a breakdown of 1,024 ranks from the finished dataset, seconds."""

_SAMPLE_S = 0.25
_UPLOADS = 8


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took: seconds, those of the processor, and memory, bytes."""

    wall_s: float
    cpu_s: float
    all_bytes: int
    largest_bytes: int
    exit_code: int


def measure(command: Sequence[str], env: dict[str, str]) -> Cost:
    """Run a command to its end, and sample the memory of it and of all that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    # What it starts may leave it (Ray's daemons do), but not its session's environment.
    mark = f"TRACEKIT_BENCH={os.getpid()}-{begin}"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        command, env={**os.environ, **env, name: value}, stdout=subprocess.DEVNULL
    )
    most = [0, 0]
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(_SAMPLE_S):
            found = _shares_bytes(mark.encode())
            most[0] = max(most[0], sum(found))
            most[1] = max(most[1], *found, 0)

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
    """Return the proportional share of memory of each process whose environment has a mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes():
                text = (folder / "smaps_rollup").read_text(encoding="ascii")
                (line,) = [line for line in text.splitlines() if line.startswith("Pss:")]
                found.append(int(line.split()[1]) << 10)
        except (OSError, ValueError):
            continue
    return found


def upload(folder: Path, place: Location) -> tuple[int, int]:
    """Put the files of a run into a bucket; return how many and how large."""
    files = sorted(folder.iterdir())
    with ThreadPoolExecutor(_UPLOADS) as pool:
        list(pool.map(lambda file: (place / file.name).upload(file), files))
    return len(files), sum(file.stat().st_size for file in files)


def main() -> int:
    """Measure; print a line for each engine and number of ranks; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--steps", type=int, default=100, help="of a rank: about 9 kB of text each")
    parser.add_argument("--engines", nargs="+", default=["serial", "processes", "ray"])
    asked = parser.parse_args()
    tracekit = str(Path(sys.executable).with_name("tracekit"))
    is_missed = False
    with (
        tempfile.TemporaryDirectory(prefix="tk-scale-") as top,
        s3_server.serving(Path(top, "s3")) as s3,
    ):
        os.environ.update(s3.environment)
        env = {"TRACEKIT_CACHE_DIR": f"{top}/cache"}
        for rank_count in asked.ranks:
            folder = Path(top, f"run{rank_count}")
            made = make_run(
                folder, Layout(data=rank_count), Step(steps=asked.steps), is_compressed=True
            )
            del made
            place = Location.of(f"s3://tracekit-scale/run{rank_count}")
            count, size_bytes = upload(folder, place)
            print(f"{count} ranks, {size_bytes / 1e6:.1f} MB packed", flush=True)
            for engine in asked.engines:
                dataset = f"s3://tracekit-scale/{engine}{rank_count}.tracekit"
                command = [tracekit, "ingest", str(place), "-o", dataset, "--engine", engine]
                cost = measure(command, env)
                files = Location.of(dataset).files()
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
