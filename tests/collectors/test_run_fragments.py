"""The fragments of a job become one run: in one folder, or as folders that are given together."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import pytest

from tracekit import manifest
from tracekit.collectors.run.fragments import commit_fragment, rewrite


def fragment(folder: Path, ranks: Sequence[int], job_id: str | None = "job") -> manifest.Manifest:
    """Make the folder of a fragment, with a trace of each rank, and return its manifest."""
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


def test_the_second_part_joins_the_first(tmp_path: Path) -> None:
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
    assert run.overhead is not None
    assert run.overhead.export_stall_ns == 30


def test_fragments_without_tokens_keep_their_step_times(tmp_path: Path) -> None:
    parts = [fragment(tmp_path / name, ranks) for name, ranks in (("a", [0, 1]), ("b", [2, 3]))]
    for part in parts:
        part.repeats = [manifest.Repeat(tokens_per_s=None, wall_ns=50, step_ns=[50])]
        for rank in part.ranks:
            rank.token_count = 0
    joined = manifest.join_fragments(parts)
    assert joined.repeats == [manifest.Repeat(tokens_per_s=None, wall_ns=53, step_ns=[50])]
    assert joined.tokens_per_s_mean is None


@pytest.mark.parametrize("other", [("else", [2, 3]), (None, [2, 3]), ("job", [0, 1])])
def test_what_is_no_part_gets_a_name_of_its_own(
    tmp_path: Path, other: tuple[str | None, list[int]]
) -> None:
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


def test_how_a_part_ended_changes_no_other(tmp_path: Path) -> None:
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


def _commit(folder: Path, rank: int) -> None:
    made = folder / f".made{rank}"
    commit_fragment(made, folder / "run", fragment(made, [rank]), force=False)


def test_parts_that_come_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_commit, args=(tmp_path, rank)) for rank in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [rank.rank for rank in manifest.read(tmp_path / "run").ranks] == [0, 1, 2, 3]
