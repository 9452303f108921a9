"""A trace in a bucket of a real S3 server gives what the same trace on a disk gives."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from s3_server import S3Server
from traces_by_hand import call, kernel

import tracekit
from tracekit.errors import StoreError, TraceError
from tracekit.opening import ingest
from tracekit.storage import Location

Upload = Callable[[Path], Location]
SAMPLE = Path(__file__).resolve().parents[2] / "sample_traces" / "pretrain_R+Z3"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def ranks(tiny_trace: Callable[..., Path], tmp_path: Path) -> Path:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in (0, 1, 10, 2):
        events = [call(10, 12, 1), kernel("gemm", 20, 30 + rank, 1)]
        top: dict[str, Any] = {"distributedInfo": {"rank": rank, "world_size": 11}}
        path = tiny_trace(events, f"rank{rank}.json.gz", **top)
        shutil.move(path, folder / path.name)
    return folder


def test_a_run_folder_is_the_same(
    cli: Callable[..., Any],
    run_here: Callable[..., Any],
    uploaded: Upload,
    keep_stores: Callable[..., None],
    own_cache: Path,
) -> None:
    place = uploaded(SAMPLE)
    keep_stores(own_cache, SAMPLE)
    local = run_here("breakdown", SAMPLE, "--format", "json")
    remote = cli("breakdown", place, "--format", "json")
    assert (remote.exit_code, remote.stderr) == (0, "")
    assert local.exit_code == 0
    ours, theirs = local.json(), remote.json()
    # Only where it lies differs.
    assert str(SAMPLE) in local.stdout
    assert remote.stdout.replace(str(place), str(SAMPLE)) == local.stdout
    assert ours.keys() == theirs.keys()
    # Kept, it is not read again.
    again = cli("breakdown", place, "--format", "json")
    assert again.stdout == remote.stdout


def test_globs_folders_and_files_mean_the_same_traces(ranks: Path, uploaded: Upload) -> None:
    place = uploaded(ranks)
    question = "SELECT file_name, rank, path FROM trace ORDER BY trace_id"
    with tracekit.open(place) as trace:
        rows = trace.sql(question).rows
    assert rows == [(f"rank{n}.json.gz", n, f"{place}/rank{n}.json.gz") for n in (0, 1, 2, 10)]
    with tracekit.open(f"{place}/rank[01]*.json.gz") as trace:
        assert [row[1] for row in trace.sql(question).rows] == [0, 1, 10]
    with tracekit.open(f"{place}/rank2.json.gz", ranks / "rank1.json.gz") as trace:
        assert [row[1] for row in trace.sql(question).rows] == [2, 1]


def test_a_changed_object_is_read_again(ranks: Path, uploaded: Upload) -> None:
    place = uploaded(ranks) / "rank0.json.gz"
    with tracekit.open(place) as trace:
        before = trace.sql("SELECT rank FROM trace").rows
        kept = trace.store_path
    with tracekit.open(place) as trace:
        assert trace.store_path == kept
    place.upload(ranks / "rank10.json.gz")
    with tracekit.open(str(place)) as trace:
        assert trace.store_path != kept
        assert (before, trace.sql("SELECT rank FROM trace").rows) == ([(0,)], [(10,)])
    # The store of what is no more went.
    assert kept is not None
    assert not kept.exists()


def test_what_is_kept_of_a_url_is_for_this_user_alone(ranks: Path, uploaded: Upload) -> None:
    with tracekit.open(uploaded(ranks)) as trace:
        assert trace.store_path is not None
        assert trace.store_path.stat().st_mode & 0o077 == 0


def test_a_store_is_made_of_a_url_and_read_behind_one(
    ranks: Path, uploaded: Upload, tmp_path: Path, own_cache: Path, cli: Callable[..., Any]
) -> None:
    place = uploaded(ranks)
    store = tmp_path / "run.duckdb"
    made = cli("ingest", place, "-o", store)
    assert (made.exit_code, "4 traces, 8 events" in made.stderr) == (0, True)
    with tracekit.open(store) as trace:
        local = trace.query("timeline").rows
    behind = place / "run.duckdb"
    behind.upload(store)
    with tracekit.open(behind) as trace:
        assert trace.query("timeline").rows == local
        fetched = trace.store_path
    assert fetched is not None
    assert fetched.parent == own_cache
    with tracekit.open(behind) as trace:
        assert trace.store_path == fetched
    with tracekit.open(behind, cache=False) as trace:
        assert trace.query("timeline").rows == local
        assert trace.store_path is not None
        passing = trace.store_path
        assert passing.parent != own_cache
    assert not passing.parent.exists()


def test_a_store_that_the_cache_could_not_hold_is_refused(
    bucket: Location, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    (bucket / "run.duckdb").write_bytes(bytes(2_000_000))
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", "1000000")
    with pytest.raises(StoreError, match="a cache that may hold 1"):
        tracekit.open(bucket / "run.duckdb")
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", "3000000")
    with pytest.raises(StoreError, match="not a store"):
        tracekit.open(bucket / "run.duckdb")


def test_what_is_not_there_is_one_sentence(bucket: Location, ranks: Path, uploaded: Upload) -> None:
    with pytest.raises(TraceError, match=r"rank0\.json: no such file or folder"):
        tracekit.open(f"{bucket}/rank0.json")
    place = uploaded(ranks)
    with pytest.raises(TraceError) as caught:
        tracekit.open(f"{place}/rank3.json.gz")
    assert "did you mean rank" in str(caught.value.hint)
    (bucket / "empty/readme.txt").write_bytes(b"")
    with pytest.raises(TraceError, match="there is no trace in this folder"):
        tracekit.open(f"{bucket}/empty")
    with pytest.raises(TraceError, match=r"no such bucket|no such file"):
        ingest(["s3://no-such-bucket-here/x.json"], Path("never.duckdb"))


@pytest.mark.parametrize(
    ("variable", "value", "command"),
    [
        ("AWS_SECRET_ACCESS_KEY", "falsch/falsch/falsch/falsch", "breakdown {}/rank0.json.gz"),
        ("AWS_ACCESS_KEY_ID", "AKIAFALSCHFALSCH", "query timeline {}"),
        ("AWS_ACCESS_KEY_ID", "", "ingest {}/*.gz -o run.duckdb"),
    ],
)
def test_wrong_credentials_are_one_sentence_that_shows_none(
    cli: Callable[..., Any],
    run_here: Callable[..., Any],
    uploaded: Upload,
    ranks: Path,
    s3: S3Server,
    variable: str,
    value: str,
    command: str,
) -> None:
    place = uploaded(ranks)
    run = cli if command.startswith("breakdown") else run_here
    done = run(*command.format(place).split(), env={variable: value})
    assert (done.exit_code, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {place}")
    assert "access is denied" in line
    assert "AWS_*" in line
    for secret in (s3.secret, s3.key_id, value or "Signature", "Signature", "X-Amz"):
        assert secret not in line.replace("(SignatureDoesNotMatch)", "")


def test_no_secret_is_kept_in_a_store(
    uploaded: Upload, ranks: Path, s3: S3Server, own_cache: Path
) -> None:
    with tracekit.open(uploaded(ranks)) as trace:
        trace.breakdown()
    for file in own_cache.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert s3.secret.encode() not in content
            assert s3.key_id.encode() not in content


def test_without_the_extra_one_sentence_says_how_to_get_it(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "fsspec.py").write_text("raise ImportError('hidden')\n", encoding="utf-8")
    done = cli("breakdown", "s3://bucket/rank0.json", env={"PYTHONPATH": str(hidden)})
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: s3://bucket/rank0.json: what reads URLs is not installed",
        "hint: install it with: pip install 'tracekit-llm[remote]'",
    ]
