"""Datasets with files that are damaged, or of another version."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not the manifest of a dataset"),
        ({"schema_version": 1}, "with schema 1, this tracekit reads"),
        ({"format_version": 4}, "has version 4 with schema"),
        ({"tables": {"trace": [3]}}, "not the manifest of a dataset"),
        ({"tables": 3}, "not the manifest of a dataset"),
        ({"format_version": 1}, "has version 1 with schema"),
        ({"format_version": "3"}, "has version 3 with schema"),
        ({"tables": {"trace": 3}}, "not the manifest of a dataset"),
        ("../../etc/x.parquet", "no name of a file in one"),
        ("tables/device/x.parquet", "no name of a file in one"),
        ("tables/trace/x*.parquet", "no name of a file in one"),
    ],
)
def test_manifests_that_are_none(tmp_path: Path, change: object, message: str) -> None:
    dataset = tmp_path / "run.tracekit"
    dataset.mkdir()
    file = {"size_bytes": 1, "sha256": "0", "row_count": 1}
    said: dict[str, Any] = {
        "format": "tracekit dataset",
        "format_version": FORMAT_VERSION,
        "schema_version": tracekit.schema.SCHEMA_VERSION,
        "recipe": "r",
        "tracekit_version": "0",
        "traces": [],
        "missing": [],
        "shards": [],
        "tables": {},
        "analyses": {},
    }
    said |= change if isinstance(change, dict) else {"tables": {"trace": [file | {"name": change}]}}
    (dataset / "manifest.json").write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(StoreError, match=message):
        tracekit.open(dataset)


def test_a_damaged_file_is_said(dataset_of: Callable[[int], Path]) -> None:
    dataset = dataset_of(1)
    [file] = dataset.glob("analyses/timeline/*.parquet")
    file.write_bytes(file.read_bytes()[:-30])
    with tracekit.open(dataset) as trace, pytest.raises(StoreError, match="damaged"):
        trace.query("timeline")


def test_a_file_of_an_analysis_that_changed_is_said_although_it_can_be_read(
    tmp_path: Path, dataset_of: Callable[[int], Path]
) -> None:
    dataset = dataset_of(1)
    [file] = dataset.glob("analyses/timeline/*.parquet")
    with duckdb.connect() as own:
        changed = own.read_parquet(str(file)).project("* REPLACE (compute_ns + 1 AS compute_ns)")
        changed.write_parquet(str(tmp_path / "new"))
    file.write_bytes((tmp_path / "new").read_bytes())
    with tracekit.open(dataset) as trace, pytest.raises(StoreError, match="damaged"):
        trace.query("timeline")


@pytest.mark.parametrize("place", [range(1000, 2000), range(4000, 12000)])
def test_a_damaged_page_is_told_from_a_fault_of_the_statement(tmp_path: Path, place: range) -> None:
    """Pages are looked at when a question needs them, long after a dataset was opened."""
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


def test_a_cached_dataset_that_is_damaged_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_ranks, "BREAKDOWN", ("timeline", "modules"))
    write_ranks(tmp_path / "run", 2)
    with tracekit.open(tmp_path / "run", engine=SERIAL) as trace:
        place = trace.store_path
        expected = trace.query("modules")
    assert place is not None
    [file] = place.glob("analyses/modules/*.parquet")
    file.write_bytes(b"")
    with tracekit.open(tmp_path / "run", engine=SERIAL) as trace:
        assert trace.query("modules") == expected
    assert file.stat().st_size > 0
