"""The cache knows what it holds: what is ingested once, again, and forgotten."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_folders import left_in, stores
from traces_by_hand import kernel

import tracekit
from tracekit import database
from tracekit.analysis import catalog
from tracekit.schema import SCHEMA_VERSION

pytestmark = pytest.mark.usefixtures("cache")


def test_a_trace_is_ingested_once(
    kernels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tracekit.open(kernels) as first:
        rows, store = first.query("timeline").rows, first.store_path
        assert stores(cache) == [store]

    def fail(*_: object) -> None:
        raise AssertionError("ingested again")

    monkeypatch.setattr(tracekit.opening, "_filled", fail)
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
    monkeypatch.setattr(database.cache, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    assert database.cached_store_path([kernels], "") != before


def test_other_code_is_a_new_key(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tracekit.open(kernels) as trace:
        store = trace.store_path
    monkeypatch.setattr(catalog, "_digest_of_package", lambda _package: b"of other code")
    with tracekit.open(kernels) as trace:
        assert trace.store_path != store


def test_rules_are_part_of_the_key(kernels: Path, cache: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nclass = "norm"\napplies_to = "device"\npattern = "^k$"\n')
    with tracekit.open(kernels) as plain, tracekit.open(kernels, rules=rules) as own:
        assert plain.query("kernel_classes").column("class") == ["other"]
        assert own.query("kernel_classes").column("class") == ["norm"]
        assert plain.store_path != own.store_path


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[Any]]:
    """Return a trace, its store in a cache, and the rows of its timeline."""
    folder = tmp_path_factory.mktemp("cached")
    trace_path = folder / "trace.json"
    trace_path.write_text(json.dumps({"traceEvents": [kernel("k", 0, 1), kernel("k", 2, 3)]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEKIT_CACHE_DIR", str(folder / "cache"))
        with tracekit.open(trace_path) as trace:
            assert trace.store_path is not None
            return trace_path, trace.store_path, trace.query("timeline").rows


@pytest.mark.parametrize("damage", ["empty", "text", "half", "header"])
def test_a_damaged_store_in_the_cache_is_made_again(
    cached: tuple[Path, Path, list[Any]], cache: Path, damage: str
) -> None:
    path, whole, rows = cached
    content = whole.read_bytes()
    damaged = {
        "empty": b"",
        "text": b"no store",
        "half": content[: len(content) // 2],
        "header": b"\xff" * 8192 + content[8192:],
    }
    cache.mkdir(mode=0o700)
    store = cache / whole.name
    store.write_bytes(damaged[damage])
    with tracekit.open(path) as trace:
        assert trace.query("timeline").rows == rows
        assert trace.store_path == store


def test_the_oldest_stores_go_when_the_cache_is_full(
    kernels: Path,
    tiny_trace: Callable[..., Path],
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tracekit.open(kernels) as trace:
        first = trace.store_path
    assert first is not None
    others = [cache / f"{at:016x}-{0:024x}.duckdb" for at in range(2)]
    for at, store in enumerate((first, *others)):
        if store != first:
            shutil.copyfile(first, store)
        os.utime(store, (1000 + at, 1000 + at))
    # The first one was used last.
    with tracekit.open(kernels):
        pass
    size = first.stat().st_size
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", str(2 * size + size // 2))
    with tracekit.open(tiny_trace(kernels.read_bytes(), name="3.json")) as trace:
        assert set(stores(cache)) == {first, trace.store_path}
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", "0")
    with tracekit.open(tiny_trace(kernels.read_bytes(), name="4.json")) as trace:
        assert stores(cache) == [trace.store_path]  # Never the one in use.


def test_clearing_the_cache(kernels: Path, cache: Path) -> None:
    assert database.clear_cache() == 0
    assert database.list_cached() == []
    with tracekit.open(kernels):
        pass
    (cache / "notes.txt").write_text("mine")
    (cache / f"{0:016x}-{0:024x}.duckdb").write_text("x")
    assert {entry.source_path for entry in database.list_cached()} == {str(kernels), "?"}
    assert database.clear_cache() == 2
    assert left_in(cache) == ["notes.txt"]


def test_clearing_the_cache_leaves_what_it_did_not_make(
    kernels: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tracekit.open(kernels):
        pass
    mine = [cache / "results.duckdb", cache / "my.tracekit"]
    mine[0].write_bytes(b"mine")
    mine[1].mkdir()
    assert database.clear_cache() == 1
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", "0")
    with tracekit.open(kernels):
        pass
    assert all(file.exists() for file in mine)


def test_a_cache_that_every_user_can_write_is_not_used(
    kernels: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with tracekit.open(kernels) as trace:
        store = trace.store_path
    assert store is not None
    # What somebody put there under the name of the store.
    store.write_bytes(b"theirs")
    cache.chmod(0o1777)
    with tracekit.open(kernels) as trace:
        assert trace.query("timeline").rows
        assert trace.store_path is None
    assert store.read_bytes() == b"theirs"
    assert f"{cache}: every user can write this folder" in caplog.text
    assert not database.is_writable_by_all(cache / "missing")


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", "~/stores")
    assert database.cache_dir() == Path.home() / "stores"
    monkeypatch.delenv("TRACEKIT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert database.cache_dir() == tmp_path / "tracekit"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # The standard says: ignore it.
    assert database.cache_dir() == Path.home() / ".cache" / "tracekit"


def test_no_cache_leaves_nothing(kernels: Path, cache: Path, tmp_path: Path) -> None:
    with tracekit.open(kernels, cache=False) as trace:
        assert trace.store_path is None
        assert trace.query("timeline").rows
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    with pytest.raises(tracekit.TraceError):
        tracekit.open(bad, cache=False)
    assert left_in(tmp_path / "tmp") == []
    assert not cache.exists()
