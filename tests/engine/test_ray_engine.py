"""A real local Ray does 16 ranks, a worker is killed meanwhile, and all is as a loop does it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest
from traces_by_hand import call, kernel, span

from tracekit.dataset.manifest import Manifest
from tracekit.engine import engines, ray_engine
from tracekit.engine.dataset_writer import make_dataset, recipe_of
from tracekit.engine.work import Batch, BatchResult, JobSpec, Rank
from tracekit.errors import UsageError
from tracekit.storage import Location
from tracekit.units import MB

RANK_COUNT = 16
MEMORY_BYTES = 256 * MB


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if find_spec("ray") is None:
        pytest.skip("the extra ray is not installed")
    # Imported as the engine does it: Ray takes settings only then.
    return ray_engine.import_ray(is_cluster=False)


@pytest.fixture
def ranks(tiny_trace: Callable[..., Path]) -> list[Rank]:
    """Return sixteen ranks whose steps differ, one of which cannot be read."""
    made = []
    for rank in range(RANK_COUNT):
        events = [
            event for step in range(40) for event in _step(1000 * step, step, 10 * rank + step)
        ]
        top = {"distributedInfo": {"rank": rank, "world_size": RANK_COUNT, "backend": "nccl"}}
        content = b"no trace at all" if rank == 11 else events
        path = tiny_trace(content, f"rank{rank}.json", **top)
        # Said to be so large that four share a batch.
        made.append(Rank(rank, Location.of(path), 18 * MB, Location.of(path).identity()))
    return made


def _step(start: int, number: int, late: int) -> list[dict[str, Any]]:
    first = 3 * number + 1
    meta = {"Collective name": "allreduce", "In msg nelems": 1000, "Group size": RANK_COUNT}
    return [
        span("user_annotation", f"ProfilerStep#{number}", start, start + 900),
        span("cpu_op", "aten::mm", start + 5, start + 40),
        call(start + 10, start + 12, first),
        kernel("gemm_kernel", start + 20, start + 200 + late, first),
        call(start + 50, start + 52, first + 1),
        kernel(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            start + 200 + late,
            start + 700,
            first + 1,
            stream=9,
            **{**meta, "dtype": "Float", "Process Group Name": "0", "Seq": number},
        ),
        call(start + 60, start + 62, first + 2),
        kernel("Memcpy DtoH (Device -> Pageable)", start + 720, start + 730, first + 2),
    ]


class Watched:
    def __init__(self, engine: engines.Engine) -> None:
        self._engine = engine
        self.results: list[BatchResult] = []

    @property
    def worker_count(self) -> int:
        return self._engine.worker_count

    def run(self, batches: Sequence[Batch], job: JobSpec) -> Generator[BatchResult, None, None]:
        for result in self._engine.run(batches, job):
            self.results.append(result)
            yield result


def made_by(engine: engines.Engine, ranks: Sequence[Rank], folder: Path) -> Manifest:
    # test_equality.py has all that a dataset keeps done in processes, too.
    analyses = ("trace", "timeline", "kernel_classes", "collectives")
    job = JobSpec(
        analyses=analyses,
        dataset=Location.of(folder),
        recipe=recipe_of(None, analyses),
        memory_bytes=MEMORY_BYTES,
    )
    return make_dataset(ranks, job, engine)


def workers_at_work() -> list[int]:
    """Return the processes that do a task of Ray for this one at this moment.

    The folder of a session is named after the process that began it; others may run beside it.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes()
            if title.startswith(b"ray::do_batch"):
                output = (folder / "fd" / "1").readlink()
                if any(part.endswith(f"_{os.getpid()}") for part in output.parts):
                    found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.nightly("starts a Ray cluster")
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds a worker by /proc")
def test_a_killed_worker_changes_nothing(ray: Any, ranks: list[Rank], tmp_path: Path) -> None:
    expected = made_by(engines.make_engine("serial", 1), ranks, tmp_path / "serial.tracekit")
    engine = Watched(engines.make_engine("ray", 2))
    killed: list[int] = []
    is_over = threading.Event()

    def kill_one() -> None:
        while not killed and not is_over.wait(0.01):
            for process_id in workers_at_work()[:1]:
                os.kill(process_id, signal.SIGKILL)
                killed.append(process_id)

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        made = made_by(engine, ranks, tmp_path / "ray.tracekit")
    finally:
        is_over.set()
        killer.join()
    # It was killed in the middle, and its four ranks were done again, each for itself; on a busy
    # machine the signal may come when the batch is done already.
    assert len(killed) == 1
    done = sorted(len(result.batch.ranks) for result in engine.results)
    assert done in (4 * [1] + 3 * [4], 4 * [4])
    assert [missing.trace_id for missing in made.missing] == [11]
    assert made.missing == expected.missing
    assert made.traces == expected.traces
    # Every analysis and every small table is the same, byte for byte.
    assert set(made.analyses) == set(expected.analyses)
    for name, file in expected.analyses.items():
        assert made.analyses[name] == file, name
    assert set(made.tables) == set(expected.tables)
    for name, files in expected.tables.items():
        if files[0].shard is None:
            assert made.tables[name] == files, name
        else:
            assert rows_of(tmp_path / "ray.tracekit", made, name) == rows_of(
                tmp_path / "serial.tracekit", expected, name
            ), name
    # What was done at once is the same file, too.
    same = {file.name for files in made.tables.values() for file in files}
    theirs = {file.name for files in expected.tables.values() for file in files}
    assert len(same & theirs) > 0.5 * len(theirs)
    # Nothing of the cluster is left.
    assert not ray.is_initialized()
    assert not workers_at_work()


