"""Disk errors during ingest are one error and leave no files."""

import errno
import os
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from store_folders import left_in

import tracekit
from tracekit.analysis.library import library_file
from tracekit.database import connections
from tracekit.database.building import build_store
from tracekit.errors import StoreError
from tracekit.opening import ingest

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of 1 MB; this needs root."""
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


def test_a_full_disk_is_one_error(small_disk, sample_trace):
    store = small_disk / "run.duckdb"
    with pytest.raises(StoreError) as raised:
        ingest([sample_trace], store)
    assert raised.value.message.startswith(f"{store}: ")
    assert "TRACEKIT_CACHE_DIR" in str(raised.value.hint)
    assert left_in(small_disk) == []


@pytest.fixture
def run_of_requests(make_run):
    """Return a run folder with 2 MB of requests, which pass through a temporary file."""
    failed = {"outcome": "failed", "reason": "x" * 60}
    return make_run("run", [{"request_id": n, **failed} for n in range(20_000)], stage="serve")


def test_a_full_temporary_folder_is_one_error(small_disk, run_of_requests, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    with pytest.raises(StoreError, match="full"):
        tracekit.open(run_of_requests, cache=False)
    assert left_in(small_disk) == []


def test_a_full_temporary_folder_with_counter_files(small_disk, kernels, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    counters = tmp_path / "power.csv"
    lines = (f"{1_700_000_000 + at},0,{at % 997}.{at:06}" for at in range(300_000))
    counters.write_text("timestamp,index,power.draw [W]\n" + "\n".join(lines))
    with pytest.raises(StoreError, match="full"):
        tracekit.open(kernels, counters, cache=False)
    assert left_in(small_disk) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
def test_disk_errors(run_of_requests, tmp_path, monkeypatch, number):
    real = Path.open

    def fail(path, mode="r", *args, **more):
        if path.parent.name.endswith(".building") and "w" in mode:
            raise OSError(number, os.strerror(number))
        return real(path, mode, *args, **more)

    monkeypatch.setattr(Path, "open", fail)
    store = tmp_path / "out" / "run.duckdb"
    with pytest.raises(StoreError) as raised:
        ingest([run_of_requests], store)
    assert raised.value.message.startswith(f"{store}: ")
    assert raised.value.exit_code == 4
    assert left_in(tmp_path / "out") == []


def test_no_temporary_folder_is_one_error(kernels, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(tempfile, "mkdtemp", Mock(side_effect=full))
    with pytest.raises(StoreError, match="full"):
        tracekit.open(kernels, cache=False)
    with pytest.raises(StoreError, match="full"):
        tracekit.open(kernels)


def test_a_read_only_folder(kernels, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(StoreError, match=r"run\.duckdb"):
        ingest([kernels], folder / "run.duckdb")


def test_outputs_that_cannot_be_written(kernels, tmp_path):
    """The folder is a file, or the output is a folder."""
    (tmp_path / "file").write_text("")
    (tmp_path / "run.duckdb").mkdir()
    for store in (tmp_path / "file" / "run.duckdb", tmp_path / "run.duckdb"):
        with pytest.raises(StoreError, match=f"^{store}: "):
            ingest([kernels], store, force=True)


def test_the_store_of_a_removed_trace_is_private(tmp_path):
    """The permissions of the trace are unknown."""
    source, store = tmp_path / "trace.json", tmp_path / "run.duckdb"
    source.write_text("{}")
    with build_store(store, [source], library=library_file()):
        source.unlink()
    assert store.stat().st_mode & 0o777 == 0o600


def test_the_full_disk_is_named(tmp_path, monkeypatch):
    temporary = Path(tempfile.gettempdir())

    def free(folder):
        return SimpleNamespace(free=0 if folder == temporary else 1_000_000)

    monkeypatch.setattr(connections.shutil, "disk_usage", free)
    full = pytest.raises(StoreError, match=f"^{temporary}: ")
    with full, connections.explained(tmp_path / "run.duckdb"):
        raise OSError(errno.ENOSPC, "No space left on device")
