"""A run folder is whole or absent."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit import manifest
from tracekit.collectors.run.folder import RunFolder
from tracekit.collectors.run.stale_dirs import (
    host_mark,
    register_owner,
    remove_stale,
    working_folder,
)
from tracekit.errors import StoreError, UsageError


def a_run(outcome: manifest.Outcome = "ok") -> manifest.Manifest:
    return manifest.Manifest(
        run_id="1",
        tracekit_version="0",
        created_at="now",
        stage="pretrain",
        engine="ddp",
        outcome=outcome,
    )


def make(target: Path, *, outcome: manifest.Outcome = "ok", force: bool = False) -> Path:
    with RunFolder(target, force=force) as folder:
        return folder.commit(a_run(outcome))


def test_it_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "run"
    with RunFolder(target) as folder:
        (folder.path / "rank0.json.gz").write_bytes(b"trace")
        (folder.work / "scratch").write_bytes(b"x")
        assert not target.exists()
        run = a_run()
        run.traces = ["rank0.json.gz"]
        assert folder.commit(run) == target
    assert sorted(path.name for path in target.iterdir()) == ["logs", "rank0.json.gz", "run.json"]
    assert [path.name for path in target.parent.iterdir()] == ["run"]
    assert manifest.read(target).traces == ["rank0.json.gz"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_of_one_that_was_not_finished(
    error: type[BaseException], tmp_path: Path
) -> None:
    def fail() -> None:
        with RunFolder(tmp_path / "run") as folder:
            (folder.path / "rank0.json.gz").write_bytes(b"trace")
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_is_missing_is_noticed(tmp_path: Path) -> None:
    run = a_run()
    run.traces = ["rank0.json.gz"]
    with pytest.raises(StoreError), RunFolder(tmp_path / "run") as folder:
        folder.commit(run)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_store_error(tmp_path: Path) -> None:
    target = tmp_path / "run"
    with pytest.raises(StoreError) as caught, RunFolder(target):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.message == (
        f"{target}: the run folder cannot be written: No space left on device"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("outcome", ["ok", "oom"])
def test_a_result_is_replaced_only_by_force(outcome: manifest.Outcome, tmp_path: Path) -> None:
    target = make(tmp_path / "run", outcome=outcome)
    with pytest.raises(UsageError, match="already holds a run"):
        make(target)
    make(target, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert manifest.read(target).outcome == "ok"


def test_a_failed_run_gives_way(tmp_path: Path) -> None:
    target = make(tmp_path / "run", outcome="failed")
    make(target)
    assert manifest.read(target).outcome == "ok"


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_run_folder_is_never_replaced(force: bool, tmp_path: Path) -> None:
    target = tmp_path / "mine"
    target.mkdir()
    (target / "thesis.txt").write_text("years of work", "utf-8")
    with pytest.raises(UsageError, match="exists and is no run folder, so it is not replaced"):
        make(target, force=force)
    assert (target / "thesis.txt").read_text("utf-8") == "years of work"


def test_an_empty_folder_may_be_the_target(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    make(tmp_path / "run")
    assert manifest.read(tmp_path / "run").outcome == "ok"


def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f".run.partial-{gone.pid}"
    (left / "logs").mkdir(parents=True)
    beside = [tmp_path / f".run.partial-{os.getppid()}", tmp_path / f".other.partial-{gone.pid}"]
    for folder in beside:
        folder.mkdir()
    make(tmp_path / "run")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "run", *beside])


def test_what_several_processes_made_is_left_over_when_none_of_them_runs(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here, job = host_mark(), "c0ffee0000000000"
    # Who makes it, by name and by what is inside; whether it is left over.
    cases = {
        f"{job}.{here}": ([gone.pid], True),
        f"d{job}.{here}": ([gone.pid, os.getppid()], False),
        f"e{job}.{here}": ([], False),
        f"{job}.another-host": ([gone.pid], False),
        f"{gone.pid}.another-host": ([], False),
        f"{gone.pid}.{here}": ([os.getppid()], True),
        f"{job}.{here}.made-{gone.pid}": ([], True),
        f"{job}.{here}.made-{os.getppid()}": ([gone.pid], False),
    }
    for mark, (makers, _) in cases.items():
        owners = working_folder(tmp_path / "run", mark) / ".work" / "owners"
        owners.mkdir(parents=True)
        for maker in makers:
            (owners / str(maker)).touch()
    remove_stale(tmp_path / "run")
    left = {path.name.partition("partial-")[2] for path in tmp_path.iterdir()}
    assert left == {mark for mark, (_, is_left_over) in cases.items() if not is_left_over}


def test_a_process_that_joins_a_run_keeps_its_folder(tmp_path: Path) -> None:
    folder = working_folder(tmp_path / "run", f"c0ffee.{host_mark()}")
    register_owner(folder)
    register_owner(folder)
    remove_stale(tmp_path / "run")
    assert [path.name for path in (folder / ".work" / "owners").iterdir()] == [str(os.getpid())]
