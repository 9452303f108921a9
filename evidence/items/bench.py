"""`tracekit bench all`: what the machine can really do."""

from __future__ import annotations

import json
from collections import Counter

from evidence._commands import tracekit
from evidence._records import Record, SkippedError
from evidence._setting import Setting

_QUERIES = ("bench_gemm", "bench_memcpy", "bench_collectives", "bench_launches")


def run(setting: Setting, record: Record) -> None:
    """Measure, and ask for each family."""
    folder = setting.runs_folder / "bench"
    with record.case("bench all") as case:
        if tracekit(setting, "bench", "--help").exit_code != 0:
            raise SkippedError("this tracekit has no command `bench`")
        done = tracekit(setting, "bench", "all", "--out", folder)
        case.claim("it ends well", done.exit_code == 0, done.last_words, "exit code 0")
        lines = (folder / "benchmarks.jsonl").read_text("utf-8").splitlines()
        points = [json.loads(line) for line in lines]
        outcomes = Counter(f"{point['family']} {point['outcome']}" for point in points)
        case.figure(points=dict(outcomes))
        wrong = [point for point in points if point["outcome"] == "failed"]
        case.claim("no point failed", not wrong, [point["reason"] for point in wrong[:5]])
    for name in _QUERIES:
        with record.case(f"query {name}") as case:
            if not folder.is_dir():
                raise SkippedError("there is no run")
            done = tracekit(setting, "query", name, folder, "--format", "markdown")
            case.claim("it ends well", done.exit_code == 0, done.last_words, "exit code 0")
            case.text(f"tracekit query {name}", done.stdout)
