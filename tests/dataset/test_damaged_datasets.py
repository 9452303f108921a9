"""Datasets with damaged files, and of other versions."""

import json
import os
import shutil
from pathlib import Path

import duckdb
import pytest
from made_datasets import SERIAL
from run_of_ranks import write_ranks

import tracekit
import tracekit.schema
from tracekit.analysis.query_errors import store_error
from tracekit.dataset.layout import FORMAT_VERSION
from tracekit.engine import many_ranks
from tracekit.errors import StoreError
from tracekit.opening import OpenRequest, open_request


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"format": "other"}, "manifest"),
        ({"schema_version": 1}, "schema 1"),
        ({"format_version": 4}, "version 4"),
        ({"format_version": 1}, "version 1"),
        ({"format_version": "3"}, "version 3"),
        *(({"tables": tables}, "manifest") for tables in ({"trace": [3]}, 3, {"trace": 3})),
        *(
            (name, "name")
            for name in (
                "../../etc/x.parquet",
                "tables/device/x.parquet",
                "tables/trace/x*.parquet",
            )
        ),
    ],
)
def test_invalid_manifests_are_refused(tmp_path, change, word):
    dataset = tmp_path / "run.tracekit"
    dataset.mkdir()
    file = {"size_bytes": 1, "sha256": "0", "row_count": 1}
    manifest = {
        "format": "tracekit dataset",
        "format_version": FORMAT_VERSION,
        "schema_version": tracekit.schema.SCHEMA_VERSION,
        "recipe": "r",
        "tracekit_version": "0",
        **{key: [] for key in ("traces", "missing", "shards")},
        **{key: {} for key in ("tables", "analyses")},
    }
    tables = {"trace": [file | {"name": change}]}
    manifest |= change if isinstance(change, dict) else {"tables": tables}
    (dataset / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(StoreError, match=word):
        tracekit.open(dataset)


def test_a_changed_or_truncated_file_is_reported(tmp_path, dataset_of):
    dataset = dataset_of(3)
    [file] = dataset.glob("analyses/timeline/*.parquet")
    with duckdb.connect() as own:
        changed = own.read_parquet(str(file)).project("* REPLACE (compute_ns + 1 AS compute_ns)")
        changed.write_parquet(str(tmp_path / "new"))
    for content in ((tmp_path / "new").read_bytes(), file.read_bytes()[:-30]):
        file.write_bytes(content)
        with tracekit.open(dataset) as trace, pytest.raises(StoreError, match="damaged"):
            trace.query("timeline")


@pytest.mark.parametrize("place", [range(1000, 2000), range(4000, 12000)])
def test_a_damaged_page_is_reported(tmp_path, place):
    """Pages are read on demand, after the dataset was opened."""
    file = tmp_path / "table.parquet"
    with duckdb.connect() as own:
        rows = own.sql("SELECT 'kernel ' || range AS a FROM range(20_000)")
        rows.write_parquet(str(file), compression="zstd")
    damaged = bytearray(file.read_bytes())
    for at in place:
        damaged[at] ^= 0xFF
    file.write_bytes(damaged)
    with duckdb.connect() as own, pytest.raises(duckdb.Error) as raised:
        own.sql(f"SELECT sum(length(a)) FROM '{file}'").fetchall()
    assert "damaged" in str(store_error("gemms", raised.value))


@pytest.mark.nightly("makes a dataset twice")
def test_a_damaged_cached_dataset_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(many_ranks, "BREAKDOWN", ("timeline", "modules"))
    write_ranks(tmp_path / "run", 2)
    with open_request(OpenRequest([tmp_path / "run"], engine=SERIAL)) as trace:
        place = trace.store_path
        expected = trace.query("modules")
    [file] = place.glob("analyses/modules/*.parquet")
    file.write_bytes(b"")
    with open_request(OpenRequest([tmp_path / "run"], engine=SERIAL)) as trace:
        assert trace.query("modules") == expected
    assert file.stat().st_size > 0


def test_special_files_and_impossible_rows_are_refused(tmp_path, dataset_of):
    dataset = Path(shutil.copytree(dataset_of(3), tmp_path / "copy.tracekit"))
    [file] = dataset.glob("tables/trace/*.parquet")
    kept = file.rename(tmp_path / "kept.parquet")
    for make in (os.mkfifo, lambda path: Path(path).symlink_to(kept)):
        make(file)
        with pytest.raises(StoreError, match="not a regular file"):
            tracekit.open(dataset)
        file.unlink()
    with duckdb.connect() as own:
        own.read_parquet(str(kept)).project("* REPLACE (1::INTEGER AS trace_id)").write_parquet(
            str(file)
        )
    with pytest.raises(StoreError, match="trace has several rows"):
        tracekit.open(dataset)
