"""The user's SQL reaches only the store."""

import json

import pytest
from hostile_sql import ON_THE_STORE, OUTSIDE
from store_folders import left_in, stores

import tracekit
from tracekit.errors import QueryError

pytestmark = pytest.mark.usefixtures("cache")


def refused(trace, statements, **names):
    passed = []
    for statement in statements:
        try:
            trace.sql(statement.format(**names))
        except QueryError:
            continue
        passed.append(statement)
    return passed


@pytest.mark.parametrize("cached", [True, False])
def test_sql_reaches_no_file_no_network_and_no_setting(kernels, tmp_path, cached):
    secret = tmp_path / "outside" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("a\n1\n")
    with tracekit.open(kernels, cache=cached) as trace:
        assert refused(trace, OUTSIDE, secret=secret, folder=secret.parent) == []
        assert left_in(secret.parent) == ["secret.txt"]
        assert trace.query("timeline").rows


def test_sql_cannot_change_the_store(kernels, cache):
    with tracekit.open(kernels) as trace:
        store = trace.store_path
        before = store.read_bytes()
        assert refused(trace, ON_THE_STORE, store=store) == []
        # Also not under DuckDB's name.
        for (path,) in trace.sql("SELECT path FROM duckdb_databases() WHERE NOT internal").rows:
            by_name = [statement for statement in ON_THE_STORE if "read_blob" not in statement]
            assert path is None or refused(trace, by_name, store=path) == []
    assert store.read_bytes() == before
    assert stores(cache) == [store]


def test_unsafe_lifts_the_limits(kernels, tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n")
    with tracekit.open(kernels, unsafe=True) as trace:
        assert trace.sql(f"SELECT a FROM '{tmp_path}/x.csv'").rows == [(1,)]
        trace.sql(f"COPY event TO '{tmp_path}/out.csv'")
        trace.sql("SET threads = 1")
        with pytest.raises(QueryError):
            trace.sql("DELETE FROM event")
    assert (tmp_path / "out.csv").exists()


def test_sql_may_use_tables_of_its_own(kernels):
    with tracekit.open(kernels) as trace:
        trace.sql("CREATE TEMP TABLE mine AS SELECT count(*) AS n FROM event")
        assert trace.sql("SELECT n FROM mine").rows == [(10,)]
        assert json.loads(trace.sql("SELECT to_json(t) FROM trace AS t").rows[0][0])["rank"] is None
