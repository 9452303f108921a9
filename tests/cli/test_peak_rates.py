"""The option --peak-rates."""

import pytest
from traces_by_hand import kernel

NAME = "NVIDIA H100 80GB HBM3"
COPY = {
    "family": "memcpy",
    "op": "d2d",
    "message_bytes": 2000,
    "median_ns": 10_000.0,
    "device": "cuda:0",
    "device_name": NAME,
}


@pytest.fixture
def trace(tiny_trace):
    """Return a trace of one copy of 1,000 bytes in 10 us on an H100."""
    copy = kernel("Memcpy DtoD (Device -> Device)", 0, 10, 1, bytes=1000)
    return tiny_trace([copy], deviceProperties=[{"id": 0, "name": NAME}])


@pytest.mark.nightly("runs every command")
def test_every_command_takes_them(cli, trace, make_bench):
    bench = make_bench("bench", [COPY])
    for given in (bench, bench / "benchmarks.jsonl"):
        (row,) = cli("query", "memcpy", trace, "--peak-rates", given, "--format", "json").json()
        assert row["measured_peak_pct"] == pytest.approx(50)
        assert row["measured_peak_source"] == "bench, 2026-01-31: d2d, 2,000 bytes"
    found = cli("breakdown", trace, "--peak-rates", bench, "--format", "json").json()
    assert found["memcpy"] == [row]
    statement = "SELECT device, kind, op, bytes_per_s, origin, reason FROM device_peak_rate"
    asked = cli("sql", trace, statement, "--peak-rates", bench, "--format", "json").json()
    assert asked == [
        {
            "device": "*",
            "kind": "copy",
            "op": "d2d",
            "bytes_per_s": pytest.approx(2e8),
            "origin": "given",
            "reason": None,
        }
    ]
    assert cli("sql", trace, statement, "--format", "json").json() == []
    for suffix in (".duckdb", ".tracekit"):
        # A dataset holds the rows of the analysis without it.
        store = trace.with_suffix(suffix)
        assert cli("ingest", trace, "-o", store).exit_code == 0
        (found,) = cli("query", "memcpy", store, "--peak-rates", bench, "--format", "json").json()
        assert found == row
        (found,) = cli("query", "memcpy", store, "--format", "json").json()
        assert found["measured_peak_pct"] is None
    # Analyses of runs do not need devices, but a wrong file is still reported.
    refused = cli("query", "methods", trace.parent, "--peak-rates", trace)
    assert refused.exit_code == 2


def test_files_without_peak_rates_are_refused(cli, trace, make_bench):
    failed = make_bench("failed", [COPY | {"outcome": "oom"}])
    for given in (failed, trace.parent, trace, trace.parent / "missing"):
        done = cli("query", "memcpy", trace, "--peak-rates", given)
        assert (done.exit_code, done.stdout) == (2, "")
        error, hint = done.stderr.splitlines()
        assert error.startswith(f"error: {given}: ")
        assert hint.startswith("hint: ")