def rows_of(folder: Path, manifest: Manifest, table: str) -> list[Any]:
    names = [str(folder / file.name) for file in manifest.tables[table]]
    return duckdb.execute("SELECT * FROM read_parquet($1) ORDER BY ALL", [names]).fetchall()


@pytest.mark.nightly("starts a Ray cluster")
def test_who_is_told_to_stop_leaves_nothing(ray: Any, ranks: list[Rank], tmp_path: Path) -> None:
    batches = [Batch(number, (rank,)) for number, rank in enumerate(ranks[:4])]
    job = JobSpec(("timeline",), Location.of(tmp_path / "x"), "", memory_bytes=MEMORY_BYTES)
    running = ray_engine.RayEngine(2).run(batches, job)
    next(running)
    running.close()
    deadline = time.monotonic() + 30
    while workers_at_work() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not workers_at_work()
    assert not ray.is_initialized()


def test_a_version_that_differs_is_refused(ranks: list[Rank]) -> None:
    from tracekit.engine.worker_process import do_batch

    answer = do_batch(JobSpec((), None, ""), Batch(0, (ranks[0],)), "0.0.0")
    assert isinstance(answer, UsageError)
    assert "a node of the Ray cluster has tracekit" in answer.message


def test_without_the_extra_one_sentence_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UsageError) as caught:
        engines.make_engine("ray", 2)
    assert caught.value.message == "Ray is not installed"
    assert caught.value.hint == "install it with: pip install 'tracekit-llm[ray]'"


class Starting:
    """What stands for Ray where it fails to start some times."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.start_count = 0

    def init(self, **_: object) -> None:
        self.start_count += 1
        if self.failures:
            raise Exception(self.failures.pop(0))  # As Ray does.

    def shutdown(self) -> None:
        pass


LATE = "The current node timed out during startup. This could happen because\nof something."


def test_a_start_that_takes_too_long_is_tried_again() -> None:
    with contextlib.ExitStack() as resources:
        ray = Starting(LATE, LATE)
        ray_engine._start(cast("Any", ray), 1, resources)
        assert ray.start_count == 3


@pytest.mark.parametrize(
    ("failures", "start_count", "reason"),
    [
        ([LATE] * 3, 3, "The current node timed out during startup. This could happen because"),
        (["no room"], 1, "no room"),
    ],
)
def test_where_ray_does_not_start_one_sentence_says_so(
    failures: list[str], start_count: int, reason: str
) -> None:
    with contextlib.ExitStack() as resources:
        ray = Starting(*failures)
        with pytest.raises(UsageError) as caught:
            ray_engine._start(cast("Any", ray), 1, resources)
    assert caught.value.message == f"Ray could not be started on this machine: {reason}"
    assert (
        caught.value.hint
        == "--engine processes needs no Ray; --ray-address names a cluster that runs"
    )
    assert ray.start_count == start_count
