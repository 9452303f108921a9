"""Measures the load at which the serving client becomes the bottleneck.

    python evaluations/benchmarks/bench_client.py [--requests 1000] [--tokens 64]

A burst of requests goes to a server in another process that computes nothing. First, it answers
immediately, which shows the client's limit. Then it sends one token per request and gap, like an
engine. Events contain their write time, which shows the delay of each token (socket, event loop,
client). The delay of requests is measured, too. On a busy machine, only the client's CPU time per
token is meaningful.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tracekit.collectors.serving.engines.lightllm import LightLlm
from tracekit.collectors.serving.http.client import HttpClient
from tracekit.collectors.serving.http.dialect import Event
from tracekit.collectors.serving.http.engine import raise_file_limit
from tracekit.collectors.serving.http.generator import LoadGenerator
from tracekit.collectors.serving.plan import LoadPlan, LoadProgress, LoadResult, Prompt

SERVER = Path(__file__).with_name("_at_once_server.py")
GAPS_S = (0.0, 0.2, 0.1, 0.05, 0.025)


class Stamped(LightLlm):
    """LightLLM's protocol, with a record of the server's timestamps."""

    def __init__(self) -> None:
        super().__init__()
        self.written_ns: dict[int, list[int]] = {}
        self.received_ns: dict[int, int] = {}

    def event(self, payload: bytes) -> Event:
        value = json.loads(payload)
        self.written_ns.setdefault(value["request"], []).append(value["written_ns"])
        self.received_ns[value["request"]] = value["received_ns"]
        return super().event(payload)


def nothing(state: LoadProgress) -> None:
    del state


def measure(request_count: int, token_count: int, gap_s: float) -> list[str]:
    """Return one row: rates, CPU load of the client, and token delays."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "port"
        words = [sys.executable, str(SERVER), str(port_file), str(token_count), str(gap_s)]
        server = subprocess.Popen(words)
        try:
            while not port_file.exists():
                time.sleep(0.02)
            url = f"http://127.0.0.1:{port_file.read_text()}"
            dialect = Stamped()
            # The first id of a prompt identifies the request.
            prompts = [Prompt(512, [index, *range(1, 512)]) for index in range(request_count)]
            plan = LoadPlan(prompts, [0] * request_count, token_count)
            result: LoadResult = LoadGenerator(dialect, HttpClient(url), plan, nothing).run()
        finally:
            server.kill()
            server.wait()
    return row(result, dialect, request_count, token_count, gap_s)


def row(
    result: LoadResult,
    dialect: Stamped,
    request_count: int,
    token_count: int,
    gap_s: float,
) -> list[str]:
    good = [record for record in result.records if record.outcome == "ok"]
    tokens = sum(record.output_token_count for record in good)
    assert tokens == request_count * token_count, result.records[0]
    # Records are relative to the start of the load; servers and clients share perf_counter_ns.
    origin_ns = result.start_unix_ns - time.time_ns() + time.perf_counter_ns()
    delays = []
    for record in good:
        pairs = zip(record.token_ns, dialect.written_ns[record.request_id], strict=True)
        delays += [origin_ns + at_ns - written_ns for at_ns, written_ns in pairs]
    sends = [
        dialect.received_ns[record.request_id] - origin_ns - (record.sent_ns or 0)
        for record in good
    ]
    wall_s = result.wall_ns / 1e9
    client: dict[str, Any] = result.extra["client"]
    return [
        "at once" if not gap_s else f"{gap_s * 1e3:.0f} ms",
        f"{request_count / wall_s:,.0f}",
        f"{tokens / wall_s:,.0f}",
        f"{client['cpu_pct']:.0f} %",
        f"{client['cpu_pct'] / 100 * wall_s / tokens * 1e6:.1f} µs",
        f"{client['loop_lag_p99_ns'] / 1e6:.1f} ms",
        *percentiles(sends),
        *percentiles(delays),
    ]


def percentiles(delays_ns: list[int]) -> list[str]:
    ordered = sorted(delays_ns)
    return [f"{ordered[len(ordered) * pct // 100] / 1e6:.1f} ms" for pct in (50, 99)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=64)
    given = parser.parse_args()
    raise_file_limit(given.requests)
    head = ["token gap", "requests/s", "tokens/s", "client CPU", "a token", "loop lag p99"]
    rows = [[*head, *(f"{what} delay {p}" for what in ("send", "token") for p in ("p50", "p99"))]]
    rows += [measure(given.requests, given.tokens, gap_s) for gap_s in GAPS_S]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print(f"{given.requests} requests in one burst, 512 tokens in, {given.tokens} out")
    for cells in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)))


if __name__ == "__main__":
    main()
