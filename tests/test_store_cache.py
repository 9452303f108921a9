"""The cache of stores: reuse, replacement, eviction, and permissions of files."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from store_folders import left_in, stores
from traces_by_hand import kernel

import tracekit
from tracekit.analysis import catalog
from tracekit.database import cache as cached_stores
from tracekit.database.cache import SAMPLE_BYTES, SAMPLE_COUNT
from tracekit.errors import StoreError
from tracekit.opening import ingest
from tracekit.schema import SCHEMA_VERSION
from tracekit.storage import temp_dirs

pytestmark = pytest.mark.usefixtures("cache")


def lasting(dur):
    return kernel("k", 1, 1 + dur, 1)


def busy_ns(path):
    with tracekit.open(path) as trace:
        return int(trace.query("timeline").to_dicts()[0]["busy_ns"])


def test_a_trace_is_ingested_once(kernels, cache, monkeypatch):
    with tracekit.open(kernels) as first:
        rows, store = first.query("timeline").rows, first.store_path
        assert stores(cache) == [store]
    monkeypatch.setattr(tracekit.opening, "_filled", None)
    os.utime(store, (1, 1))
    with tracekit.open(kernels) as second:
        assert second.query("timeline").rows == rows
        assert second.store_path == store
    assert store.stat().st_mtime > 1  # It counts as used.
    with tracekit.open(str(kernels.parent / "." / kernels.name)) as third:
        assert third.store_path == store
    (cached,) = cached_stores.list_cached()
    assert (cached.path, cached.source_path) == (store, str(kernels))
    assert cached.size_bytes == store.stat().st_size


def test_a_changed_trace_is_ingested_again(kernels, cache):
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
    assert stores(cache) == [third]  # Stores of older versions of the file are removed.


def test_the_key_of_a_cached_store(kernels, tiny_trace, monkeypatch):
    other = tiny_trace(kernels.read_bytes(), name="other.json")
    os.utime(other, ns=(kernels.stat().st_atime_ns, kernels.stat().st_mtime_ns))
    path = cached_stores.cached_store_path
    paths = ([kernels], [other], [kernels, other], [other, kernels])
    keys = [path(given, "d") for given in paths]
    assert path([kernels], "d") == keys[0]
    keys.append(path([kernels], "e"))
    assert keys[0].name.split("-")[0] == keys[4].name.split("-")[0]
    monkeypatch.setattr(cached_stores, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    keys.append(path([kernels], "d"))
    assert len(set(keys)) == 6
    with tracekit.open(kernels) as trace:
        store = trace.store_path
    monkeypatch.setattr(catalog, "_digest_of_package", lambda _package: b"of other code")
    with tracekit.open(kernels) as trace:
        assert trace.store_path != store


def test_rules_are_part_of_the_key(kernels, cache, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nclass = "norm"\napplies_to = "device"\npattern = "^k$"\n')
    with tracekit.open(kernels) as plain, tracekit.open(kernels, rules=rules) as own:
        assert plain.query("kernel_classes").column("class") == ["other"]
        assert own.query("kernel_classes").column("class") == ["norm"]
        assert plain.store_path != own.store_path


def test_the_least_recently_used_stores_are_evicted(kernels, tiny_trace, cache, monkeypatch):
    with tracekit.open(kernels) as trace:
        first = trace.store_path
    others = [cache / f"{at:016x}-{0:024x}.duckdb" for at in range(2)]
    for at, store in enumerate((first, *others)):
        if store != first:
            shutil.copyfile(first, store)
        os.utime(store, (1000 + at, 1000 + at))
    # The first store is used last.
    with tracekit.open(kernels):
        pass
    size = first.stat().st_size
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", str(2 * size + size // 2))
    with tracekit.open(tiny_trace(kernels.read_bytes(), name="3.json")) as trace:
        assert set(stores(cache)) == {first, trace.store_path}
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", "0")
    with tracekit.open(tiny_trace(kernels.read_bytes(), name="4.json")) as trace:
        assert stores(cache) == [trace.store_path]  # Never the store in use.


def test_clearing_the_cache(kernels, cache, monkeypatch):
    assert cached_stores.clear_cache() == 0
    assert cached_stores.list_cached() == []
    with tracekit.open(kernels):
        pass
    mine = ["my.tracekit", "notes.txt", "results.duckdb"]
    for name in mine[1:]:
        (cache / name).write_text("mine")
    (cache / mine[0]).mkdir()
    (cache / f"{0:016x}-{0:024x}.duckdb").write_text("x")
    assert {entry.source_path for entry in cached_stores.list_cached()} == {str(kernels), "?"}
    assert cached_stores.clear_cache() == 2
    assert left_in(cache) == mine
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", "0")
    with tracekit.open(kernels) as trace:
        assert left_in(cache) == sorted([*mine, trace.store_path.name])


def test_a_cache_that_every_user_can_write_is_not_used(kernels, cache, caplog):
    with tracekit.open(kernels) as trace:
        store = trace.store_path
    # Another user's file has the name of the store.
    store.write_bytes(b"theirs")
    cache.chmod(0o1777)
    with tracekit.open(kernels) as trace:
        assert trace.query("timeline").rows
        assert trace.store_path is None
    assert store.read_bytes() == b"theirs"
    assert f"{cache}: " in caplog.text
    assert not cached_stores.is_writable_by_all(cache / "missing")


def test_the_folder_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", "~/stores")
    assert cached_stores.cache_dir() == Path.home() / "stores"
    monkeypatch.delenv("TRACEKIT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cached_stores.cache_dir() == tmp_path / "tracekit"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # Ignored, by the standard.
    assert cached_stores.cache_dir() == Path.home() / ".cache" / "tracekit"


def test_no_cache_leaves_nothing(kernels, cache, tmp_path):
    with tracekit.open(kernels, cache=False) as trace:
        assert trace.store_path is None
        assert trace.query("timeline").rows
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    with pytest.raises(tracekit.TraceError):
        tracekit.open(bad, cache=False)
    assert left_in(tmp_path / "tmp") == []
    assert not cache.exists()


@pytest.mark.parametrize("way", ["in place", "renamed"])
def test_a_replacement_of_the_same_size_and_time(tiny_trace, way):
    path = tiny_trace([lasting(3)])
    before = path.stat()
    assert busy_ns(path) == 3_000
    if way == "renamed":
        other = tiny_trace([lasting(5)], "other.json")
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.rename(path)
    else:
        path.write_text(path.read_text().replace('"dur": 3', '"dur": 5'))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert busy_ns(path) == 5_000


def test_the_key_depends_on_samples_of_the_text(tmp_path, monkeypatch):
    """They are from the head, the middle, and the tail."""
    path = tmp_path / "trace.json"
    text = bytearray(os.urandom(3 * SAMPLE_COUNT * SAMPLE_BYTES))
    path.write_bytes(text)
    status = path.stat()
    monkeypatch.setattr(os, "fstat", lambda _: status)
    digests = {cached_stores.cached_store_path([path], "").name}
    for place in (0, len(text) // 2 + 100, len(text) - 1):
        text[place] ^= 1
        path.write_bytes(text)
        digests.add(cached_stores.cached_store_path([path], "").name)
    assert len(digests) == 4


def test_a_store_has_at_most_the_permissions_of_its_trace(tiny_trace, cache):
    for number, (mask, mode, expected) in enumerate(
        ((0o022, 0o644, 0o644), (0o077, 0o644, 0o600), (0o022, 0o600, 0o600), (0o002, 0o440, 0o640))
    ):
        path = tiny_trace([lasting(3)], f"{number}.json")
        path.chmod(mode)
        before = os.umask(mask)
        try:
            with tracekit.open(path) as trace:
                assert trace.store_path is not None
                made = [trace.store_path]
            if number < 2:
                made.append(ingest([path], path.parent / f"{number}.duckdb"))
        finally:
            os.umask(before)
        assert {stat.S_IMODE(store.stat().st_mode) for store in made} == {expected}
    # Names of cached stores are private, too.
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_spilled_data_is_private(tiny_trace, tmp_path, monkeypatch):
    spill = tmp_path / "spill"
    spill.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spill))
    store = ingest([tiny_trace([lasting(3)])], tmp_path / "run.duckdb")
    before = os.umask(0)
    try:
        with tracekit.open(store) as trace:
            (folder,) = spill.iterdir()
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            ((temp_directory,),) = trace.sql("SELECT current_setting('temp_directory')").rows
            assert Path(temp_directory) == folder
    finally:
        os.umask(before)
    assert not list(spill.iterdir())


def test_leftovers_of_killed_processes_are_removed(tiny_trace, tmp_path, monkeypatch):
    top = tmp_path / "top"
    top.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(top))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = temp_dirs.host()
    gone = [f"tracekit-{host}-{dead.pid}-abc", f"tracekit-{host}-{2**22 + 1}-abc"]
    kept = [f"tracekit-{host}-{os.getpid()}-abc", f"tracekit-0000host-{dead.pid}-abc", "tracekit-x"]
    for name in gone + kept:
        (top / name).mkdir()
        (top / name / "spill").write_bytes(b"0" * 100)
    (top / f"tracekit-{host}-{dead.pid}-link").symlink_to(tmp_path)
    with tracekit.open(tiny_trace([lasting(3)]), cache=False) as trace:
        assert trace.query("timeline").rows
    left = {path.name for path in top.iterdir()}
    assert left == {*kept, f"tracekit-{host}-{dead.pid}-link"}


def test_a_cache_that_cannot_be_cleared(tiny_trace, cache, monkeypatch):
    busy_ns(tiny_trace([lasting(3)]))
    refused = PermissionError(13, "Permission denied", "x.duckdb")
    monkeypatch.setattr(Path, "unlink", Mock(side_effect=refused))
    with pytest.raises(StoreError, match=r"\.duckdb: "):
        cached_stores.clear_cache()
    # A failed eviction does not affect the answer.
    tiny_trace([lasting(4), lasting(4)])
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", "0")
    assert busy_ns(tiny_trace([lasting(4)])) == 4_000


def test_an_output_that_appears_during_ingest(tiny_trace, tmp_path):
    path, output = tiny_trace([lasting(3)]), tmp_path / "run.duckdb"

    def come_between(_):
        output.write_text("precious")

    with pytest.raises(StoreError, match=r"run\.duckdb"):
        ingest([path], output, progress=come_between)
    assert output.read_text() == "precious"
    assert {file.name for file in tmp_path.iterdir()} == {"trace.json", "run.duckdb", "tmp"}
    ingest([path], output, force=True, progress=come_between)
    assert busy_ns(output) == 3_000


def test_a_store_on_a_disk_without_hard_links(tiny_trace, tmp_path, monkeypatch):
    refused = OSError(95, "Operation not supported")
    monkeypatch.setattr(Path, "hardlink_to", Mock(side_effect=refused))
    path, output = tiny_trace([lasting(3)]), tmp_path / "run.duckdb"
    assert busy_ns(ingest([path], output)) == 3_000
