"""The option --ceilings, and what `tracekit cache` does with remembered ceilings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
MakeBench = Callable[..., Path]

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
def trace(tiny_trace: Callable[..., Path]) -> Path:
    """Return a trace of one copy of 1,000 bytes in 10 us on an H100."""
    args = {"device": 0, "stream": 7, "correlation": 1, "bytes": 1000}
    copy = {
        "ph": "X",
        "cat": "gpu_memcpy",
        "name": "Memcpy DtoD (Device -> Device)",
        "pid": 0,
        "tid": 7,
        "ts": 0,
        "dur": 10,
        "args": args,
    }
    return tiny_trace([copy], deviceProperties=[{"id": 0, "name": NAME}])


def test_every_command_takes_them(cli: Cli, trace: Path, make_bench: MakeBench) -> None:
    bench = make_bench("bench", [COPY])
    for given in (bench, bench / "benchmarks.jsonl"):
        (row,) = cli("query", "memcpy", trace, "--ceilings", given, "--format", "json").json()
        assert row["ceiling_pct"] == pytest.approx(50)
        assert row["ceiling_source"] == "bench, 2026-01-31: d2d, 2,000 bytes"
    found = cli("breakdown", trace, "--ceilings", bench, "--format", "json").json()
    assert found["memcpy"] == [row]
    statement = "SELECT device, kind, op, bytes_per_s, origin, reason FROM device_ceiling"
    asked = cli("sql", trace, statement, "--ceilings", bench, "--format", "json").json()
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
    store = trace.with_suffix(".duckdb")
    assert cli("ingest", trace, "-o", store).exit_code == 0
    (of_store,) = cli("query", "memcpy", store, "--ceilings", bench, "--format", "json").json()
    assert of_store == row
    # A question about runs is not about devices; a wrong file is told all the same.
    refused = cli("query", "methods", trace.parent, "--ceilings", trace)
    assert refused.exit_code == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing", None, "the ceilings cannot be read: No such file or directory"),
        ("no.jsonl", "x\n", "nothing in it is a point that tracekit bench measured"),
        ("empty.jsonl", "", "nothing in it is a point that tracekit bench measured"),
        (
            "failed.jsonl",
            json.dumps(COPY | {"outcome": "oom"}) + "\n",
            "nothing that was measured in it is a ceiling",
        ),
    ],
)
def test_a_wrong_file_is_one_sentence(
    cli: Cli, trace: Path, tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    for command in (("query", "memcpy"), ("breakdown",), ("sql",)):
        more = ("SELECT 1",) if command == ("sql",) else ()
        done = cli(*command, trace, *more, "--ceilings", path)
        assert (done.exit_code, done.stdout) == (2, "")
        first, *rest = done.stderr.splitlines()
        assert first == f"error: {path}: {message}"
        assert len(rest) <= 1


def test_a_folder_without_a_result_says_what_it_lacks(cli: Cli, trace: Path) -> None:
    done = cli("query", "memcpy", trace, "--ceilings", trace.parent)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"error: {trace.parent}: there is no benchmarks.jsonl in this folder",
        "hint: give the folder of a run of tracekit bench",
    ]


def test_hostile_texts_are_shown_as_text(cli: Cli, trace: Path, make_bench: MakeBench) -> None:
    bench = make_bench("b\x1b[31m\nd", [COPY | {"memory": "[bold]\x1b[2J"}])
    for shown in ("table", "markdown"):
        done = cli("query", "memcpy", trace, "--ceilings", bench, "--format", shown)
        assert done.exit_code == 0
        assert "\x1b" not in done.stdout
        assert "50.0" in done.stdout
    done = cli("query", "memcpy", trace, "--ceilings", bench, env={"COLUMNS": "200"})
    assert "measured: b\\x1b[31m\\nd, 2026-01-31: d2d [bold]\\x1b[2J, 2,000 bytes" in done.stdout
    other = make_bench("c", [COPY | {"device_name": "\x1b[31mX"}])
    done = cli("query", "memcpy", trace, "--ceilings", other, env={"COLUMNS": "200"})
    assert f"the ceilings given are of \\x1b[31mX, this is {NAME}" in done.stdout
    assert "\x1b" not in done.stdout


def test_the_cache_lists_ceilings_and_keeps_them_until_asked(
    cli: Cli, trace: Path, make_bench: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracekit.analysis.ceilings import remember

    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))
    bench = make_bench("bench", [COPY])
    assert remember(bench) == [NAME]
    (row,) = cli("query", "memcpy", trace, "--format", "json").json()
    assert row["ceiling_pct"] == pytest.approx(50)
    listed = cli("cache", "list", "--format", "json").json()
    assert [(entry["source_path"], entry["holds"]) for entry in listed] == [
        (str(trace), "store"),
        (str(bench), f"ceilings of {NAME}"),
    ]
    cleared = cli("cache", "clear")
    assert cleared.exit_code == 0
    assert cleared.stderr.splitlines() == [
        f"removed 1 cached store from {tmp_path / 'cache'}",
        "kept the ceilings of 1 device; --ceilings removes them too",
    ]
    (row,) = cli("query", "memcpy", trace, "--format", "json").json()
    assert row["ceiling_pct"] == pytest.approx(50)
    cleared = cli("cache", "clear", "--ceilings")
    assert cleared.stderr.splitlines()[-1] == "removed the ceilings of 1 device"
    # The store of the trace was kept; what was measured is none of it.
    (row,) = cli("query", "memcpy", trace, "--format", "json").json()
    assert (row["ceiling_pct"], row["bandwidth_bytes_per_s"]) == (None, pytest.approx(1e8))


def test_the_prompt_knows_the_table(cli: Cli, trace: Path) -> None:
    shown = cli("sql", trace, stdin="SELECT count(*) AS n FROM device_ceiling", env={})
    assert shown.exit_code == 0
    described = cli("sql", trace, "DESCRIBE device_ceiling", "--format", "json").json()
    assert [row["column_name"] for row in described][:3] == ["trace_id", "device", "device_name"]
    assert "device_ceiling" in cli("sql", trace, "SHOW TABLES", "--format", "csv").stdout.split()
