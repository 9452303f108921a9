"""Measures how ingest, analyses, and commands scale with the size of unusual traces.

Each shape is created with sizes N and 4 N, and everything runs on both, in separate processes.
Linear work takes 4 times, and quadratic work 16 times, the CPU time. Ratios above 8 are listed, and
the exit code is then 1. The time for N counts as at least 0.1 s.

    .venv-dev/bin/python evaluations/benchmarks/bench_growth.py --count 1000 --shapes nested_modules
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "shared"))

from _shapes import SHAPES
from browse_by_keyboard import Screen, walk

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.cli._main import main as command
from tracekit.errors import TracekitError

TIMES = 4
ALLOWED = 8
MIN_S = 0.1
LIMIT_S = 240
"""Maximum CPU time of the process for one size, s."""
MEMORY_BYTES = 8 << 30


def write(folder: Path, shape: str, count: int) -> Path:
    """Write the trace files of a shape, one per rank; return the folder."""
    folder.mkdir()
    for rank, events in enumerate(SHAPES[shape](count)):
        info = {"rank": rank, "world_size": 2}
        document = {"distributedInfo": info, "traceEvents": events}
        (folder / f"rank{rank}.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def questions(base: Path, new: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield everything that is measured, with names."""
    holder: dict[str, Any] = {}

    def ingest() -> None:
        holder["trace"] = tracekit.open(base, cache=False)

    def analysis(name: str) -> Callable[[], object]:
        return lambda: holder["trace"].query(name).to_dicts() and None

    def called(*words: object) -> Callable[[], object]:
        return lambda: command([str(word) for word in words])

    yield "ingest", ingest
    for spec in load_catalog().analyses.values():
        if not any(param.is_required for param in spec.params) and spec.scope != "runs":
            yield spec.name, analysis(spec.name)
    yield "close", lambda: holder["trace"].close()  # noqa: PLW0108 (opened later)
    store = base.parent / "one.duckdb"
    yield "ingest command", called("ingest", base, "-o", store)
    first = new / "rank0.json"
    yield "breakdown", called("breakdown", store)
    yield "breakdown --full", called("breakdown", store, "--full")
    yield "breakdown json", called("breakdown", store, "--format", "json")
    yield "query modules", called("query", "modules", store)
    yield "health command", called("query", "health", store)
    yield "check", called("check", store, "--rule", "timeline.idle_pct >= 0")
    yield "compare with itself", called("compare", store, store)
    yield "compare", called("compare", store, new, "--no-cache")
    yield "query why", called("query", "why", store, "--event-id", "7")
    yield "query why --no-cache", called("query", "why", first, "--event-id", "7", "--no-cache")
    yield "report", called("report", store, "-o", base.parent / "report.html")
    yield "export", called("export", store, "-o", base.parent / "trace.pftrace")
    yield "browse", lambda: browse(store)


def browse(store: Path) -> None:
    """Navigate to the events, and to the last event."""

    async def steps(screen: Screen) -> None:
        for key in ("enter", "enter", "enter", "end", "escape", "down", "enter"):
            await screen.press(key)

    with tracekit.open(store) as trace:
        walk(trace, steps)


def ask(answers: Connection, shape: str, count: int) -> None:
    """Measure everything for one size; send each name with its CPU seconds."""
    limit_s = int(time.process_time()) + LIMIT_S
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    with tempfile.TemporaryDirectory(prefix="tk-growth-") as top:
        os.environ["TRACEKIT_CACHE_DIR"] = f"{top}/cache"
        base, new = Path(top, "base"), Path(top, "new")
        write(base, shape, count)
        other = f"{shape}:new" if f"{shape}:new" in SHAPES else shape
        write(new, other, count)
        for name, question in questions(base, new):
            answers.send((name, None))
            begin = time.process_time()
            outcome = ""
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()) as output,
            ):
                try:
                    code = question()
                    if code:
                        outcome = f"exit {code}: {output.getvalue()[-200:].strip()}"
                except TracekitError:
                    pass
                except Exception as error:  # noqa: BLE001
                    outcome = f"{type(error).__name__}: {error}"[:200]
            answers.send((name, (time.process_time() - begin, outcome)))


def measured(shape: str, count: int) -> dict[str, tuple[float, str]]:
    """Return the CPU seconds of each measurement; infinity if it did not end."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=ask, args=(theirs, shape, count))
    process.start()
    theirs.close()
    result: dict[str, tuple[float, str]] = {}
    with contextlib.suppress(EOFError):
        while True:
            name, cost = ours.recv()
            result[name] = cost or (float("inf"), "did not end")
    process.join()
    return result


def main() -> int:
    """Measure all shapes, and print excessive growth; return 1 if there is any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--shapes", nargs="+", default=[s for s in SHAPES if ":" not in s])
    parser.add_argument("--all", action="store_true", help="print all measurements")
    args = parser.parse_args()
    is_missed = False
    for shape in args.shapes:
        small, large = measured(shape, args.count), measured(shape, TIMES * args.count)
        whole = sum(seconds for seconds, _ in large.values())
        print(
            f"{shape}: {sum(seconds for seconds, _ in small.values()):.1f} s, {whole:.1f} s",
            flush=True,
        )
        for name, (seconds, outcome) in large.items():
            before_s, before = small.get(name, (0.0, ""))
            ratio = seconds / max(before_s, MIN_S)
            is_worse = ratio > ALLOWED
            is_missed |= is_worse
            if is_worse or args.all or outcome or before:
                note = before or outcome
                print(f"  {name:<24} {before_s:8.2f} s {seconds:8.2f} s {ratio:6.1f}  {note}")
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
