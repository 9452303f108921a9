"""Stores are complete or absent, whatever happens during ingest; opening stores."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest
from store_folders import left_in
from traces_by_hand import kernel

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import library_file
from tracekit.database import building, opening
from tracekit.errors import StoreError
from tracekit.opening import ingest
from tracekit.schema import SCHEMA_VERSION, TABLES
from tracekit.storage import temp_dirs

pytestmark = pytest.mark.usefixtures("cache")


def run_python(script, *args):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def made_store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "trace.json").write_text(
        json.dumps({"traceEvents": [kernel("k", at, at + 1) for at in range(0, 20, 2)]})
    )
    return ingest([folder / "trace.json"], folder / "run.duckdb")


@pytest.fixture
def store(made_store, tmp_path):
    return Path(shutil.copyfile(made_store, tmp_path / "run.duckdb"))


def test_a_store_has_the_documented_tables(kernels, tmp_path):
    store = ingest([kernels], tmp_path / "run.duckdb")
    assert store == tmp_path / "run.duckdb"
    with opening.open_store(store) as connection:
        for table in TABLES:
            found = connection.execute(f"DESCRIBE {table.name}").fetchall()
            assert [row[:2] for row in found] == [(c.name, c.type) for c in table.columns]
        assert connection.execute(
            "SELECT schema_version, tracekit_version FROM store_info"
        ).fetchall() == [(SCHEMA_VERSION, tracekit.__version__)]
    assert [name for name in left_in(tmp_path) if "duckdb" in name] == ["run.duckdb"]
    assert left_in(tmp_path / "tmp") == []


def test_any_duckdb_client_reads_a_store(store):
    with duckdb.connect(str(store), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM event").fetchone() == (10,)
        assert connection.execute("SELECT sum(wall_ns) FROM device_events").fetchone() == (10_000,)
        assert connection.execute("SELECT busy_ns FROM device_windows").fetchone() == (10_000,)


def test_an_existing_store_is_replaced_only_with_force(kernels, tmp_path):
    store = tmp_path / "run.duckdb"
    store.write_text("precious")
    with pytest.raises(StoreError, match=f"^{store}: ") as raised:
        ingest([kernels], store)
    assert "--force" in str(raised.value.hint)
    assert store.read_text() == "precious"
    ingest([kernels], store, force=True)
    with tracekit.open(store) as trace:
        assert trace.query("timeline").to_dicts()[0]["busy_ns"] == 10_000


def test_an_error_leaves_no_files_and_the_old_store_unchanged(kernels, store, tmp_path):
    before = store.read_bytes()
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(tracekit.TraceError):
        ingest([bad], store, force=True)
    with pytest.raises(tracekit.TraceError):
        ingest([kernels, bad], tmp_path / "other.duckdb")
    assert store.read_bytes() == before
    assert [name for name in left_in(tmp_path) if "duckdb" in name] == ["run.duckdb"]


def test_an_interrupt_leaves_nothing(kernels, tmp_path):
    interrupt = Mock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        ingest([kernels], tmp_path / "run.duckdb", progress=interrupt)
    assert [name for name in left_in(tmp_path) if "duckdb" in name] == []


@pytest.mark.parametrize("moment", ["reading", "deriving", "at the end"])
def test_a_killed_ingest_leaves_nothing_that_looks_like_a_store(kernels, tmp_path, moment):
    folder = tmp_path / "out"
    script = """
        import os, signal, sys
        from pathlib import Path
        import tracekit.analysis.relations
        from tracekit.ingest.event_loader import EventLoader
        from tracekit.opening import ingest

        def die(*_, **__):
            os.kill(os.getpid(), signal.SIGKILL)

        moment, source, out = sys.argv[1:]
        if moment == "deriving":
            tracekit.analysis.relations.Relations.make_store = die
        if moment == "at the end":
            Path.replace = Path.hardlink_to = die
        if moment == "reading":
            EventLoader.close = die
        ingest([source], Path(out))
    """
    with run_python(script, moment, kernels, folder / "run.duckdb") as process:
        _, errors = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL, errors
    left = left_in(folder)
    assert left  # Otherwise the ingest had not begun.
    assert not list(folder.glob("*.duckdb"))
    assert all(name.startswith(".") for name in left)
    # The next build of any store cleans the folder up.
    ingest([kernels], folder / "next.duckdb")
    assert left_in(folder) == ["next.duckdb"]


def test_cleanup_spares_live_processes_and_other_files(tmp_path):
    folder = tmp_path / "out"
    ours = f".run.duckdb.{temp_dirs.host()}."
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = [
        f"{ours}{os.getpid()}.abcdef.building",
        f"{ours}1.abcdef.building",
        f".run.duckdb.0000host.{dead.pid}.abcdef.building",
        ".x.building",
        "..building",
        f".run.duckdb.{dead.pid}.not",
        f"{ours}².y.building",
    ]
    gone = [f"{ours}{pid}.a_b.building" for pid in (dead.pid, 2**22 + 1, "٣٣٣٣٣٣٣٣")]
    for name in kept + gone:
        (folder / name).mkdir(parents=True)
    # Exports and baselines are files.
    (folder / f".x.pftrace.{temp_dirs.host()}.{dead.pid}.a.building").write_bytes(b"half")
    kept.append(f".x.pftrace.{temp_dirs.host()}.1.a.building")
    (folder / kept[-1]).write_bytes(b"half")
    with building.build_store(folder / "run.duckdb", library=library_file()):
        pass
    assert left_in(folder) == sorted([*kept, "run.duckdb"])


def test_concurrent_processes_ingest_the_same_file(sample_trace, cache):
    script = """
        import sys
        import tracekit
        import tracekit.opening
        print("ready", flush=True)
        sys.stdin.readline()
        with tracekit.open(sys.argv[1]) as trace:
            print(trace.query("timeline").rows, trace.store_path)
    """
    running = [run_python(script, sample_trace) for _ in range(2)]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=600) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    assert len({out for out, _ in outputs}) == 1
    assert len(left_in(cache)) == 1


NO_STORES = {
    "missing": lambda path: path.exists(),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_bytes(b"text"),
    "zeros": lambda path: path.write_bytes(bytes(20_000)),
    "another database": lambda path: duckdb.connect(str(path)).close(),
}


@pytest.mark.parametrize("case", NO_STORES)
def test_other_files_are_refused_with_a_hint(tmp_path, case):
    store = tmp_path / "other.duckdb"
    NO_STORES[case](store)
    with pytest.raises(StoreError) as raised:
        tracekit.open(store)
    assert raised.value.message.startswith(f"{store}: ")
    assert "\n" not in raised.value.message
    assert "building" not in raised.value.message
    assert "tracekit ingest TRACE -o STORE" in str(raised.value.hint)


def test_another_schema_version_is_refused(store):
    with duckdb.connect(str(store)) as connection:
        connection.execute("UPDATE store_info SET schema_version = 999")
    with pytest.raises(StoreError, match=f"999.*{SCHEMA_VERSION}"):
        tracekit.open(store)


def test_a_store_of_another_version_is_opened_with_a_warning(store, caplog):
    tracekit.open(store).close()
    assert not caplog.records
    with duckdb.connect(str(store)) as connection:
        connection.execute("UPDATE store_info SET made_by = 'of other code'")
    tracekit.open(store).close()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"{store}: ")


def test_a_store_in_a_read_only_folder(made_store, tmp_path):
    folder = tmp_path / "published"
    folder.mkdir()
    store = Path(shutil.copyfile(made_store, folder / "run.duckdb"))
    folder.chmod(0o500)
    try:
        with tracekit.open(store) as trace:
            assert trace.query("timeline").rows
    finally:
        folder.chmod(0o700)
    assert left_in(folder) == ["run.duckdb"]


def test_rules_cannot_be_given_for_a_store(store, tmp_path):
    with pytest.raises(StoreError):
        tracekit.open(store, rules=tmp_path / "rules.toml")


def test_large_results_spill_to_disk(store, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEKIT_MEMORY_LIMIT", "60MB")
    with tracekit.open(store) as trace:
        wide = "md5(range::VARCHAR) || repeat('x', 50)"
        assert trace.sql(
            f"SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY {wide}), {wide} "
            "FROM range(1_000_000))"
        ).rows == [(1_000_000,)]
    assert left_in(tmp_path / "tmp") == []


def test_the_schema_version_changes_with_the_tables():
    """A store of an older schema must not be opened.

    After a change of a table, increment SCHEMA_VERSION and update both values here.
    """
    catalog = load_catalog()
    tables = [spec for spec in catalog.tables.values() if not spec.is_on_demand]
    derived = [*tables, *catalog.views.values()]
    held = sorted(
        [table.name, *(f"{column.name} {column.type}" for column in table.columns)]
        for table in (*TABLES, *derived)
    )
    digest = hashlib.sha256(json.dumps(held).encode()).hexdigest()[:16]
    assert (SCHEMA_VERSION, digest) == (26, "69c7d9fbc4253148")
