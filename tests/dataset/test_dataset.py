"""Datasets: their contents, readers, missing ranks, and errors while they are made."""

import errno
import json

import duckdb
import polars as pl
import pytest
from made_datasets import SERIAL, make, make_with_timeline
from run_of_ranks import write_ranks

import tracekit
import tracekit.schema
from tracekit.database.cache import clear_cache, list_cached
from tracekit.engine import dataset_writer, many_ranks, unit
from tracekit.errors import QueryError, StoreError, TraceError
from tracekit.opening import OpenRequest, open_request
from tracekit.storage.local import LocalLocation

HOSTILE = "it's [a] *dataset*? of\n„ranks“"


def test_duckdb_and_polars_read_the_files(dataset_of):
    dataset = dataset_of(3)
    query = (
        "SELECT rank, sum(dur_ns)::BIGINT FROM read_parquet(?) AS e "
        "JOIN read_parquet(?) AS t USING (trace_id) WHERE category = 'kernel' "
        "GROUP BY rank ORDER BY rank"
    )
    files = [f"{dataset}/tables/{table}/*.parquet" for table in ("record", "trace")]
    expected = [(0, 25_000), (1, 25_000), (2, 25_000)]
    assert duckdb.execute(query, files).fetchall() == expected
    records, traces = (pl.scan_parquet(name) for name in files)
    found = (
        records.join(traces, on="trace_id")
        .filter(pl.col("category") == "kernel")
        .group_by("rank")
        .agg(pl.col("dur_ns").sum())
        .sort("rank")
        .collect()
    )
    assert found.rows() == expected
    timeline = pl.read_parquet(f"{dataset}/analyses/timeline/*.parquet")
    with tracekit.open(dataset) as trace:
        assert timeline.drop("trace_id").rows() == trace.query("timeline").rows


def test_events_are_sorted_by_time(tmp_path):
    [file] = write_ranks(tmp_path / "run", 1)
    trace = json.loads(file.read_text(encoding="utf-8"))
    trace["traceEvents"].reverse()
    file.write_text(json.dumps(trace), encoding="utf-8")
    make_with_timeline(tmp_path / "run", tmp_path / "run.tracekit")
    [table] = tmp_path.glob("run.tracekit/tables/record/*.parquet")
    times = [at for (at,) in duckdb.sql(f"SELECT ts_ns FROM '{table}'").fetchall()]
    assert times == sorted(times)


def test_the_manifest_lists_all_files(dataset_of):
    dataset = dataset_of(3)
    manifest = json.loads((dataset / "manifest.json").read_bytes())
    assert [(t["trace_id"], t["rank"]) for t in manifest["traces"]] == [(0, 0), (1, 1), (2, 2)]
    listed = [file for files in manifest["tables"].values() for file in files]
    listed += manifest["analyses"].values()
    names = {file["name"] for file in listed}
    there = {str(file.relative_to(dataset)) for file in dataset.rglob("*") if file.is_file()}
    assert there == names | {"manifest.json"}
    for file in listed:
        place = dataset / file["name"]
        assert place.stat().st_size == file["size_bytes"]
        counted = duckdb.execute("SELECT count(*) FROM read_parquet(?)", [str(place)]).fetchone()
        assert counted == (file["row_count"],)


