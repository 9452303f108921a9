"""What comes back: traces cut to whole steps, in few files of bounded size."""

from __future__ import annotations

import gzip
import json
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest

import tracekit
from evidence._bring_back import Bounds, bring_back
from evidence._trim import trim

REPO = Path(__file__).resolve().parents[2]


def step(number: int, at: float) -> list[dict[str, Any]]:
    """Return a step of 100 µs: an op, its launch, its kernel, which ends after the step."""
    common = {"ph": "X", "pid": 1, "tid": 1}
    device = {"ph": "X", "pid": 0, "tid": 7}
    number += 1  # 0 is no correlation
    link = {"correlation": number}
    return [
        {
            **common,
            "cat": "user_annotation",
            "name": f"tk/step/{number - 1}",
            "ts": at,
            "dur": 100.0,
        },
        {**common, "cat": "cpu_op", "name": "aten::mm", "ts": at + 10, "dur": 20.0},
        {
            **common,
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": at + 15,
            "dur": 5.0,
            "args": link,
        },
        {"ph": "s", "id": number, "pid": 1, "tid": 1, "ts": at + 15, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": number, "pid": 0, "tid": 7, "ts": at + 90, "cat": "ac2g", "name": "ac2g"},
        {
            **device,
            "cat": "kernel",
            "name": "gemm",
            "ts": at + 90,
            "dur": 30.0,
            "args": {**link, "device": 0, "stream": 7},
        },
    ]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of three steps, in an order of its own, with numbers no double holds."""
    events = [event for number in range(3) for event in step(number, 1000.0 + 100 * number)]
    random.Random(0).shuffle(events)
    meta = {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}
    texts = ",\n".join(json.dumps(event) for event in [meta, *events])
    long = texts.replace('"ts": 1010.0', '"ts": 1010.12345678901234567')
    path = tmp_path / "rank0.json.gz"
    whole = '{"schemaVersion": 1, "traceEvents": [\n' + long + '\n], "traceName": "a ] b" }'
    path.write_bytes(gzip.compress(whole.encode()))
    return path


def test_whole_steps_are_kept_with_what_they_launched(trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "cut.json.gz"
    assert trim(trace, target, 1)
    text = gzip.decompress(target.read_bytes()).decode()
    assert '"ts": 1010.12345678901234567' in text
    content = json.loads(text)
    assert content["tracekit_trimmed"] == "the first 1 of 3 steps"
    assert content["traceName"] == "a ] b"
    names = sorted(event["name"] for event in content["traceEvents"])
    assert names == [
        *("ac2g", "ac2g", "aten::mm", "cudaLaunchKernel", "gemm", "process_name", "tk/step/0"),
    ]
    with tracekit.open(target, cache=False) as opened:
        (timeline,) = opened.query("timeline").to_dicts()
        health = {row["metric"]: row["value"] for row in opened.health().to_dicts()}
    assert timeline["window_ns"] == timeline["compute_ns"] == 30_000
    assert health["device_time_linked"] == 100


def test_what_has_no_more_steps_is_left_as_it_is(trace: Path, tmp_path: Path) -> None:
    assert not trim(trace, tmp_path / "cut.json.gz", 3)
    assert not (tmp_path / "cut.json.gz").exists()


def test_a_real_trace_is_cut(tmp_path: Path) -> None:
    source = REPO / "sample_traces" / "pretrain_Naive" / "rank0.json.gz"
    target = tmp_path / "rank0.json.gz"
    assert trim(source, target, 1)
    assert target.stat().st_size < 0.7 * source.stat().st_size
    with tracekit.open(source) as whole, tracekit.open(target, cache=False) as cut:
        steps, first = (one.query("steps").to_dicts() for one in (whole, cut))
        assert [row["step"] for row in first] == [steps[0]["step"]]
        assert first[0]["dur_ns"] == steps[0]["dur_ns"]
        (row,) = cut.query("timeline").to_dicts()
        health = {one["metric"]: one for one in cut.health().to_dicts()}
    assert row["window_ns"] == row["busy_ns"] + row["idle_ns"]
    assert health["rejected"]["value"] == 0
    assert health["truncated"]["value"] == 0


def test_files_keep_to_their_bounds(tmp_path: Path) -> None:
    runs, logs, out = tmp_path / "runs", tmp_path / "logs", tmp_path / "out"
    for folder in (logs, out):
        folder.mkdir()
    (logs / "item.log").write_text("begin" + "x" * 1_000_000 + "end")
    noise = random.Random(0)
    for number in range(6):
        folder = runs / f"run{number}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        # Nothing to cut: it is no trace at all, but as large as one.
        (folder / "rank0.json.gz").write_bytes(noise.randbytes(400_000))
    left = bring_back(runs, logs, out, "part1", Bounds(file_count=3, file_bytes=1_000_000))
    files = {path.name: path.stat().st_size for path in out.iterdir()}
    assert sorted(files) == ["part1-logs.tar.gz", "part1-runs-1.tar.gz", "part1-runs-2.tar.gz"]
    assert max(files.values()) <= 1_000_000
    with tarfile.open(out / "part1-logs.tar.gz") as archive:
        names = archive.getnames()
        log = archive.extractfile("logs/item.log")
        assert log is not None
        text = log.read().decode()
    # The figures of every run come back, the traces of the first.
    assert [f"runs/run{number}/run.json" in names for number in range(6)] == [True] * 6
    assert text.startswith("begin")
    assert text.endswith("end")
    assert len(text) < 300_000
    kept = []
    for number in (1, 2):
        with tarfile.open(out / f"part1-runs-{number}.tar.gz") as archive:
            kept += [name for name in archive.getnames() if name.endswith(".gz")]
    assert kept == [f"runs/run{number}/rank0.json.gz" for number in range(4)]
    unread = [text for text in left if "could not be cut" in text]
    missing = [text for text in left if "its trace" in text]
    assert (len(unread), len(missing)) == (6, 2)
