"""`make predictions`: records A, predicts B from A's trace, and compares with a run of B.

    make predictions ARGS="[--only TEXT] [--rounds N] [--steps N] [--out FILE]"

Each pair is one program (one process per rank) that alternates between windows of A and B. For
serving, runs alternate. Predictions use no data of B. Hanging child processes are ended.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from msgspec.structs import asdict, replace

from . import serving
from .page import Row, filled
from .pairs import PAIRS, Pair

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "explanation" / "predictions.md"
CHILD_S = 300
ATTEMPTS, OTHERS_S = 4, 0.5
# If glibc returns memory to the system, or cannot reuse it for large aligned tensors, page faults
# take 2 ms per 4 MB in random runs. These settings avoid that and give large tensors huge pages.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "THP_MEM_ALLOC_ENABLE": "1",
}
_LOG = logging.getLogger("predictions")


class HungError(RuntimeError):
    """A child process exceeded its time limit."""


def run_all(commands: Sequence[tuple[list[str], dict[str, str]]], log: Path) -> None:
    """Run commands concurrently, each with additional environment variables.

    Raises:
        RuntimeError: a command failed.
        HungError: a command took too long, and all were ended.
    """
    children = []
    deadline = time.monotonic() + CHILD_S
    with log.open("ab") as out:
        try:
            for command, more in commands:
                environ = os.environ | _ENVIRONMENT | more
                children.append(
                    subprocess.Popen(
                        command, env=environ, stdout=out, stderr=out, start_new_session=True
                    )
                )
            for child in children:
                child.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired as error:
            raise HungError(f"a process still ran after {CHILD_S} s") from error
        finally:
            for child in children:
                # The process group includes loader workers and ranks of a collector.
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, 9)
                child.wait()
    if any(child.returncode for child in children):
        raise RuntimeError(log.read_text("utf-8")[-2000:])


def record(pair: Pair, folder: Path, rounds: int, steps: int) -> None:
    """Record both loops of a pair alternately: a0, b0, a1, b1, and so on."""
    if pair.is_collected:
        for number in range(rounds):
            for name, options in (("a", pair.a), ("b", pair.b)):
                out = ["--out", str(folder / f"{name}{number}"), "--profile-steps", str(steps)]
                more = [word for option in options.items() for word in map(str, option)]
                command = [sys.executable, "-m", "tracekit", "collect", *out, *more]
                run_all([(command, {})], folder / "log")
        return
    description = folder / "pair.json"
    description.write_text(
        json.dumps({"a": pair.a, "b": pair.b, "c": pair.c, "rounds": rounds, "steps": steps}),
        "utf-8",
    )
    command = [sys.executable, str(HERE / pair.script), str(description), str(folder)]
    ranks = [{"RANK": str(rank), "WORLD_SIZE": str(pair.ranks)} for rank in range(pair.ranks)]
    run_all([(command, rank) for rank in ranks], folder / "log")


def measured(pair: Pair, rounds: int, steps: int) -> Row:
    """Return prediction and measurement of a pair."""
    import tracekit
    from tracekit.errors import QueryError, UsageError

    if pair.why_not:
        return Row(pair.name, reason=pair.why_not)
    row = Row(pair.name, "; ".join(pair.changes), is_null=pair.is_null)
    with tempfile.TemporaryDirectory(prefix="tracekit-pair-") as name:
        folder = Path(name)
        record(pair, folder, min(rounds, 3) if pair.is_collected else rounds, steps)
        before, predicted, low, high, after = [], [], [], [], []
        for number in range(len(list(folder.glob("a*")))):
            with ExitStack() as opened:
                trace, *further = (
                    opened.enter_context(tracekit.open(folder / f"{name}{number}", cache=False))
                    for name in ("a", *("c" * bool(pair.c)))
                )
                try:
                    result = trace.predict(*pair.changes, further=further, is_recorded=True)
                except (QueryError, UsageError) as error:
                    return replace(row, reason=str(error))
            if result.predicted_ns is None:
                return replace(row, reason=result.reason)
            before.append(result.recorded_ns / steps)
            predicted.append(result.predicted_ns / steps)
            low.append(result.low_ns / steps)
            high.append(result.high_ns / steps)
            with tracekit.open(folder / f"b{number}", cache=False) as trace:
                after.append(trace.predict("host x1").recorded_ns / steps)
    median = statistics.median
    noises = [abs(new / old - 1) for old, new in pairwise(before)]
    return replace(
        row,
        before_ms=median(before) / 1e6,
        predicted_ms=median(predicted) / 1e6,
        low_ms=median(low) / 1e6,
        high_ms=median(high) / 1e6,
        after_ms=median(after) / 1e6,
        noise_pct=100 * median(noises) if noises else 0.0,
    )


def serve(folder: Path, options: Mapping[str, Any]) -> None:
    """Record a serving run without a profile, unless it exists.

    If other programs used much of the machine, the run is repeated a few times, and the least
    disturbed run is used.
    """
    if folder.exists():
        return
    more = [str(word) for option in options.items() for word in option]
    command = [sys.executable, "-m", "tracekit", "collect", "--stage", "serve", "--no-profile"]
    least_s = float("inf")
    for number in range(ATTEMPTS):
        attempt = folder.with_name(f"{folder.name}.{number}")
        before_s = _others_s()
        run_all([([*command, "--out", str(attempt), *more], {})], folder.with_suffix(".log"))
        others_s = _others_s() - before_s
        if others_s < least_s:
            least_s = others_s
            shutil.rmtree(folder, ignore_errors=True)
            attempt.rename(folder)
        shutil.rmtree(attempt, ignore_errors=True)
        if others_s < OTHERS_S:
            break


def _others_s() -> float:
    """Return the CPU time of all other processes, without children, s."""
    took = psutil.cpu_times()
    own = os.times()
    return took.user + took.system + took.nice - sum(own[:4])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the pairs and update the page."""
    parser = argparse.ArgumentParser(prog="make predictions")
    parser.add_argument("--only", default="", help="text in the names of pairs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--keep", type=Path, help="folder of serving runs to reuse")
    parser.add_argument("--rows", type=Path, help="JSON file for the rows")
    parsed = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rows = []
    for pair in PAIRS:
        if parsed.only not in pair.name:
            continue
        began = time.monotonic()
        try:
            rows.append(measured(pair, parsed.rounds, parsed.steps))
        except HungError as error:
            rows.append(Row(pair.name, "; ".join(pair.changes), reason=str(error)))
        _LOG.info("%s  (%.0f s)", rows[-1].line(), time.monotonic() - began)
    if parsed.rows is not None:
        parsed.rows.write_text(json.dumps([asdict(row) for row in rows]), "utf-8")
    if rows:
        text = parsed.out.read_text("utf-8")
        parsed.out.write_text(filled(text, rows, parsed.rounds, parsed.steps), "utf-8")
    loads = [pair for pair in serving.PAIRS if parsed.only in f"serving: {pair.name}"]
    with tempfile.TemporaryDirectory(prefix="tracekit-pairs-") as name:
        folder = parsed.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        folders = serving.recorded(loads, folder, parsed.rounds, serve)
        served = [serving.measured(pair, folders) for pair in loads]
    for load in served:
        _LOG.info("%s", load.line())
    if served:
        text = parsed.out.read_text("utf-8")
        parsed.out.write_text(serving.filled(text, served, parsed.rounds), "utf-8")


if __name__ == "__main__":
    main()
