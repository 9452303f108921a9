"""Stores are untrusted data: their SQL does not run, and damage is reported."""

import os
import random
import shutil
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest
from traces_by_hand import span

import tracekit
from tracekit.analysis.catalog import make_digest
from tracekit.database import connections
from tracekit.errors import StoreError, TracekitError
from tracekit.opening import OpenRequest, ingest, open_request

# SQL that crafts a store, and a word of the reason.
CRAFTED = {
    "a view that reads a file": (
        """ALTER TABLE store_info RENAME TO kept;
        CREATE VIEW store_info AS SELECT k.* FROM kept AS k, read_text('{secret}')""",
        "store_info",
    ),
    "a table that is a view": (
        "ALTER TABLE trace RENAME TO kept; CREATE VIEW trace AS FROM kept",
        "trace",
    ),
    "a table that is read later": (
        "ALTER TABLE device RENAME TO kept; CREATE VIEW device AS FROM kept",
        "device|'kept'",
    ),
    "a changed view": ("CREATE OR REPLACE VIEW op_calls AS FROM event LIMIT 0", "op_calls"),
    "a view of an ingested table": (
        "CREATE OR REPLACE VIEW event AS SELECT * REPLACE (2 * dur_ns AS dur_ns) FROM record",
        "event",
    ),
    "a changed macro": ("CREATE OR REPLACE MACRO is_op(category) AS TRUE", "is_op"),
    "a macro of a connection": (
        "CREATE MACRO role_rule_of(applies_to, name, is_inside) AS (SELECT count(*) FROM range(9))",
        "'role_rule_of'",
    ),
    "a macro that hides a function": ("CREATE MACRO sum(x) AS 0", "'sum'"),
    "a macro that hides the catalog": (
        "CREATE MACRO duckdb_views() AS TABLE SELECT 'store' AS database_name",
        "'duckdb_views'",
    ),
    "a second overload of a macro": (
        "CREATE OR REPLACE MACRO is_op(category) AS category = 'cpu_op', (a, b) AS a",
        "is_op",
    ),
    "a schema": ("CREATE SCHEMA other; CREATE VIEW other.ops AS SELECT 1", "'other'|ops"),
    "a computed column": (
        "ALTER TABLE step_ranges ADD COLUMN more INTEGER DEFAULT 1",
        "step_ranges",
    ),
}


@pytest.fixture(scope="session")
def whole_store(sample_trace, opened):
    return opened(sample_trace).store_path


@pytest.fixture
def store(whole_store, tmp_path):
    return Path(shutil.copyfile(whole_store, tmp_path / "run.duckdb"))


@pytest.mark.parametrize("case", CRAFTED)
def test_a_crafted_store_is_refused(store, tmp_path, case):
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    sql, reason = CRAFTED[case]
    with duckdb.connect(str(store)) as connection:
        connection.execute(sql.format(secret=secret))
    for unsafe in (False, True):
        with pytest.raises(StoreError, match=reason):
            tracekit.open(store, unsafe=unsafe)


