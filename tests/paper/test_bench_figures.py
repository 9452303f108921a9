"""Figures 11 to 15: what the text says of their curves, and our points of the same ones."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracekit.cli._main import main
from tracekit.errors import UsageError
from tracekit.paper.bench_figures import BENCH_FIGURES
from tracekit.paper.tables import find_table

MakeRun = Callable[..., Path]


def point(number: int, family: str, op: str, **members: Any) -> dict[str, Any]:
    times = {"median_ns": 1e6, "low_ns": 9e5, "high_ns": 1.1e6, "outcome": "ok"}
    device = {"device": "cuda:0", "device_name": "NVIDIA A100-SXM4-80GB", "timer": "cuda_event"}
    return {"bench_id": number, "family": family, "op": op, **times, **device, **members}


def product(number: int, m: int, n: int, k: int, series: str | None, **more: Any) -> dict[str, Any]:
    sizes = {"dtype": "bf16", "m": m, "n": n, "k": k, "series": series, "op": "mm"} | more
    return point(number, "gemm", sizes.pop("op"), **sizes)


@pytest.fixture
def run(make_run: MakeRun) -> str:
    sized = {"group_size": 8, "backend": "nccl", "dtype": "fp32"}
    lines = [
        product(0, 4096, 11008, 4096, "N11008_K4096"),
        product(1, 4608, 11008, 4096, "N11008_K4096"),
        product(2, 4109, 11008, 4096, "unaligned_N11008_K4096"),
        product(3, 64, 512, 512, "N512_K512"),
        product(4, 4096, 4096, 4096, "grouped", op="grouped_mm", batch=8),
        product(5, 4096, 4096, 4096, "llama2-7b/output"),
        point(6, "memcpy", "h2d", memory="pinned", message_bytes=1024),
        point(7, "memcpy", "d2d", message_bytes=1024),
        point(8, "collective", "all_gather", message_bytes=4096, **sized),
        point(9, "collective", "all_gather", message_bytes=8192, **sized),
        point(10, "collective", "reduce", message_bytes=4096, **sized),
        point(11, "collective", "all_reduce", message_bytes=4096, **sized),
    ]
    return str(make_run("ours", benchmarks=lines, stage="bench", engine="torch"))


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["paper", *arguments, "--no-cache"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", BENCH_FIGURES)
def test_no_figure_has_numbers_that_the_text_does_not_have(name: str) -> None:
    table = find_table(name)
    unknown = {"peak_pct", "latency_ms", "bandwidth_gb_per_s"}
    for row in table.rows:
        assert {row[column] for column in unknown & row.keys()} == {None}
    assert "picture" in table.notes[0]
    assert table.source == f"arXiv 2311.03687v2, text on Figure {name.removeprefix('figure')}"


def test_our_points_of_figure_11(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(asked(capsys, "figure11", run, "--format", "csv"))))
    assert [(row["curve"], row["is_curve_of_paper"], row["m"]) for row in rows] == [
        ("N11008_K4096", "true", "4096"),
        ("N11008_K4096", "true", "4608"),
        ("unaligned_N11008_K4096", "true", "4109"),
        ("N512_K512", "false", "64"),
    ]
    # 2 * 4096 * 11008 * 4096 operations in a millisecond, of 312 TFLOP/s.
    assert float(rows[0]["peak_pct"]) == pytest.approx(100 * 2 * 4096 * 11008 * 4096 / 312e9)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("figure12", ["h2d"]),
        ("figure13", ["all_gather", "all_gather"]),
        ("figure14", []),
        ("figure15", ["all_gather", "all_gather", "reduce"]),
    ],
)
def test_our_points_of_the_others(
    run: str, capsys: pytest.CaptureFixture[str], name: str, expected: list[str]
) -> None:
    rows = json.loads(asked(capsys, name, run, "--format", "json"))
    assert [row["curve"] for row in rows] == expected
    assert all(row["is_curve_of_paper"] for row in rows)
    assert asked(capsys, name, run, "--format", "markdown").startswith("## Microbenchmark: ")


def test_platforms_of_figure_13(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = asked(capsys, "figure13", run, "--platform", "RTX3090 w/ NVLink")
    assert "w/o NVLink" not in out
    with pytest.raises(UsageError, match="figure13 has no platform 'H100'"):
        find_table("figure13").to_result("H100")


def test_runs_without_points_are_refused(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", "figure13", str(make_run("train")), "--no-cache"]) == 5
    assert "bench_collectives is about microbenchmarks" in capsys.readouterr().err
