"""Traces, stores, and datasets in a bucket of a real S3 server match those on a disk."""

import os
from pathlib import Path

import pytest
from every_trace import REPO

import tracekit
from tracekit.errors import StoreError, TraceError
from tracekit.opening import ingest
from tracekit.storage import Location

pytestmark = [
    pytest.mark.nightly("starts an S3 server; test_locations.py has a smoke test"),
    pytest.mark.usefixtures("cache"),
]

SAMPLE = REPO / "sample_traces" / "pretrain_R+Z3"


def test_a_run_folder(cli, uploaded, keep_stores, cache):
    place = uploaded(SAMPLE)
    keep_stores(cache, SAMPLE)
    local = cli("breakdown", SAMPLE, "--format", "json")
    remote = cli("breakdown", place, "--format", "json")
    assert (local.exit_code, remote.exit_code, remote.stderr) == (0, 0, "")
    assert str(SAMPLE) in local.stdout
    assert remote.stdout.replace(str(place), str(SAMPLE)) == local.stdout
    # The second time, the cached store is used.
    assert cli("breakdown", place, "--format", "json").stdout == remote.stdout


def test_a_changed_object_is_read_again(ranks, uploaded):
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
    # The store of the old object is removed.
    assert not kept.exists()


def test_an_object_that_changes_while_it_is_read_is_no_mixture(bucket):
    file = bucket / "changing.bin"
    before, after = (os.urandom(24_000_000) for _ in range(2))
    file.write_bytes(before)
    with file.open() as stream:
        stream.read(10)
        Location.of(f"{file}").write_bytes(after)
        try:
            assert stream.read() == before[10:]
        except OSError as error:
            assert "changed" in str(error)  # noqa: PT017 (a store may keep the old object)


def test_cached_stores_are_private_and_hold_no_secret(ranks, uploaded, s3, cache):
    with tracekit.open(uploaded(ranks)) as trace:
        trace.breakdown()
        assert trace.store_path.stat().st_mode & 0o077 == 0
    contents = [file.read_bytes() for file in cache.rglob("*") if file.is_file()]
    assert not any(s3.secret.encode() in one or s3.key_id.encode() in one for one in contents)


def test_a_store_behind_a_url(ranks, uploaded, tmp_path, cache, cli):
    place = uploaded(ranks)
    store = tmp_path / "run.duckdb"
    assert cli("ingest", place, "-o", store).exit_code == 0
    with tracekit.open(store) as trace:
        local = trace.query("timeline").rows
    behind = place / "run.duckdb"
    behind.upload(store)
    for _ in range(2):
        with tracekit.open(behind) as trace:
            assert trace.query("timeline").rows == local
            assert trace.store_path.parent == cache
    with tracekit.open(behind, cache=False) as trace:
        assert trace.query("timeline").rows == local
        temporary = trace.store_path.parent
    assert temporary != cache
    assert not temporary.exists()


def test_a_store_larger_than_the_cache_is_refused(bucket, monkeypatch):
    (bucket / "run.duckdb").write_bytes(bytes(2_000_000))
    # The second limit is not reached, but the file is not a store.
    for limit in ("1000000", "3000000"):
        monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", limit)
        with pytest.raises(StoreError, match=r"\.duckdb"):
            tracekit.open(bucket / "run.duckdb")


def test_missing_objects(bucket, ranks, uploaded):
    place = uploaded(ranks)
    (bucket / "empty/readme.txt").write_bytes(b"")
    for path in (f"{bucket}/rank0.json", f"{bucket}/empty"):
        with pytest.raises(TraceError, match=path):
            tracekit.open(path)
    with pytest.raises(TraceError) as caught:
        tracekit.open(f"{place}/rank3.json.gz")
    assert "rank" in str(caught.value.hint)
    with pytest.raises(TraceError, match="no-such-bucket"):
        ingest(["s3://no-such-bucket-here/x.json"], Path("never.duckdb"))
    with pytest.raises(StoreError, match=r"nothing\.tracekit"):
        tracekit.open(bucket / "nothing.tracekit")


def test_a_dataset_is_closed_to_sql_and_to_wrong_credentials(
    cli, ranks, uploaded, bucket, s3, clients_anew
):
    remote = bucket / "run.tracekit"
    made = cli("ingest", ranks / "rank0.json.gz", "-o", remote, "--engine", "serial")
    assert made.exit_code == 0
    (bucket / "run.tracekit/other.csv").write_bytes(b"a\n1\n")
    for statement in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_csv('tracekit-dataset://other.csv')",
        f"SELECT * FROM read_csv('{remote}/other.csv')",
        "COPY (SELECT 1) TO 'tracekit-dataset://tables/x.parquet'",
    ):
        refused = cli("sql", remote, statement)
        assert (refused.exit_code, refused.stdout) == (5, ""), statement
        assert "Traceback" not in refused.stderr
    text = cli("sql", remote, "SELECT content FROM read_text('tracekit-dataset://manifest.json')")
    assert "recipe" not in text.stdout
    contents = [file.read_bytes() for file in (remote / "**").glob() if file.is_file()]
    wrong = {"AWS_SECRET_ACCESS_KEY": "falsch" * 5}
    for path, exit_code in ((remote, 4), (uploaded(ranks), 3)):
        with clients_anew():
            denied = cli("query", "timeline", path, env=wrong, is_here=True)
        (line,) = denied.stderr.splitlines()
        assert (denied.exit_code, denied.stdout, "AWS_*" in line) == (exit_code, "", True)
        contents.append(line.encode())
    for secret in (s3.secret, s3.key_id, "falsch", "X-Amz"):
        assert not any(secret.encode() in one for one in contents)
