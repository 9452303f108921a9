"""Files of measured peak rates: invalid lines, and dates; the rates are in tests/cases."""

import json

import pytest
from traces_by_hand import kernel

import tracekit
from tracekit.errors import UsageError
from tracekit.opening import points_of

GPU = {"device": "cuda:0", "device_name": "NVIDIA H100 80GB HBM3"}
SIZES = {"family": "gemm", "op": "mm", "dtype": "bf16", "m": 10, "n": 10, "k": 10}
FAST = {**SIZES, "median_ns": 1000.0}
INVALID_LINES = [
    *("", "no JSON", "[]", "7", "{}", '{"family": "gemm"}', "[" * 100_000),
    *(
        json.dumps(FAST | GPU | members)
        for members in ({"median_ns": -1}, {"m": -1}, {"m": 2**70}, {"m": "10"})
    ),
    *(json.dumps(FAST | GPU | {"device_name": name}) for name in (5, "x" * 10_000)),
    *(json.dumps(FAST | GPU).replace("1000.0", number) for number in ("NaN", "1e999")),
    '{"family": "\ud800"}'.encode("utf-8", "surrogatepass").decode("latin-1"),
]


def test_invalid_lines_are_skipped(make_bench, caplog):
    for number, line in enumerate(INVALID_LINES):
        with pytest.raises(UsageError, match=f"bench{number}"):
            points_of(make_bench(f"bench{number}", [line], **GPU))
    caplog.clear()
    bench = make_bench("b", [*INVALID_LINES, FAST], **GPU)
    assert len(points_of(bench)) == 1
    assert str(len(INVALID_LINES) - 1) in caplog.text


def test_the_date_of_a_run_comes_from_its_manifest(make_bench, tiny_trace):
    point = FAST | {"run_name": "forged", "measured_at": "2999-01-01T00:00:00+00:00"}
    for name, created_at, expected in (
        ("b", "2026-01-31T12:00:00+00:00", "2026-01-31T12:00:00+00:00"),
        # 11 p.m. in New York is the next day in UTC.
        ("n", "2026-01-31T23:00:00-05:00", "2026-02-01T04:00:00+00:00"),
        ("z", "2026-01-31T12:00:00", "2026-01-31T12:00:00+00:00"),
        ("c", None, None),
        ("d", "yesterday", None),
        ("e", "", None),
    ):
        bench = make_bench(name, [point], created_at=created_at, **GPU)
        [(_, origin, run_name, measured_at, *_)] = points_of(bench)
        assert (origin, run_name, measured_at) == ("given", name, expected)
    trace = tiny_trace([kernel("k", 0, 1)])
    with tracekit.open(trace, cache=False, peak_rates=bench) as opened:
        rows = opened.sql("SELECT measured_at, source FROM device_peak_rate").rows
    assert rows == [(None, "e: mm 10 × 10 × 10")]
