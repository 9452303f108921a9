"""Running analyses and the user's SQL: results, errors, and interrupts."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import duckdb
import pytest

from tracekit.analysis.header import parse_header
from tracekit.analysis.interruptible import interruptible
from tracekit.analysis.result import Column
from tracekit.analysis.run import run_analysis, run_sql, stream_sql
from tracekit.errors import QueryError, StoreError


@pytest.fixture
def connection():
    with duckdb.connect() as open_connection:
        open_connection.execute("CREATE TABLE event AS SELECT range AS ts_ns FROM range(5)")
        yield open_connection


def spec(sql, *, params="", columns="--   a  BIGINT  x\n"):
    listed = f"-- Params:\n{params}" if params else ""
    return parse_header(
        f"-- Why?\n--\n-- Kind: analysis\n-- Scope: trace\n{listed}-- Columns:\n{columns}{sql}",
        "gaps",
        "queries/analyses/gaps.sql",
    )


def test_an_analysis_returns_its_columns(connection):
    result = run_analysis(connection, spec("SELECT max(ts_ns) AS a FROM event"), {})
    assert result.name == "gaps"
    assert result.columns == (Column("a", "BIGINT"),)
    assert result.rows == [(4,)]


def test_parameters_are_bound_with_their_declared_type(connection):
    # As a 32-bit integer, DuckDB's type of small literals, this product would overflow.
    question = spec("SELECT $top * 1000000 AS a", params="--   top  BIGINT = 4000  how many\n")
    assert run_analysis(connection, question, {}).rows == [(4_000_000_000,)]
    assert run_analysis(connection, question, {"top": "5000"}).rows == [(5_000_000_000,)]


def test_an_unset_parameter_is_null(connection):
    question = spec(
        "SELECT ts_ns AS a FROM event WHERE $only IS NULL OR ts_ns = $only",
        params="--   only  BIGINT = NULL  only this\n",
    )
    assert len(run_analysis(connection, question, {})) == 5
    assert run_analysis(connection, question, {"only": 3}).rows == [(3,)]


def test_text_parameters_are_values_never_sql(connection):
    question = spec(
        "SELECT $name AS a",
        params="--   name  VARCHAR = ''  a name\n",
        columns="--   a  VARCHAR  x\n",
    )
    hostile = "'; DROP TABLE event; --"
    assert run_analysis(connection, question, {"name": hostile}).rows == [(hostile,)]
    assert len(run_sql(connection, "SELECT * FROM event")) == 5


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT 1 AS a", "a BIGINT.*a INTEGER"),
        ("SELECT 1::BIGINT AS b", "a BIGINT"),
        ("SELECT 1::BIGINT AS a, 2 AS b", "b INTEGER"),
    ],
)
def test_undeclared_columns_are_a_bug(connection, sql, reason):
    with pytest.raises(RuntimeError, match=reason):
        run_analysis(connection, spec(sql), {})
    assert run_sql(connection, "SELECT 1").rows == [(1,)]


def test_columns_in_another_order_are_a_bug(connection):
    columns = "--   a  INTEGER  x\n--   b  INTEGER  y\n"
    with pytest.raises(RuntimeError, match="order"):
        run_analysis(connection, spec("SELECT 1 AS b, 2 AS a", columns=columns), {})


def test_memory_that_runs_out_is_no_bug(connection):
    connection.execute("SET memory_limit = '20MB'; SET max_temp_directory_size = '0KB'")
    greedy = "SELECT len(list(range))::BIGINT AS a FROM range(100000000)"
    with pytest.raises(StoreError, match="gaps"):
        run_analysis(connection, spec(greedy), {})
    with pytest.raises(QueryError) as caught:
        run_sql(connection, greedy)
    assert "LIMIT" in str(caught.value.hint)


def test_sql_returns_columns_and_rows(connection):
    result = run_sql(connection, "SELECT ts_ns, ts_ns * 2 AS twice FROM event ORDER BY 1 LIMIT 2;")
    assert result.columns == (Column("ts_ns", "BIGINT"), Column("twice", "BIGINT"))
    assert result.rows == [(0, 0), (1, 2)]


def test_a_name_that_comes_twice_gets_a_number(connection):
    result = run_sql(connection, "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a")
    assert len(set(result.column_names)) == 4
    assert result.column_names[:2] == ("a", "a_1")


def test_no_more_rows_than_the_limit(connection):
    for asked in ("SELECT * FROM range(10000000)", "SELECT now() FROM range(10000000)"):
        first, is_more = stream_sql(connection, asked).first(3)
        assert len(first) == 3
        assert is_more
        connection.abort()
    assert run_sql(connection, "SELECT 1").rows == [(1,)]


def test_exact_values(connection):
    result = run_sql(
        connection,
        "SELECT 9223372036854775807 AS big, 170141183460469231731687303715884105727 AS huge, "
        "TIMESTAMP_NS '2020-01-01 00:00:00.123456789' AS ns, INTERVAL '14 months' AS months, "
        "TIMESTAMPTZ '2020-01-01 00:00:00+00' AS zoned, TIMESTAMP '2020-01-01 00:00:00' AS us, "
        """'{"a": 1}'::JSON AS json""",
    )
    row = result.to_dicts()[0]
    assert row["big"] == 2**63 - 1
    assert row["huge"] == 2**127 - 1
    assert row["ns"] == "2020-01-01 00:00:00.123456789"
    assert row["months"] == "1 year 2 months"
    assert row["zoned"].startswith("2020-01-01") or row["zoned"].startswith("2019-12-31")
    assert row["us"] == datetime(2020, 1, 1)  # noqa: DTZ001
    assert row["json"] == '{"a": 1}'
    assert result.columns[2] == Column("ns", "TIMESTAMP_NS")


def test_several_statements_give_the_last_ones_rows(connection):
    text = "CREATE TEMP TABLE t AS SELECT 7 AS a; -- a comment; with a semicolon\nSELECT a FROM t;"
    assert run_sql(connection, text).rows == [(7,)]
    with pytest.raises(QueryError):
        run_sql(connection, "SELECT 1; SELECT 2")


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing", ";"])
def test_no_statement_is_refused(connection, text):
    with pytest.raises(QueryError):
        run_sql(connection, text)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("SELECT * FROM evnt", "evnt", "event"),
        ("SELECT * FROM zzzzz", "Catalog Error", "SHOW TABLES"),
        ("SELECT ts FROM event", "Binder Error", "ts_ns"),
        ("SELECT nme FROM event", "Binder Error", "did you mean name"),
        (
            "SELECT e.modul_path FROM event AS e",
            "Binder Error",
            "did you mean module_path? It is in work",
        ),
        ('SELECT "correlationId" FROM event', "Binder Error", "in tracekit: correlation"),
        ("SELECT operator FROM event", "Binder Error", "column op is in work"),
        ("SELECT e.zzzzz FROM event AS e", "Binder Error", 'bindings: "'),
        ("SELECT 1 FROM event JOIN event AS e USING (phse)", "Binder Error", "did you mean phase?"),
        ("SELECT 1,\n selec 2 3", "Parser Error", "line 2"),
        ("SELECT error('boom')", "boom", "SHOW TABLES"),
        ("SELECT 'x'::INTEGER", "Conversion Error", "column 11"),
    ],
)
def test_errors_of_duckdb_are_one_line_and_a_hint(connection, text, message, hint):
    with pytest.raises(QueryError) as caught:
        run_sql(connection, text)
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert hint in str(caught.value.hint)
    assert run_sql(connection, "SELECT 1").rows == [(1,)]


def test_the_hint_of_the_sandbox_is_unsafe(connection):
    connection.execute("SET enable_external_access = false; SET lock_configuration = true")
    refused = (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY event TO '/tmp/out.csv'",
        "ATTACH '/tmp/other.duckdb'",
        "SET threads = 4",
    )
    for text in refused:
        with pytest.raises(QueryError) as caught:
            run_sql(connection, text)
        assert "--unsafe" in str(caught.value.hint), text


SLOW = "SELECT count(*) FROM range(10000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"


def test_an_interrupt_ends_a_statement(connection):
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_sql(connection, SLOW)
    timer.join()
    assert run_sql(connection, "SELECT 1").rows == [(1,)]


def test_an_interrupt_between_statements_is_not_lost(connection):
    def work():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)  # The interrupt arrives while no statement runs.
        connection.execute(SLOW)

    with pytest.raises(KeyboardInterrupt):
        interruptible(connection, work)
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_work_of_another_thread_stays_on_it(connection):
    """Only the main thread receives interrupts."""
    with ThreadPoolExecutor(1, thread_name_prefix="other") as pool:
        ask = pool.submit(interruptible, connection, lambda: threading.current_thread().name)
    assert ask.result().startswith("other")
