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


@pytest.mark.parametrize(
    ("variable", "value", "command"),
    [
        ("AWS_SECRET_ACCESS_KEY", "falsch/falsch/falsch/falsch", "breakdown {}/rank0.json.gz"),
        ("AWS_ACCESS_KEY_ID", "AKIAFALSCHFALSCH", "query timeline {}"),
        ("AWS_ACCESS_KEY_ID", "", "ingest {}/*.gz -o run.duckdb"),
    ],
)
def test_wrong_credentials_are_one_line_without_a_secret(
    cli, uploaded, ranks, s3, clients_anew, variable, value, command
):
    place = uploaded(ranks)
    with clients_anew():
        done = cli(*command.format(place).split(), env={variable: value}, is_here=True)
    assert (done.exit_code, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {place}")
    assert "AWS_*" in line
    for secret in (s3.secret, s3.key_id, value or "Signature", "Signature", "X-Amz"):
        assert secret not in line.replace("(SignatureDoesNotMatch)", "")


def test_a_dataset(cli, ranks, uploaded, bucket, tmp_path, s3, clients_anew):
    (ranks / "rank2.json.gz").write_bytes(b"no trace")
    place, remote, local = uploaded(ranks), bucket / "run.tracekit", tmp_path / "run.tracekit"
    for source, target in ((place, remote), (ranks, local)):
        made = cli("ingest", source, "-o", target, "--engine", "serial")
        # One rank is unreadable; the others are read.
        assert made.exit_code == 3
        assert "rank2.json.gz" in made.stderr
    records = [
        file.read_bytes()
        for folder in (Location.of(local), remote)
        for file in (folder / "tables/record/*").glob()
    ]
    assert records[0] == records[1]
    statement = "SELECT rank, count(*) FROM event JOIN trace USING (trace_id) GROUP BY 1 ORDER BY 1"
    for before, after in ((["query", "timeline"], []), (["sql"], [statement])):
        answers = [cli(*before, one, *after, "--format", "json") for one in (remote, local)]
        assert [answer.exit_code for answer in answers] == [0, 0]
        assert answers[0].stdout == answers[1].stdout
    contents = [file.read_bytes() for file in (remote / "**").glob() if file.is_file()]
    assert not any(s3.secret.encode() in one or s3.key_id.encode() in one for one in contents)
    # Another dataset does not replace it.
    again = cli("ingest", f"{place}/rank0.json.gz", "-o", remote, "--engine", "serial")
    assert again.exit_code == 4
    wrong = {"AWS_SECRET_ACCESS_KEY": "falsch" * 5}
    with clients_anew():
        denied = cli("query", "timeline", remote, env=wrong, is_here=True)
    assert (denied.exit_code, len(denied.stderr.splitlines())) == (4, 1)


def test_sql_reaches_only_the_files_of_the_dataset(cli, ranks, bucket):
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
