"""What lies on the disk: who may read it, what it is known by, and what is cleared away."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tracekit import database
from tracekit.database.cache import SAMPLE_BYTES, SAMPLE_COUNT
from tracekit.errors import StoreError
from tracekit.opening import ingest
from tracekit.storage import temp_dirs


def kernel(dur: int) -> dict[str, Any]:
    args = {"stream": 7, "device": 0, "correlation": 1}
    shown = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": dur}
    return shown | {"args": args}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def busy_ns(path: Path) -> int:
    with tracekit.open(path) as trace:
        return int(trace.query("timeline").to_dicts()[0]["busy_ns"])


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("way", ["in place", "renamed"])
def test_a_replacement_of_the_same_size_and_time(tiny_trace: Callable[..., Path], way: str) -> None:
    path = tiny_trace([kernel(3)])
    before = path.stat()
    assert busy_ns(path) == 3_000
    if way == "renamed":
        other = tiny_trace([kernel(5)], "other.json")
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.rename(path)
    else:
        path.write_text(path.read_text().replace('"dur": 3', '"dur": 5'))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert busy_ns(path) == 5_000


def test_what_a_file_is_known_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Head, middle and tail of the text count where all that the disk says is the same."""
    path = tmp_path / "trace.json"
    text = bytearray(os.urandom(3 * SAMPLE_COUNT * SAMPLE_BYTES))
    path.write_bytes(text)
    told = path.stat()
    monkeypatch.setattr(os, "fstat", lambda _: told)
    digests = {database.cached_store_path([path], "").name}
    for place in (0, len(text) // 2 + 100, len(text) - 1):
        text[place] ^= 1
        path.write_bytes(text)
        digests.add(database.cached_store_path([path], "").name)
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("mask", "mode", "expected"),
    [(0o022, 0o644, 0o644), (0o077, 0o644, 0o600), (0o022, 0o600, 0o600), (0o002, 0o440, 0o640)],
)
def test_nobody_reads_a_store_who_may_not_read_the_trace(
    tiny_trace: Callable[..., Path], cache: Path, mask: int, mode: int, expected: int
) -> None:
    path = tiny_trace([kernel(3)])
    path.chmod(mode)
    before = os.umask(mask)
    try:
        store = ingest([path], path.parent / "run.duckdb")
        with tracekit.open(path) as trace:
            cached = trace.store_path
    finally:
        os.umask(before)
    assert cached is not None
    for made in (store, cached):
        assert stat.S_IMODE(made.stat().st_mode) == expected
    # Names tell something too.
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_nobody_reads_what_is_spilled(
    tiny_trace: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spill = tmp_path / "tmp"
    spill.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spill))
    store = ingest([tiny_trace([kernel(3)])], tmp_path / "run.duckdb")
    before = os.umask(0)
    try:
        with tracekit.open(store) as trace:
            (folder,) = spill.iterdir()
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            ((told,),) = trace.sql("SELECT current_setting('temp_directory')").rows
            assert Path(told) == folder
    finally:
        os.umask(before)
    assert not list(spill.iterdir())


def test_what_killed_processes_left_is_swept(
    tiny_trace: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "tmp"
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
    with tracekit.open(tiny_trace([kernel(3)]), cache=False) as trace:
        assert trace.query("timeline").rows
    left = {path.name for path in top.iterdir()}
    assert left == {*kept, f"tracekit-{host}-{dead.pid}-link"}


def test_a_cache_that_cannot_be_cleared(
    tiny_trace: Callable[..., Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy_ns(tiny_trace([kernel(3)]))

    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StoreError, match=r"\.duckdb: cannot be removed: Permission denied$"):
        database.clear_cache()
    # What is only good housekeeping keeps nobody from an answer.
    tiny_trace([kernel(4), kernel(4)])
    monkeypatch.setenv("TRACEKIT_CACHE_LIMIT_BYTES", "0")
    assert busy_ns(tiny_trace([kernel(4)])) == 4_000


def test_a_store_whose_name_is_taken_meanwhile(
    tiny_trace: Callable[..., Path], tmp_path: Path
) -> None:
    path, output = tiny_trace([kernel(3)]), tmp_path / "run.duckdb"

    def come_between(_: object) -> None:
        output.write_text("precious")

    with pytest.raises(StoreError, match="exists already"):
        ingest([path], output, progress=come_between)
    assert output.read_text() == "precious"
    assert {file.name for file in tmp_path.iterdir()} == {"trace.json", "run.duckdb"}
    ingest([path], output, force=True, progress=come_between)
    assert busy_ns(output) == 3_000


def test_a_store_on_a_disk_without_hard_links(
    tiny_trace: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    path, output = tiny_trace([kernel(3)]), tmp_path / "run.duckdb"
    assert busy_ns(ingest([path], output)) == 3_000
