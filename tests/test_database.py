"""Stores are whole or absent, the cache knows what it holds, and SQL stays inside."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tracekit
from tracekit import database
from tracekit.analysis.catalog import load_catalog
from tracekit.errors import QueryError, StoreError
from tracekit.schema import SCHEMA_VERSION, TABLES
from tracekit.trace import ingest

FULL = "the disk is full; nothing was written"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a folder for temporary files of the test's own."""
    folder, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(folder))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def kernels(tiny_trace: Callable[..., Path]) -> Path:
    return tiny_trace(
        [
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at, "dur": 1}
            for at in range(0, 20, 2)
        ]
    )


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def run_python(script: str, *args: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# -- building --------------------------------------------------------------------------------------


def test_a_store_holds_the_documented_tables(kernels: Path, tmp_path: Path) -> None:
    store = ingest([kernels], tmp_path / "run.duckdb")
    assert store == tmp_path / "run.duckdb"
    with database.open_store(store) as connection:
        for table in TABLES:
            found = connection.execute(f"DESCRIBE {table.name}").fetchall()
            assert [row[:2] for row in found] == [(c.name, c.type) for c in table.columns]
        assert connection.execute(
            "SELECT schema_version, tracekit_version FROM store_info"
        ).fetchall() == [(SCHEMA_VERSION, tracekit.__version__)]
    assert [name for name in left_in(tmp_path) if "duckdb" in name] == ["run.duckdb"]
    assert left_in(tmp_path / "tmp") == []


def test_any_duckdb_client_reads_a_store(kernels: Path, tmp_path: Path) -> None:
    store = ingest([kernels], tmp_path / "run.duckdb")
    with duckdb.connect(str(store), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM event").fetchone() == (10,)
        assert connection.execute("SELECT sum(wall_ns) FROM device_events").fetchone() == (10_000,)
        assert connection.execute("SELECT busy_ns FROM device_windows").fetchone() == (10_000,)


def test_an_existing_store_is_kept_unless_forced(kernels: Path, tmp_path: Path) -> None:
    store = tmp_path / "run.duckdb"
    store.write_text("precious")
    with pytest.raises(StoreError, match=f"^{store}: exists already$") as raised:
        ingest([kernels], store)
    assert raised.value.hint == "--force replaces it"
    assert store.read_text() == "precious"
    ingest([kernels], store, force=True)
    with tracekit.open(store) as trace:
        assert trace.query("timeline").to_dicts()[0]["busy_ns"] == 10_000


def test_an_error_leaves_nothing_and_keeps_the_old_store(kernels: Path, tmp_path: Path) -> None:
    store = ingest([kernels], tmp_path / "run.duckdb")
    before = store.read_bytes()
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(tracekit.TraceError):
        ingest([bad], store, force=True)
    with pytest.raises(tracekit.TraceError):
        ingest([kernels, bad], tmp_path / "other.duckdb")
    assert store.read_bytes() == before
    assert [name for name in left_in(tmp_path) if "duckdb" in name] == ["run.duckdb"]


def test_an_interrupt_leaves_nothing(kernels: Path, tmp_path: Path) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest([kernels], tmp_path / "run.duckdb", progress=interrupt)
    assert [name for name in left_in(tmp_path) if "duckdb" in name] == []


@pytest.mark.parametrize("moment", ["reading", "deriving", "at the end"])
def test_a_killed_ingest_leaves_nothing_that_looks_like_a_store(
    kernels: Path, tmp_path: Path, moment: str
) -> None:
    folder = tmp_path / "out"
    script = """
        import os, signal, sys
        from pathlib import Path
        import tracekit.analysis.derive
        from tracekit.ingest.event_loader import EventLoader
        from tracekit.trace import ingest

        def die(*_, **__):
            os.kill(os.getpid(), signal.SIGKILL)

        moment, source, out = sys.argv[1:]
        if moment == "deriving":
            tracekit.analysis.derive.derive = die
        if moment == "at the end":
            Path.replace = Path.hardlink_to = die
        if moment == "reading":
            EventLoader.close = die
        ingest([source], Path(out))
    """
    with run_python(script, moment, kernels, folder / "run.duckdb") as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, said
    left = left_in(folder)
    assert left  # The test means nothing unless the ingest was under way.
    assert not list(folder.glob("*.duckdb"))
    assert all(name.startswith(".") for name in left)
    # The next build, of whatever store, clears the folder.
    ingest([kernels], folder / "next.duckdb")
    assert left_in(folder) == ["next.duckdb"]


def test_a_sweep_spares_what_is_alive_and_what_is_not_ours(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    ours = f".run.duckdb.{database._host()}."
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = [
        f"{ours}{os.getpid()}.abcdef.building",
        f"{ours}1.abcdef.building",
        f".run.duckdb.0000host.{dead.pid}.abcdef.building",
        ".x.building",
        "..building",
        f".run.duckdb.{dead.pid}.not",
    ]
    gone = [f"{ours}{dead.pid}.abcdef.building", f"{ours}{2**22 + 1}.a_b.building"]
    for name in kept + gone:
        (folder / name).mkdir(parents=True)
    with database.build_store(folder / "run.duckdb"):
        pass
    assert left_in(folder) == sorted([*kept, "run.duckdb"])


def test_two_processes_ingesting_the_same_file_both_end_well(
    sample_trace: Path, cache: Path
) -> None:
    script = """
        import sys, time
        import tracekit
        time.sleep(max(0, float(sys.argv[2]) - time.time()))
        with tracekit.open(sys.argv[1]) as trace:
            print(trace.query("timeline").rows, trace.store_path)
    """
    begin = time.time() + 0.5
    running = [run_python(script, sample_trace, str(begin)) for _ in range(3)]
    outputs = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], outputs
    assert len({out for out, _ in outputs}) == 1
    assert len(left_in(cache)) == 1


# -- the disk --------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB; only the superuser may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no mount command: {error}")
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_one_error(small_disk: Path, sample_trace: Path) -> None:
    store = small_disk / "run.duckdb"
    with pytest.raises(StoreError) as raised:
        ingest([sample_trace], store)
    assert raised.value.message == f"{store}: {FULL}"
    assert raised.value.hint is not None
    assert "TRACEKIT_CACHE_DIR" in raised.value.hint
    assert left_in(small_disk) == []


@pytest.fixture
def run_of_requests(tmp_path: Path) -> Path:
    """A run folder whose 2 MB of requests are written to a file on their way; events are not."""
    run = tmp_path / "run"
    run.mkdir()
    manifest = {"run_id": "r", "tracekit_version": "0", "created_at": "", "engine": "e"}
    (run / "run.json").write_text(json.dumps({**manifest, "stage": "serve", "traces": []}))
    lines = (
        json.dumps({"request_id": number, "outcome": "failed", "reason": f"{number:060}"})
        for number in range(20_000)
    )
    (run / "requests.jsonl").write_text("\n".join(lines))
    return run


def test_a_full_temporary_folder_is_one_error(
    small_disk: Path, run_of_requests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    with pytest.raises(StoreError, match="the disk is full"):
        tracekit.open(run_of_requests, cache=False)
    assert left_in(small_disk) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
def test_what_the_disk_answers_is_one_error(
    run_of_requests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real = Path.open

    def fail(path: Path, mode: str = "r", *args: Any, **more: Any) -> Any:
        if path.parent.name.endswith(".building") and "w" in mode:
            raise OSError(number, os.strerror(number))
        return real(path, mode, *args, **more)

    monkeypatch.setattr(Path, "open", fail)
    store = tmp_path / "out" / "run.duckdb"
    with pytest.raises(StoreError) as raised:
        ingest([run_of_requests], store)
    why = FULL if number == errno.ENOSPC else f"the store cannot be written: {os.strerror(number)}"
    assert raised.value.message == f"{store}: {why}"
    assert raised.value.exit_code == 4
    assert left_in(tmp_path / "out") == []


def test_no_temporary_folder_is_one_error(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "mkdtemp", fail)
    with pytest.raises(StoreError, match="the disk is full"):
        tracekit.open(kernels, cache=False)
    with pytest.raises(StoreError, match="the disk is full"):
        tracekit.open(kernels)


def test_a_folder_that_may_not_be_written(kernels: Path, tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(StoreError, match="the store cannot be written: Permission denied"):
        ingest([kernels], folder / "run.duckdb")


def test_a_folder_that_is_a_file(kernels: Path, tmp_path: Path) -> None:
    store = tmp_path / "file" / "run.duckdb"
    store.parent.write_text("")
    with pytest.raises(StoreError, match=f"^{store}: the store cannot be written: ") as raised:
        ingest([kernels], store)
    assert raised.value.hint is not None


def test_a_name_that_is_a_folder(kernels: Path, tmp_path: Path) -> None:
    store = tmp_path / "run.duckdb"
    store.mkdir()
    with pytest.raises(StoreError, match="the store cannot be written"):
        ingest([kernels], store, force=True)


# -- opening ---------------------------------------------------------------------------------------


def test_no_such_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as raised:
        tracekit.open(tmp_path / "no.duckdb")
    assert raised.value.message == f"{tmp_path / 'no.duckdb'}: no such store"
    assert raised.value.hint == "make one: tracekit ingest TRACE -o STORE"


@pytest.mark.parametrize("content", [b"", b"text", b"\0" * 20_000, None])
def test_what_is_no_store(tmp_path: Path, content: bytes | None) -> None:
    store = tmp_path / "other.duckdb"
    if content is None:
        duckdb.connect(str(store)).close()
    else:
        store.write_bytes(content)
    with pytest.raises(StoreError) as raised:
        tracekit.open(store)
    assert raised.value.message.startswith(f"{store}: not a store that tracekit can open: ")
    assert raised.value.hint == "make a new one: tracekit ingest TRACE -o STORE"
    assert "\n" not in raised.value.message
    assert "building" not in raised.value.message


def test_another_schema_version_is_refused(kernels: Path, tmp_path: Path) -> None:
    store = ingest([kernels], tmp_path / "run.duckdb")
    with duckdb.connect(str(store)) as connection:
        connection.execute("UPDATE store_info SET schema_version = 999")
    with pytest.raises(StoreError) as raised:
        tracekit.open(store)
    assert raised.value.message == (
        f"{store}: the store has schema version 999, this tracekit reads {SCHEMA_VERSION}"
    )
    assert raised.value.hint == ("make a new one from the trace: tracekit ingest TRACE -o STORE")


def test_a_store_in_a_folder_that_may_not_be_written_opens(kernels: Path, tmp_path: Path) -> None:
    folder = tmp_path / "published"
    store = ingest([kernels], folder / "run.duckdb")
    folder.chmod(0o500)
    try:
        with tracekit.open(store) as trace:
            assert trace.query("timeline").rows
    finally:
        folder.chmod(0o700)
    assert left_in(folder) == ["run.duckdb"]


def test_rules_cannot_be_given_for_a_store(kernels: Path, tmp_path: Path) -> None:
    store = ingest([kernels], tmp_path / "run.duckdb")
    with pytest.raises(StoreError, match="a store has its classes already"):
        tracekit.open(store, rules=tmp_path / "rules.toml")


def test_what_is_too_much_for_memory_goes_to_disk(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEKIT_MEMORY_LIMIT", "60MB")
    with tracekit.open(kernels) as trace:
        wide = "md5(range::VARCHAR) || repeat('x', 50)"
        assert trace.sql(
            f"SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY {wide}), {wide} "
            "FROM range(1_000_000))"
        ).rows == [(1_000_000,)]
    assert left_in(tmp_path / "tmp") == []


# -- the cache -------------------------------------------------------------------------------------


def stores(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def test_a_trace_is_ingested_once(
    kernels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tracekit.open(kernels) as first:
        rows, store = first.query("timeline").rows, first.store_path
        assert stores(cache) == [store]

    def fail(*_: object) -> None:
        raise AssertionError("ingested again")

    monkeypatch.setattr(tracekit.trace, "_fill", fail)
    os.utime(store, (1, 1))
    with tracekit.open(kernels) as second:
        assert second.query("timeline").rows == rows
        assert second.store_path == store
    assert store.stat().st_mtime > 1  # It counts as used.
    with tracekit.open(str(kernels.parent / "." / kernels.name)) as third:
        assert third.store_path == store
    (cached,) = database.list_cached()
    assert (cached.path, cached.source_path) == (store, str(kernels))
    assert cached.size_bytes == store.stat().st_size


def test_a_changed_trace_is_ingested_again(kernels: Path, cache: Path) -> None:
    with tracekit.open(kernels) as trace:
        first = trace.store_path
    # Same size, another time.
    status = kernels.stat()
    os.utime(kernels, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with tracekit.open(kernels) as trace:
        second = trace.store_path
    # Another size, same time.
    kernels.write_bytes(kernels.read_bytes() + b" ")
    os.utime(kernels, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with tracekit.open(kernels) as trace:
        third = trace.store_path
    assert len({first, second, third}) == 3
    assert stores(cache) == [third]  # Those of older states are forgotten.


def test_the_key_of_a_cached_store(kernels: Path, tiny_trace: Callable[..., Path]) -> None:
    other = tiny_trace(kernels.read_bytes(), name="other.json")
    os.utime(other, ns=(kernels.stat().st_atime_ns, kernels.stat().st_mtime_ns))
    path = database.cached_store_path
    keys = [
        path([kernels], "d"),
        path([other], "d"),
        path([kernels, other], "d"),
        path([other, kernels], "d"),
        path([kernels], "e"),
    ]
    assert len(set(keys)) == len(keys)
    assert path([kernels], "d") == keys[0]
    assert keys[0].name.split("-")[0] == keys[4].name.split("-")[0]


def test_a_new_schema_version_is_a_new_key(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = database.cached_store_path([kernels], "")
    monkeypatch.setattr(database, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    assert database.cached_store_path([kernels], "") != before


def test_rules_are_part_of_the_key(kernels: Path, cache: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nclass = "norm"\napplies_to = "device"\npattern = "^k$"\n')
    with tracekit.open(kernels) as plain, tracekit.open(kernels, rules=rules) as own:
        assert plain.query("kernel_classes").column("class") == ["other"]
        assert own.query("kernel_classes").column("class") == ["norm"]
        assert plain.store_path != own.store_path


@pytest.mark.parametrize("damage", ["empty", "text", "half", "header"])
def test_a_damaged_store_in_the_cache_is_made_again(
    kernels: Path, cache: Path, damage: str
) -> None:
    with tracekit.open(kernels) as trace:
        store, rows = trace.store_path, trace.query("timeline").rows
    assert store is not None
    content = store.read_bytes()
    damaged = {
        "empty": b"",
        "text": b"no store",
        "half": content[: len(content) // 2],
        "header": b"\xff" * 8192 + content[8192:],
    }
    store.unlink()
    store.write_bytes(damaged[damage])
    with tracekit.open(kernels) as trace:
        assert trace.query("timeline").rows == rows
        assert trace.store_path == store


def test_the_oldest_stores_go_when_the_cache_is_full(
    tiny_trace: Callable[..., Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}
    sources = [tiny_trace([event], name=f"{at}.json") for at in range(3)]
    made = []
    for at, source in enumerate(sources):
        with tracekit.open(source) as trace:
            assert trace.store_path is not None
            made.append(trace.store_path)
        os.utime(made[-1], (1000 + at, 1000 + at))
    # The first one was used last.
    with tracekit.open(sources[0]):
        pass
    size = made[0].stat().st_size
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", str(2 * size + size // 2))
    with tracekit.open(tiny_trace([event], name="3.json")) as trace:
        newest = trace.store_path
    assert len(stores(cache)) == 2
    assert newest in stores(cache)
    assert made[1] not in stores(cache)
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", "0")
    with tracekit.open(tiny_trace([event], name="4.json")) as trace:
        assert stores(cache) == [trace.store_path]  # Never the one in use.


def test_clearing_the_cache(kernels: Path, cache: Path) -> None:
    assert database.clear_cache() == 0
    assert database.list_cached() == []
    with tracekit.open(kernels):
        pass
    (cache / "notes.txt").write_text("mine")
    (cache / "broken.duckdb").write_text("x")
    assert {entry.source_path for entry in database.list_cached()} == {str(kernels), "?"}
    assert database.clear_cache() == 2
    assert left_in(cache) == ["notes.txt"]


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", "~/stores")
    assert database.cache_dir() == Path.home() / "stores"
    monkeypatch.delenv("TRACEKIT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert database.cache_dir() == tmp_path / "tracekit"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # The standard says: ignore it.
    assert database.cache_dir() == Path.home() / ".cache" / "tracekit"


def test_no_cache_leaves_nothing(sample_trace: Path, cache: Path, tmp_path: Path) -> None:
    with tracekit.open(sample_trace, cache=False) as trace:
        assert trace.store_path is None
        assert trace.query("timeline").rows
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    with pytest.raises(tracekit.TraceError):
        tracekit.open(bad, cache=False)
    assert left_in(tmp_path / "tmp") == []
    assert not cache.exists()


# -- SQL stays inside ------------------------------------------------------------------------------

OUTSIDE = [
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_json('{secret}')",
    "SELECT * FROM parquet_scan('{secret}')",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM read_csv('https://example.com/x.csv')",
    "COPY event TO '{folder}/out.csv'",
    "COPY event FROM '{secret}'",
    "EXPORT DATABASE '{folder}/out'",
    "IMPORT DATABASE '{folder}'",
    "ATTACH '{folder}/new.duckdb' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{folder}/x.duckdb_extension'",
    "CREATE SECRET s (TYPE s3)",
    "SELECT getenv('HOME')",
    "SET memory_limit = '100GB'",
    "SET threads = 64",
    "RESET memory_limit",
    "PRAGMA memory_limit = '100GB'",
    "SET enable_external_access = TRUE",
    "SET lock_configuration = FALSE",
    "SET allowed_directories = ['/']",
    "SET disabled_filesystems = ''",
    "SET profiling_output = '{folder}/profile.json'",
    "PRAGMA enable_profiling",
]
ON_THE_STORE = [
    "COPY (SELECT 1) TO '{store}'",
    "COPY (SELECT 1) TO '{store}' (USE_TMP_FILE FALSE)",
    "COPY (SELECT 1) TO '{store}.wal'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{store}' (USE_TMP_FILE FALSE)",
    "PREPARE p AS COPY (SELECT 1) TO '{store}' (USE_TMP_FILE FALSE); EXECUTE p",
    "ATTACH '{store}.wal' AS other",
    "ATTACH '{store}' AS other",
    "SELECT * FROM read_blob('{store}')",
    "EXPORT DATABASE '{store}'",
    "CREATE TABLE mine AS SELECT 1",
    "INSERT INTO event SELECT * FROM event",
    "UPDATE trace SET rank = 5",
    "DELETE FROM event",
    "DROP TABLE event",
    "ALTER TABLE event ADD COLUMN x INTEGER",
    "DETACH store",
]


def refused(trace: tracekit.Trace, statements: list[str], **names: object) -> list[str]:
    """The statements that are not refused."""
    passed = []
    for statement in statements:
        try:
            trace.sql(statement.format(**names))
        except QueryError:
            continue
        passed.append(statement)
    return passed


@pytest.mark.parametrize("cached", [True, False])
def test_sql_reaches_no_file_no_network_and_no_setting(
    kernels: Path, tmp_path: Path, cached: bool
) -> None:
    secret = tmp_path / "outside" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("a\n1\n")
    with tracekit.open(kernels, cache=cached) as trace:
        assert refused(trace, OUTSIDE, secret=secret, folder=secret.parent) == []
        assert left_in(secret.parent) == ["secret.txt"]
        assert trace.query("timeline").rows


def test_sql_cannot_change_the_store(kernels: Path, cache: Path) -> None:
    with tracekit.open(kernels) as trace:
        store = trace.store_path
        assert store is not None
        before = store.read_bytes()
        assert refused(trace, ON_THE_STORE, store=store) == []
        # Nor by the name that DuckDB has for it.
        for (path,) in trace.sql("SELECT path FROM duckdb_databases() WHERE NOT internal").rows:
            by_name = [statement for statement in ON_THE_STORE if "read_blob" not in statement]
            assert path is None or refused(trace, by_name, store=path) == []
    assert store.read_bytes() == before
    assert stores(cache) == [store]


def test_unsafe_lifts_the_limits(kernels: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    with tracekit.open(kernels, unsafe=True) as trace:
        assert trace.sql(f"SELECT a FROM '{tmp_path}/x.csv'").rows == [(1,)]
        trace.sql(f"COPY event TO '{tmp_path}/out.csv'")
        trace.sql("SET threads = 1")
        with pytest.raises(QueryError):
            trace.sql("DELETE FROM event")
    assert (tmp_path / "out.csv").exists()


def test_sql_may_use_tables_of_its_own(kernels: Path) -> None:
    with tracekit.open(kernels) as trace:
        trace.sql("CREATE TEMP TABLE mine AS SELECT count(*) AS n FROM event")
        assert trace.sql("SELECT n FROM mine").rows == [(10,)]
        assert json.loads(trace.sql("SELECT to_json(t) FROM trace AS t").rows[0][0])["rank"] is None


def test_the_schema_version_stands_for_what_stores_hold() -> None:
    """Analyses of today read tables that a store of yesterday may lack: it must not be opened.

    Where this fails because a table was changed: raise SCHEMA_VERSION, then state both here.
    """
    catalog = load_catalog()
    derived = [*catalog.tables.values(), *catalog.views.values()]
    held = sorted(
        [table.name, *(f"{column.name} {column.type}" for column in table.columns)]
        for table in (*TABLES, *derived)
    )
    digest = hashlib.sha256(json.dumps(held).encode()).hexdigest()[:16]
    assert (SCHEMA_VERSION, digest) == (5, "428836c39ef9035e")
