"""A dataset in a bucket of a real S3 server: written there from there, and asked where it lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from s3_server import S3Server
from traces_by_hand import call, kernel

import tracekit
from tracekit.dataset.remote_files import BLOCK_BYTES, _Blocks, _File
from tracekit.errors import StoreError
from tracekit.storage import Location

Upload = Callable[[Path], Location]


@pytest.fixture
def ranks(tiny_trace: Callable[..., Path], tmp_path: Path) -> Path:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(3):
        events = [
            event
            for step in range(20)
            for event in (
                call(100 * step, 100 * step + 2, step + 1),
                kernel("gemm", 100 * step + 10, 100 * step + 50 + rank, step + 1),
            )
        ]
        top: dict[str, Any] = {"distributedInfo": {"rank": rank, "world_size": 3}}
        tiny_trace(events, f"rank{rank}.json.gz", **top).rename(folder / f"rank{rank}.json.gz")
    (folder / "rank2.json.gz").write_bytes(b"no trace")
    return folder


def test_a_dataset_is_the_same_in_a_bucket(
    cli: Callable[..., Any],
    run_here: Callable[..., Any],
    ranks: Path,
    uploaded: Upload,
    bucket: Location,
    tmp_path: Path,
    s3: S3Server,
) -> None:
    place, remote, local = uploaded(ranks), bucket / "run.tracekit", tmp_path / "run.tracekit"
    for source, target in ((place, remote), (ranks, local)):
        run = cli if source is place else run_here
        made = run("ingest", source, "-o", target, "--engine", "serial")
        # One rank cannot be read: the others are there, and it is said.
        assert made.exit_code == 3
        assert "2 traces" in made.stderr
        assert "rank2.json.gz" in made.stderr
    # What both hold is the same, byte for byte, but for where traces and dataset lie.
    ours = {file.name: file for file in Location.of(local).files()}
    theirs = {file.name: file for file in remote.files()}
    assert {name for name in ours if "trace" not in name and not name.endswith(".json")}
    record = next(name for name in theirs if theirs[name].parent.name == "record")
    assert theirs[record].read_bytes() == next(
        file.read_bytes() for file in ours.values() if file.parent.name == "record"
    )
    statement = "SELECT rank, count(*) FROM event JOIN trace USING (trace_id) GROUP BY 1 ORDER BY 1"
    for run, before, behind in (
        (cli, ["query", "timeline"], []),
        (run_here, ["query", "kernels"], []),
        (run_here, ["sql"], [statement]),
    ):
        answers = [
            one(*before, dataset, *behind, "--format", "json")
            for one, dataset in ((run, remote), (run_here, local))
        ]
        assert [answer.exit_code for answer in answers] == [0, 0]
        assert answers[0].stdout == answers[1].stdout
    for file in remote.files():
        content = file.read_bytes()
        assert s3.secret.encode() not in content
        assert s3.key_id.encode() not in content
    # What would be another dataset does not take its place: only what is missing is done again.
    again = run_here("ingest", f"{place}/rank0.json.gz", "-o", remote, "--engine", "serial")
    assert again.exit_code == 4
    assert "exists already" in again.stderr
    # Whoever may not read it gets one sentence.
    denied = cli("query", "timeline", remote, env={"AWS_SECRET_ACCESS_KEY": "falsch" * 5})
    assert denied.exit_code == 4
    assert len(denied.stderr.splitlines()) == 1
    assert "access is denied" in denied.stderr


def test_sql_reaches_nothing_but_the_files_of_the_dataset(
    run_here: Callable[..., Any], ranks: Path, bucket: Location
) -> None:
    remote = bucket / "run.tracekit"
    made = run_here("ingest", ranks / "rank0.json.gz", "-o", remote, "--engine", "serial")
    assert made.exit_code == 0
    (bucket / "run.tracekit/other.csv").write_bytes(b"a\n1\n")
    for statement in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_csv('tracekit-dataset://other.csv')",
        f"SELECT * FROM read_csv('{remote}/other.csv')",
        "COPY (SELECT 1) TO 'tracekit-dataset://tables/x.parquet'",
    ):
        refused = run_here("sql", remote, statement)
        assert (refused.exit_code, refused.stdout) == (5, ""), statement
        assert "Traceback" not in refused.stderr
    # The manifest is none of the files that tables are of.
    whole = "SELECT content FROM read_text('tracekit-dataset://manifest.json')"
    text = run_here("sql", remote, whole)
    assert "recipe" not in text.stdout


def test_there_is_none(bucket: Location) -> None:
    with pytest.raises(StoreError, match="there is no dataset here"):
        tracekit.open(bucket / "nothing.tracekit")


def test_pieces_are_what_the_file_holds(bucket: Location) -> None:
    content = bytes(range(256)) * (BLOCK_BYTES // 64)
    (bucket / "a").write_bytes(content)
    file = _File(_Blocks(bucket, {"a": len(content)}), "a", len(content))
    for start, size in ((0, 4), (BLOCK_BYTES - 2, 5), (5, 3 * BLOCK_BYTES), (len(content) - 8, 99)):
        assert file.seek(start) == start
        assert file.read(size) == content[start : start + size]
    assert file.seek(-8, 2) == len(content) - 8
    assert file.read() == content[-8:]
    assert file.read(5) == b""
