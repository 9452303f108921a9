"""Tables that are created on demand."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest

import tracekit
from tracekit.analysis import relations
from tracekit.analysis.catalog import load_catalog
from tracekit.database.connections import cursor_of
from tracekit.opening import ingest


def on_demand():
    return {name: spec for name, spec in load_catalog().tables.items() if spec.is_on_demand}


@pytest.fixture(scope="module")
def store(tmp_path_factory, sample_trace):
    return ingest([sample_trace], tmp_path_factory.mktemp("store") / "run.duckdb")


def test_a_store_stays_as_it_is(store):
    digest = hashlib.sha256(store.read_bytes()).hexdigest()
    with tracekit.open(store) as trace:
        assert trace.sql("SELECT count(*) > 0 FROM graph_edge").rows == [(True,)]
    assert hashlib.sha256(store.read_bytes()).hexdigest() == digest
    with duckdb.connect(str(store), read_only=True) as connection:
        names = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
    assert names.isdisjoint(on_demand())


def test_each_is_made_once(store, monkeypatch):
    made = []
    create = relations._Making._create

    def counted(making, cursor, spec):
        made.append(spec.name)
        create(making, cursor, spec)

    monkeypatch.setattr(relations._Making, "_create", counted)
    with tracekit.open(store) as trace:
        cursors = [cursor_of(trace.connection) for _ in range(4)]

        def count(cursor):
            relations.ensure(cursor, ["graph_edge"])
            return int(cursor.execute("SELECT count(*) FROM graph_edge").fetchall()[0][0])

        with ThreadPoolExecutor(4) as pool:
            assert len(set(pool.map(count, cursors))) == 1
        trace.query("graph")
    assert len(made) == len(set(made))
    assert "graph_edge" in made


def test_sql_of_the_users_own_has_them(store, tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "edge_count.sql").write_text(
        "-- How many edges are there?\n--\n-- Kind:     analysis\n-- Scope:    run\n"
        "-- Columns:\n--   edge_count  BIGINT  edges\n\n"
        "SELECT count(*) AS edge_count FROM graph_edge\n",
        encoding="utf-8",
    )
    with tracekit.open(store, queries=[folder]) as trace:
        (own,) = trace.query("edge_count").rows
        assert [own] == trace.sql("SELECT count(*) FROM graph_edge").rows


def test_a_name_in_a_string_creates_no_relation(store):
    made = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'session'"
    with tracekit.open(store) as trace:
        assert trace.sql("SELECT 'graph_edge' AS path_piece -- FROM\n").rows == [("graph_edge",)]
        assert "graph_edge" not in {name for (name,) in trace.sql(made).rows}
        assert trace.sql('SELECT count(*) > 0 FROM "graph_edge"').rows == [(True,)]
        assert "graph_edge" in {name for (name,) in trace.sql(made).rows}