@pytest.mark.nightly("makes three datasets")
def test_an_unreadable_rank_is_listed_and_read_later(tmp_path, cli, monkeypatch):
    monkeypatch.setattr(many_ranks, "BREAKDOWN", ("timeline",))
    files = write_ranks(tmp_path / "run", 3)
    whole = files[2].read_bytes()
    files[2].write_bytes(b"no trace at all")
    dataset = tmp_path / "run.tracekit"
    arguments = ("ingest", tmp_path / "run", "-o", dataset, "--engine", "serial")
    done = cli(*map(str, arguments))
    assert done.exit_code == TraceError.exit_code
    assert done.stdout == ""
    assert f"{dataset}: 2 traces" in done.stderr
    assert f"  {files[2]}: " in done.stderr
    with tracekit.open(dataset) as trace:
        assert trace.query("timeline").column("rank") == [0, 1]
        [(place, _)] = trace.missing
        assert place == str(files[2])
        values = {row[1]: row[2] for row in trace.health() if row[0] == 1}
        assert values["missing_ranks"] == 1
    shown = cli("query", "timeline", str(dataset), "--format", "csv")
    assert shown.exit_code == 0
    assert str(files[2]) in shown.stderr

    files[2].write_bytes(whole)
    read = []
    make_batches = dataset_writer.make_batches

    def spied(ranks, *others):
        read.extend(rank.trace_id for rank in ranks)
        return make_batches(ranks, *others)

    monkeypatch.setattr(dataset_writer, "make_batches", spied)
    make(tmp_path)
    assert read == [2]
    with tracekit.open(dataset) as trace:
        assert trace.query("timeline").column("rank") == [0, 1, 2]
        assert trace.missing == ()
    with pytest.raises(StoreError, match=str(dataset)):
        make(tmp_path)


def test_no_readable_rank_is_an_error(tmp_path):
    for file in write_ranks(tmp_path / "run", 2):
        file.write_bytes(b"no trace at all")
    with pytest.raises(TraceError, match=r"rank0\.json"):
        make_with_timeline(tmp_path / "run", tmp_path / "run.tracekit")
    assert not (tmp_path / "run.tracekit/manifest.json").exists()


@pytest.mark.usefixtures("a_batch_each")
@pytest.mark.nightly("makes a dataset twice")
def test_a_full_disk_keeps_the_written_ranks(tmp_path, monkeypatch):
    write_ranks(tmp_path / "run", 3)
    upload = LocalLocation.upload

    def full(self, source):
        if self.name.startswith("000001"):
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        upload(self, source)

    with monkeypatch.context() as patched:
        patched.setattr(LocalLocation, "upload", full)
        manifest = make_with_timeline(tmp_path / "run", tmp_path / "run.tracekit")
    [missing] = manifest.missing
    assert missing.trace_id == 1
    assert missing.reason.startswith(f"{tmp_path / 'run.tracekit'}: ")
    again = make_with_timeline(tmp_path / "run", tmp_path / "run.tracekit")
    assert again.missing == []
    assert len(again.traces) == 3


@pytest.mark.parametrize(
    "is_by_duckdb", [False, pytest.param(True, marks=pytest.mark.nightly("another place to write"))]
)
def test_a_full_disk_is_not_the_fault_of_a_trace(is_by_duckdb, tmp_path, monkeypatch):
    """If nothing can be written, the error names the dataset."""
    first, *_ = write_ranks(tmp_path / "run", 3)
    first.write_text("{}")
    dataset = tmp_path / "run.tracekit"

    def full(*given):
        if is_by_duckdb:
            raise duckdb.IOException('IO Error: Could not write file "x": No space left on device')
        raise OSError(errno.ENOSPC, "No space left on device", str(given[0]))

    place, name = (unit.Worker, "_write") if is_by_duckdb else (LocalLocation, "upload")
    monkeypatch.setattr(place, name, full)
    with pytest.raises(StoreError, match="full") as raised:
        make_with_timeline(tmp_path / "run", dataset)
    assert "rank" not in raised.value.message
    if not is_by_duckdb:
        assert raised.value.message.startswith(f"{dataset}: ")


def test_one_of_two_writers_succeeds(tmp_path, monkeypatch):
    write_ranks(tmp_path / "run", 2)
    write = dataset_writer._write_manifest

    def overtaken(*arguments, **named):
        with monkeypatch.context() as patched:
            patched.setattr(dataset_writer, "_write_manifest", write)
            make_with_timeline(tmp_path / "run", tmp_path / "run.tracekit")
        write(*arguments, **named)

    monkeypatch.setattr(dataset_writer, "_write_manifest", overtaken)
    with pytest.raises(StoreError, match=r"run\.tracekit"):
        make_with_timeline(tmp_path / "run", tmp_path / "run.tracekit")
    with tracekit.open(tmp_path / "run.tracekit") as trace:
        assert trace.query("timeline").column("rank") == [0, 1]


