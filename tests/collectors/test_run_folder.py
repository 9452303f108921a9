"""A run folder is complete or absent; the fragments of a job become one run."""

import errno
import multiprocessing
import os
import subprocess
import sys

import pytest

from tracekit import manifest
from tracekit.collectors.run.folder import (
    RunFolder,
    host_mark,
    register_owner,
    remove_stale,
    working_folder,
)
from tracekit.collectors.run.fragments import commit_fragment, rewrite
from tracekit.errors import StoreError, UsageError


def a_run(outcome="ok"):
    return manifest.Manifest("1", "0", "now", "pretrain", "ddp", outcome=outcome)


def make(target, *, outcome="ok", force=False):
    with RunFolder(target, force=force) as folder:
        return folder.commit(a_run(outcome))


def test_a_run_folder_appears_when_it_is_complete(tmp_path):
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


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError(), ValueError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(errno.ENOSPC, "No space left on device"), StoreError),
        (None, StoreError),
    ],
)
def test_an_unfinished_run_leaves_no_files(error, raised, tmp_path):
    """After an error, a full disk, or a missing trace."""
    run = a_run()
    run.traces = ["rank1.json.gz"]

    def fail():
        with RunFolder(tmp_path / "run") as folder:
            (folder.path / "rank0.json.gz").write_bytes(b"trace")
            if error is not None:
                raise error
            folder.commit(run)

    with pytest.raises(raised):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("outcome", ["ok", "oom"])
def test_a_result_is_replaced_only_by_force(outcome, tmp_path):
    target = make(tmp_path / "run", outcome=outcome)
    with pytest.raises(UsageError, match="already contains a run"):
        make(target)
    make(target, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert manifest.read(target).outcome == "ok"


def test_a_failed_run_or_an_empty_folder_gives_way(tmp_path):
    (tmp_path / "empty").mkdir()
    for target in (make(tmp_path / "run", outcome="failed"), tmp_path / "empty"):
        make(target)
        assert manifest.read(target).outcome == "ok"


@pytest.mark.parametrize("force", [False, True])
def test_other_folders_are_never_replaced(force, tmp_path):
    target = tmp_path / "mine"
    target.mkdir()
    (target / "thesis.txt").write_text("years of work", "utf-8")
    with pytest.raises(UsageError, match="is not a run folder"):
        make(target, force=force)
    assert (target / "thesis.txt").read_text("utf-8") == "years of work"


def test_remains_of_a_killed_process_are_removed(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f".run.partial-{gone.pid}"
    (left / "logs").mkdir(parents=True)
    beside = [tmp_path / f".run.partial-{os.getppid()}", tmp_path / f".other.partial-{gone.pid}"]
    for folder in beside:
        folder.mkdir()
    make(tmp_path / "run")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "run", *beside])


def test_remains_of_several_processes_are_removed_once_all_have_ended(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here, job = host_mark(), "c0ffee0000000000"
    # Owner by name and by content, and whether the folder is stale.
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


def test_a_process_that_joins_a_run_keeps_its_folder(tmp_path):
    folder = working_folder(tmp_path / "run", f"c0ffee.{host_mark()}")
    register_owner(folder)
    register_owner(folder)
    remove_stale(tmp_path / "run")
    assert [path.name for path in (folder / ".work" / "owners").iterdir()] == [str(os.getpid())]


def fragment(folder, ranks, job_id="job"):
    (folder / "logs").mkdir(parents=True)
    for rank in ranks:
        (folder / f"rank{rank}.json.gz").write_bytes(b"trace")
    return manifest.Manifest(
        run_id=f"of-{ranks[0]}",
        tracekit_version="1",
        created_at="now",
        stage="custom",
        engine="ddp",
        job_id=job_id,
        parallel=manifest.Parallel(world_size=4, data_size=4),
        repeats=[manifest.Repeat(tokens_per_s=1.0, wall_ns=1, step_ns=[1])],
        overhead=manifest.Overhead(export_stall_ns=10 * (ranks[0] + 1)),
        ranks=[
            manifest.Rank(rank, host_name=f"host{rank // 2}", token_count=100, wall_ns=50 + rank)
            for rank in ranks
        ],
        traces=[f"rank{rank}.json.gz" for rank in ranks],
    )


def test_the_second_part_joins_the_first(tmp_path):
    target = tmp_path / "run"
    for ranks in ([2, 3], [0, 1]):
        made = tmp_path / f".made{ranks[0]}"
        assert commit_fragment(made, target, fragment(made, ranks), force=False) == target
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    run = manifest.read(target)
    assert [rank.rank for rank in run.ranks] == [0, 1, 2, 3]
    assert run.traces == [f"rank{rank}.json.gz" for rank in range(4)]
    assert all((target / name).is_file() for name in run.traces)
    assert run.run_id == "of-0"
    assert run.parallel.node_count == 2
    # Each of four data-parallel ranks has 100 tokens; the slowest takes 53 ns.
    assert run.tokens_per_s_mean == pytest.approx(400 / 53e-9)
    assert run.repeats[0].tokens_per_s == run.tokens_per_s_mean
    assert run.overhead.export_stall_ns == 30


def test_fragments_without_tokens_keep_their_step_times(tmp_path):
    parts = [fragment(tmp_path / name, ranks) for name, ranks in (("a", [0, 1]), ("b", [2, 3]))]
    for part in parts:
        part.repeats = [manifest.Repeat(tokens_per_s=None, wall_ns=50, step_ns=[50])]
        for rank in part.ranks:
            rank.token_count = 0
    joined = manifest.join_fragments(parts)
    assert joined.repeats == [manifest.Repeat(tokens_per_s=None, wall_ns=53, step_ns=[50])]
    assert joined.tokens_per_s_mean is None


@pytest.mark.parametrize("other", [("else", [2, 3]), (None, [2, 3]), ("job", [0, 1])])
def test_other_runs_get_another_name(tmp_path, other):
    target, made = tmp_path / "run", tmp_path / ".made"
    commit_fragment(made, target, fragment(made, [0, 1]), force=False)
    job_id, ranks = other
    assert (
        commit_fragment(made, target, fragment(made, ranks, job_id), force=False)
        == tmp_path / "run-2"
    )
    assert manifest.read(target).traces == ["rank0.json.gz", "rank1.json.gz"]
    assert commit_fragment(made, target, fragment(made, ranks, job_id), force=True) == target
    assert manifest.read(target).traces == [f"rank{rank}.json.gz" for rank in ranks]


def test_how_a_part_ended_changes_no_other(tmp_path):
    target, made = tmp_path / "run", tmp_path / ".made"
    first = fragment(made, [0, 1])
    commit_fragment(made, target, first, force=False)
    second = fragment(made, [2, 3])
    commit_fragment(made, target, second, force=False)
    first.exit_code = 3
    rewrite(first, target)
    run = manifest.read(target)
    assert run.exit_code == 3
    assert [rank.rank for rank in run.ranks] == [0, 1, 2, 3]
    assert len(run.traces) == 4


def _commit(folder, rank):
    made = folder / f".made{rank}"
    commit_fragment(made, folder / "run", fragment(made, [rank]), force=False)


def test_parts_that_come_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_commit, args=(tmp_path, rank)) for rank in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [rank.rank for rank in manifest.read(tmp_path / "run").ranks] == [0, 1, 2, 3]