# SQL that changes rows, and a word of the reason.
IMPOSSIBLE = {
    "one key for all": ("UPDATE record SET event_id = -1", "record has several rows"),
    "one launch for all": ("UPDATE launch SET launch_id = 0", "launch has several rows"),
    "a module in itself": (
        "INSERT INTO module (trace_id, module_id, parent_id) VALUES (1, 70, 71), (1, 71, 70)",
        "module has a module",
    ),
    "rows that come twice": ("INSERT INTO attribution FROM attribution", "attribution has several"),
    "times that overflow": ("UPDATE record SET ts_ns = 9223372036854775000", "impossible times"),
    "times of the past": (f"UPDATE record SET ts_ns = {-(2**63)}", "impossible times"),
    "durations that overflow": ("UPDATE record SET dur_ns = 9 * 10 ** 17", "impossible times"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_store_of_impossible_rows_is_refused(store, case):
    sql, reason = IMPOSSIBLE[case]
    with duckdb.connect(str(store)) as connection:
        connection.execute(sql)
    with pytest.raises(StoreError, match=reason):
        tracekit.open(store)


def test_a_store_with_invalid_values_is_an_error(cli, store):
    with duckdb.connect(str(store)) as connection:
        connection.execute("UPDATE attribution SET phase = 'x', link = 'x', module_reason = 'x'")
        connection.execute("UPDATE device_events SET kind = 'x', class = 'x'")
        connection.execute("UPDATE idle_gap SET cause = 'x', reason = 'x'")
    done = cli("breakdown", store)
    assert done.exit_code == 4
    assert f"error: {store}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_statement_on_a_given_store_ends(store):
    endless = (
        "CREATE TEMP TABLE endless AS SELECT count(*) FROM range(1e9::BIGINT), range(1e9::BIGINT)"
    )
    with tracekit.open(store) as trace:
        connections.session_of(trace.connection).limit_s = 0.2
        with pytest.raises(StoreError, match="takes longer"):
            connections.execute_own(trace.connection, endless)


def test_commands_name_a_crafted_store(cli, store, tmp_path):
    with duckdb.connect(str(store)) as connection:
        connection.execute(CRAFTED["a view that reads a file"][0].format(secret=store))
    for done in (cli("breakdown", store), cli("sql", "--unsafe", store, "SELECT 1")):
        assert (done.exit_code, done.stdout) == (4, "")
        assert done.stderr.startswith(f"error: {store}: ")
    # The list of cached stores reads each one, and does not trust this one.
    (tmp_path / "cache").mkdir()
    store.rename(tmp_path / "cache" / f"{0xAA:016x}-{0xBB:024x}.duckdb")
    listed = cli("ingest", "cache", "list", "--format", "json").json()
    assert [row["source_path"] for row in listed] == ["?"]


def test_stores_of_tracekit_are_accepted(kernels, tmp_path, make_run):
    """Also with SQL in patterns of the user's rules, and without a trace."""
    rules = tmp_path / "rules.toml"
    rules.write_text(
        "[[rule]]\nclass = 'mine'\npattern = \"(select 'a' from)\"\n"
        "[[range]]\napplies_to = 'call'\nmeans = 'module'\npattern = '^select from (.*)$'\n"
        "label = '\\1'\n"
    )
    run = make_run("a", requests=[{"request_id": 1, "outcome": "ok"}])
    for source, given in ((kernels, rules), (run, None)):
        path = ingest([source], tmp_path / "out" / "run.duckdb", rules=given, force=True)
        with tracekit.open(path) as trace:
            assert trace.sql("SELECT count(*) FROM store_info").rows == [(1,)]


def test_a_store_from_elsewhere_in_the_cache_is_not_trusted(kernels, cache):
    """A crafted store in a shared folder is made again."""
    cache.mkdir()
    cache.chmod(0o770)
    with tracekit.open(kernels) as trace:
        right = trace.query("timeline").rows
        path = trace.store_path
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE MACRO sum(x) AS 0")
    with tracekit.open(kernels) as trace:
        assert trace.query("timeline").rows == right


def test_a_store_in_a_shared_cache_is_reused(kernels, cache, caplog):
    """It passes the check, so it has no unusual content."""
    cache.mkdir()
    cache.chmod(0o770)
    request = OpenRequest([kernels], for_breakdown=True)
    with open_request(request) as trace:
        found = trace.breakdown()
    with open_request(request) as trace:
        assert trace.breakdown() == found
    assert caplog.messages == []


@pytest.mark.parametrize("way", ["a link", "a copy"])
def test_sql_cannot_write_to_the_store(store, tmp_path, monkeypatch, way):
    if way == "a copy":
        monkeypatch.setattr(Path, "hardlink_to", Mock(side_effect=PermissionError))
    before = store.read_bytes()
    monkeypatch.chdir(tmp_path)
    with tracekit.open(store) as trace:
        names = [row[0] for row in trace.sql("SELECT path FROM duckdb_databases()").rows]
        for target in [store, "run.duckdb", "./run.duckdb", *filter(None, names)]:
            for sql in (f"COPY (SELECT 1) TO '{target}'", f"EXPORT DATABASE '{target}'"):
                with pytest.raises(TracekitError):
                    trace.sql(sql)
            with pytest.raises(TracekitError):
                trace.sql(f"ATTACH '{target}' AS again")
        assert trace.query("timeline").rows
    assert store.read_bytes() == before
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"run.duckdb"}


def test_a_store_that_cannot_be_written_is_not_copied(store, monkeypatch):
    refuse = Mock(side_effect=PermissionError)
    monkeypatch.setattr(Path, "hardlink_to", refuse)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(shutil, "copyfile", refuse)
    with tracekit.open(store) as trace:
        assert trace.query("timeline").rows


def damaged(data, seed):
    """Return a store with flipped bits, a hole, no end, or a damaged header."""
    chance = random.Random(seed)
    text = bytearray(data)
    start = chance.randrange(len(text))
    match seed % 5:
        case 0:
            for _ in range(chance.choice([1, 30])):
                text[chance.randrange(len(text))] ^= 1 << chance.randrange(8)
        case 1:
            size = chance.choice([16, 4096, 1 << 18])
            text[start : start + size] = bytes(len(text[start : start + size]))
        case 2:
            del text[start:]
        case 3:
            text[chance.randrange(12_288)] ^= 255
        case _:
            text[start : start + 512] = chance.randbytes(len(text[start : start + 512]))
    return bytes(text)


def ask(trace):
    trace.sql("SELECT max(args), max(name) FROM record")
    return {name: result.rows for name, result in trace.breakdown().items()}


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_store_answers_or_is_refused(store, seed):
    store.write_bytes(damaged(store.read_bytes(), seed))
    message = ""
    try:
        with tracekit.open(store) as trace:
            ask(trace)
    except StoreError as error:
        message = error.message
    assert "\n" not in message
    assert not message or "store" in message


@pytest.mark.parametrize("share", [0.3, 0.6, None])
def test_commands_name_a_damaged_store(cli, store, share):
    content = bytearray(store.read_bytes())
    if share is None:
        content[content.index(make_digest().encode())] ^= 1
    else:
        del content[int(len(content) * share) :]
    store.write_bytes(content)
    done = cli("breakdown", store)
    assert done.exit_code == 4
    assert f"error: {store}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_cached_store_is_made_again(cli, sample_trace, keep_stores, tmp_path):
    keep_stores(tmp_path / "cache", sample_trace)
    command = ("query", "kernel_classes", sample_trace, "--format", "json")
    whole = cli(*command)
    assert (whole.exit_code, whole.stderr) == (0, "")
    (path,) = (tmp_path / "cache").glob("*.duckdb")
    data = path.read_bytes()
    # After the headers and the catalog: the store opens, and a query fails.
    middle = 12_288 + (1 << 18)
    hole = data[:middle] + bytes(len(data) - 2 * middle) + data[-middle:]
    for damage in (data[: len(data) // 10], hole, b"no store"):
        path.write_bytes(damage)
        again = cli(*command)
        assert again.exit_code == 0
        assert again.stderr.startswith(f"{sample_trace}: ")
        assert again.stdout == whole.stdout
    assert cli(*command).stderr == ""


def test_a_damaged_cached_store_under_a_statement(sample_trace, keep_stores, cache):
    keep_stores(cache, sample_trace)
    with tracekit.open(sample_trace) as trace:
        right = ask(trace)
        path = trace.store_path
    data = path.read_bytes()
    path.write_bytes(damaged(data, 1))
    with tracekit.open(sample_trace) as trace:
        assert ask(trace) == right
    assert len(list(path.parent.glob("*.duckdb"))) == 1


def test_steps_that_threads_mark_at_once_make_a_store(tiny_trace, tmp_path):
    """Each of two threads marks each step: a table of steps may have several rows of one."""
    events = [
        span("user_annotation", f"ProfilerStep#{step}", 100 * step, 100 * step + 90, tid=tid)
        for tid in (1, 2)
        for step in (0, 1)
    ]
    stored = tmp_path / "store.duckdb"
    ingest([tiny_trace(events)], stored)
    with tracekit.open(stored) as trace:
        assert trace.sql("SELECT step, count(*) FROM step_ranges GROUP BY 1 ORDER BY 1").rows == [
            (0, 2),
            (1, 2),
        ]
