"""Engines give the same figures: one store, batches in sequence, and batches in processes."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from every_trace import REPO, Answers
from run_of_ranks import read_apart, write_ranks

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.dataset.layout import LARGE_TABLES, SMALL_TABLES
from tracekit.engine import many_ranks
from tracekit.engine.choice import EngineChoice
from tracekit.engine.many_ranks import ingest_dataset
from tracekit.errors import TraceError
from tracekit.opening import ingest

ENGINES = ("serial", "processes")
KEPT = ("trace", "timeline", "kernel_classes", "collectives", "steps", "module_totals")

ANALYSES = [
    name
    for name, spec in load_catalog().analyses.items()
    if spec.scope != "runs" and not spec.needs and not any(p.is_required for p in spec.params)
]


def mixed_ranks(folder, *, has_sample):
    """Write a run with a rank twice, two traces of unknown rank, and missing ranks.

    The first two ranks are from a sample on CPUs. Without it, there are two traces.
    """
    if has_sample:
        shutil.copytree(REPO / "sample_traces/pretrain_Naive", folder)
    for file in write_ranks(folder / "made", 2):
        rank = json.loads(file.read_text(encoding="utf-8"))
        rank["distributedInfo"] |= {"rank": rank["distributedInfo"]["rank"] + 2, "world_size": 8}
        text = json.dumps(rank)
        (folder / f"made{file.name}").write_text(text, encoding="utf-8")
    shutil.rmtree(folder / "made")
    (folder / "again.json").write_text(text, encoding="utf-8")
    nameless = rank
    del nameless["distributedInfo"]
    if not has_sample:
        for name in ("maderank0.json", "again.json"):
            (folder / name).unlink()
    for name in ("some.json", "other.json") if has_sample else ("some.json",):
        (folder / name).write_text(json.dumps(nameless), encoding="utf-8")
        nameless["traceEvents"].pop()
    return folder


@dataclass(frozen=True)
class Read:
    """A run as one store, and as datasets by engine; every `step`-th analysis is compared."""

    step: int
    store: Path
    datasets: dict[str, Path]


@pytest.fixture(
    scope="module",
    params=["tiny", pytest.param("sample", marks=pytest.mark.nightly("reads a sample thrice"))],
)
def read(request, tmp_path_factory):
    """The tiny run has one dataset: that engines agree is tested with the sample."""
    folder = tmp_path_factory.mktemp("mixed")
    is_tiny = request.param == "tiny"
    run = mixed_ranks(folder / "run", has_sample=not is_tiny)
    found = Read(
        8 if is_tiny else 1,
        ingest([run], folder / "run.duckdb"),
        {name: folder / f"{name}.tracekit" for name in (ENGINES[:1] if is_tiny else ENGINES)},
    )
    with pytest.MonkeyPatch.context() as patch:
        read_apart(patch)
        if is_tiny:
            patch.setattr(many_ranks, "BREAKDOWN", KEPT)
        for name, dataset in found.datasets.items():
            choice = EngineChoice(name, worker_count=2)
            manifest = ingest_dataset([run], dataset, engine=choice)
            assert not manifest.missing
            assert len(manifest.shards) > 1
    return found


def content(dataset):
    return {
        file.relative_to(dataset).as_posix(): file.read_bytes()
        for file in dataset.rglob("*")
        if file.is_file()
    }


def test_all_analyses_are_equal(read):
    """One dataset is compared with the store; the datasets are equal to the byte."""
    serial, *others = map(content, read.datasets.values())
    for other in others:
        assert other.keys() == serial.keys()
        assert other == serial
    with tracekit.open(read.store) as trace:
        answers = Answers(trace)
        expected = {name: answers(name).rows for name in ANALYSES[:: read.step]}
        breakdown = trace.breakdown()
    with tracekit.open(read.datasets[ENGINES[0]]) as trace:
        assert {name: trace.query(name).rows for name in ANALYSES[:: read.step]} == expected
        assert trace.breakdown() == breakdown


def test_a_dataset_has_every_table_of_a_store():
    """Otherwise, SQL would return no rows without an error."""
    tables = load_catalog().tables
    made = {name for name, spec in tables.items() if not spec.is_on_demand}
    assert made <= {*SMALL_TABLES, *LARGE_TABLES}


def test_sql_over_the_tables_gives_the_same_rows(read):
    """Tables of a dataset equal the tables of a store."""
    catalog = load_catalog()
    tables = [
        "record", "event", "trace", "thread", "process_group", "run",
        *(name for name, spec in catalog.tables.items() if not spec.is_on_demand),
        *catalog.views,
    ]  # fmt: skip
    with tracekit.open(read.store) as one, tracekit.open(read.datasets["serial"]) as other:
        for table in tables[:: read.step]:
            # Rows are compared by hash, in any order.
            hashes = f"SELECT hash(t::VARCHAR) AS h FROM {table} AS t"
            text = f"SELECT count(*), bit_xor(h), sum(h) FROM ({hashes})"
            found, expected = (trace.connection.execute(text).fetchone() for trace in (other, one))
            assert found == expected, table
        limited = [
            name for name in ANALYSES if "limit" in {p.name for p in catalog.analysis(name).params}
        ]
        # A sample of the tables.
        for name in limited[:: 4 * read.step]:
            assert other.query(name, limit=3) == one.query(name, limit=3)
        why = one.query("why", kernel="e", limit=5)
        assert why.rows
        assert other.query("why", kernel="e", limit=5) == why


def test_an_engine_prints_the_same(tmp_path, cli):
    write_ranks(tmp_path / "run", 2)
    arguments = ("query", "timeline", tmp_path / "run", "--format", "csv", "--no-cache")
    engine = ("--engine", "serial", "--workers", "2", "--memory", "600MB")
    plain = cli(*arguments)
    done = cli(*arguments, *engine)
    assert (done.exit_code, done.stdout) == (plain.exit_code, plain.stdout) == (0, plain.stdout)
    # Only an engine skips unreadable ranks.
    (tmp_path / "run/rank2.json").write_bytes(b"no trace at all")
    done = cli(*arguments, *engine)
    assert done.exit_code == TraceError.exit_code
    assert done.stdout
    assert "rank2.json" in done.stderr
