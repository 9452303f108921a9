"""However ranks are read, every figure is the same: one after the other, in units, in processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from run_of_ranks import write_ranks

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.engine.ingesting import ingest_dataset
from tracekit.engine.many_ranks import EngineChoice
from tracekit.opening import ingest
from tracekit.trace import Trace

REPO = Path(__file__).resolve().parents[2]

ENGINES = ("serial", "processes")

ANALYSES = [
    name
    for name, spec in load_catalog().analyses.items()
    if spec.scope != "runs" and not spec.needs and not any(p.is_required for p in spec.params)
]


def mixed_ranks(folder: Path) -> Path:
    """Write a run with all that is awkward: a rank twice, two of no rank, a CPU, a missing one."""
    write_ranks(folder, 3, world_size=8)
    text = (folder / "rank1.json").read_text(encoding="utf-8")
    (folder / "again.json").write_text(text, encoding="utf-8")
    nameless = json.loads(text)
    del nameless["distributedInfo"]
    for name in ("some.json", "other.json"):
        (folder / name).write_text(json.dumps(nameless), encoding="utf-8")
        nameless["traceEvents"].pop()
    shutil.copy(REPO / "sample_traces/pretrain_R+Z3/rank0.json.gz", folder / "zero.json.gz")
    return folder


@pytest.fixture(params=["sample", "mixed"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "sample":
        return REPO / "sample_traces/pretrain_R+Z3"
    return mixed_ranks(tmp_path / "run")


def figures(trace: Trace) -> dict[str, object]:
    return {name: trace.query(name).rows for name in ANALYSES}


def content(dataset: Path) -> dict[str, bytes]:
    return {
        file.relative_to(dataset).as_posix(): file.read_bytes()
        for file in dataset.rglob("*")
        if file.is_file()
    }


@pytest.mark.usefixtures("a_batch_each")
def test_all_analyses_are_equal(run: Path, tmp_path: Path) -> None:
    store = ingest([run], tmp_path / "run.duckdb")
    for name in ENGINES:
        choice = EngineChoice(name, worker_count=2)
        manifest = ingest_dataset([run], tmp_path / f"{name}.tracekit", engine=choice)
        assert not manifest.missing
        assert len(manifest.parts) > 1
    with tracekit.open(store) as trace:
        expected = figures(trace)
        breakdown = trace.breakdown()
    for name in ENGINES:
        with tracekit.open(tmp_path / f"{name}.tracekit") as trace:
            assert figures(trace) == expected
            assert trace.breakdown() == breakdown
    serial, processes = (content(tmp_path / f"{name}.tracekit") for name in ENGINES)
    assert serial.keys() == processes.keys()
    assert serial == processes


@pytest.mark.usefixtures("a_batch_each")
def test_sql_over_the_tables_gives_the_same_rows(tmp_path: Path) -> None:
    """The answers that a dataset holds aside: its tables are those of a store."""
    run = mixed_ranks(tmp_path / "run")
    store = ingest([run], tmp_path / "run.duckdb")
    ingest_dataset([run], tmp_path / "run.tracekit", engine=EngineChoice("serial", worker_count=2))
    catalog = load_catalog()
    tables = [
        "record", "event", "trace", "thread", "process_group", "run",
        *(name for name in (*catalog.tables, *catalog.views)),
    ]  # fmt: skip
    with tracekit.open(store) as one, tracekit.open(tmp_path / "run.tracekit") as other:
        for table in tables:
            text = f"SELECT * FROM {table} ORDER BY ALL"
            assert other.sql(text).rows == one.sql(text).rows, table
        for name in ANALYSES:
            spec = catalog.analysis(name)
            limits = {p.name: 3 for p in spec.params if p.name == "limit"}
            if limits:
                assert other.query(name, **limits) == one.query(name, **limits)
        assert other.query("why", kernel="%", limit=5) == one.query("why", kernel="%", limit=5)