def test_names_with_special_characters(tmp_path):
    folder = tmp_path / HOSTILE
    write_ranks(folder / "run", 2)
    (folder / "run/rank1.json").rename(folder / "run/it's [1] of rank1?.json")
    dataset = folder / f"{HOSTILE}.tracekit"
    make_with_timeline(folder / "run", dataset)
    with tracekit.open(dataset) as trace:
        assert trace.sql("SELECT count(*) FROM event").rows == [(14,)]
        assert trace.query("timeline").column("rank") == [0, 1]


def test_sql_reaches_only_the_files_of_the_dataset(tmp_path, dataset_of):
    dataset = dataset_of(3)
    before = sorted(dataset.rglob("*"))
    (tmp_path / "secret.csv").write_text("a\n1\n", encoding="utf-8")
    with tracekit.open(dataset) as trace:
        for statement in (
            f"COPY (SELECT 1) TO '{dataset}/x.parquet'",
            f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{dataset}/x.parquet'",
            f"PREPARE p AS COPY (SELECT 1) TO '{dataset}/x.parquet'",
            f"ATTACH '{dataset}/x.duckdb' AS x",
            f"EXPORT DATABASE '{dataset}/x'",
            f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
            f"SELECT * FROM read_text('{dataset}/../secret.csv')",
            "SET enable_external_access = TRUE",
        ):
            with pytest.raises(QueryError):
                trace.sql(statement)
    assert sorted(dataset.rglob("*")) == before


def test_a_breakdown_reads_the_stored_analyses(tmp_path, monkeypatch, dataset_of):
    write_ranks(tmp_path / "run")
    with tracekit.open(tmp_path / "run") as trace:
        expected = trace.breakdown()
        skew = trace.query("collective_skew")
    dataset = dataset_of(3)
    monkeypatch.setattr("tracekit.analysis.relations._Making._create", None)
    with tracekit.open(dataset) as trace:
        found = trace.breakdown()
        assert {name: result.rows for name, result in found.items() if name != "trace"} == {
            name: result.rows for name, result in expected.items() if name != "trace"
        }
        assert trace.query("collective_skew") == skew
    # Analyses that it does not show are not read.
    for folder in (dataset / "analyses").iterdir():
        if folder.name not in expected:
            [file] = folder.iterdir()
            file.write_bytes(b"")
    with tracekit.open(dataset) as trace:
        assert trace.breakdown() == found
        with pytest.raises(StoreError, match="damaged"):
            trace.query("split")


@pytest.mark.nightly("makes a dataset for one look at its manifest")
def test_a_dataset_of_one_trace_has_no_analyses_of_several(dataset_of):
    manifest = json.loads((dataset_of(1) / "manifest.json").read_text(encoding="utf-8"))
    assert "module_totals" in manifest["analyses"]
    assert not {"rank_summary", "rank_waits", "waits"} & set(manifest["analyses"])


def test_the_cache_lists_and_clears_datasets(tmp_path, monkeypatch):
    monkeypatch.setattr(many_ranks, "BREAKDOWN", ("timeline",))
    files = write_ranks(tmp_path / "run", 2)
    with open_request(OpenRequest([tmp_path / "run"], engine=SERIAL)) as trace:
        place = trace.store_path
    [cached] = list_cached()
    assert str(files[0]) in cached.source_path
    assert cached.size_bytes > 1000
    assert clear_cache() == 1
    assert not place.exists()


def test_a_dataset_of_another_version_is_opened_with_a_warning(dataset_of, caplog):
    dataset = dataset_of(3)
    tracekit.open(dataset).close()
    assert not caplog.records
    manifest = dataset / "manifest.json"
    written = json.loads(manifest.read_text("utf-8"))
    manifest.write_text(json.dumps(written | {"made_by": "other code"}), "utf-8")
    tracekit.open(dataset).close()
    (record,) = caplog.records
    assert str(dataset) in record.getMessage()
