"""Ray makes the same dataset as the serial engine, also if a worker is killed or a node is lost."""

import contextlib
import os
import shutil
import signal
import socket
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
from run_of_ranks import write_ranks

import tracekit
from tracekit.engine import engines, many_ranks, ray_engine
from tracekit.engine.choice import EngineChoice
from tracekit.engine.dataset_writer import make_dataset, recipe_of
from tracekit.engine.many_ranks import ingest_dataset
from tracekit.engine.work import Batch, JobSpec, TraceFile
from tracekit.engine.worker_process import do_batch
from tracekit.errors import UsageError
from tracekit.storage import Location
from tracekit.units import MB

ANALYSES = ("trace", "timeline", "kernel_classes", "collectives")


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if find_spec("ray") is None:
        pytest.skip("the extra ray is not installed")
    # Imported as the engine does it: Ray reads its settings only then.
    return ray_engine.import_ray(is_cluster=False)


@pytest.fixture
def ranks(tmp_path):
    """Return 16 ranks; rank 11 cannot be read, and the claimed size makes four share a batch."""
    files = write_ranks(tmp_path / "run", 16)
    files[11].write_bytes(b"no trace at all")
    places = map(Location.of, files)
    return [TraceFile(rank, place, 18 * MB, place.identity()) for rank, place in enumerate(places)]


class Watched:
    """An engine that keeps its results and calls a function after the first one."""

    def __init__(self, engine, then=lambda: None):
        self._engine = engine
        self._then = then
        self.results = []

    @property
    def worker_count(self):
        return self._engine.worker_count

    def run(self, batches, job):
        for result in self._engine.run(batches, job):
            if not self.results:
                self._then()
            self.results.append(result)
            yield result


def job_of(folder):
    place, recipe = Location.of(folder), recipe_of(None, ANALYSES)
    return JobSpec(analyses=ANALYSES, dataset=place, recipe=recipe, memory_bytes=256 * MB)


def expect_same(made, expected):
    """Compare to the byte, except for the cuts of large tables."""
    assert made.analyses == expected.analyses
    assert made.tables.keys() == expected.tables.keys()
    for name, files in expected.tables.items():
        if files[0].shard is None:
            assert made.tables[name] == files, name
        else:
            counts = [sum(f.row_count for f in m.tables[name]) for m in (made, expected)]
            assert counts[0] == counts[1], name
    assert made.traces == expected.traces
    assert made.missing == expected.missing


def workers_at_work():
    """Return the Ray workers of this process, by the name of the session's folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(b"ray::do_batch"):
                output = (folder / "fd" / "1").readlink()
                if any(part.endswith(f"_{os.getpid()}") for part in output.parts):
                    found.append(int(folder.name))
    return found


def test_ray_makes_the_same_dataset(ray, ranks, tmp_path):
    """The smoke test of the gate: one readable and one unreadable rank."""
    expected, made = (
        make_dataset(ranks[10:12], job_of(tmp_path / name), engines.make_engine(name, 1))
        for name in ("serial", "ray")
    )
    expect_same(made, expected)
    assert [missing.trace_id for missing in made.missing] == [11]
    assert not ray.is_initialized()


@pytest.mark.nightly("starts Ray and kills a worker")
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds a worker by /proc")
def test_a_killed_worker_changes_nothing(ray, ranks, tmp_path):
    serial = engines.make_engine("serial", 1)
    expected = make_dataset(ranks, job_of(tmp_path / "serial.tracekit"), serial)
    engine = Watched(engines.make_engine("ray", 2))
    killed = []
    is_over = threading.Event()

    def kill_one():
        while not killed and not is_over.wait(0.01):
            for process_id in workers_at_work()[:1]:
                os.kill(process_id, signal.SIGKILL)
                killed.append(process_id)

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        made = make_dataset(ranks, job_of(tmp_path / "ray.tracekit"), engine)
    finally:
        is_over.set()
        killer.join()
    # The four ranks of its batch are read again sequentially, unless the signal came too late.
    assert len(killed) == 1
    done = sorted(len(result.batch.traces) for result in engine.results)
    assert done in (4 * [1] + 3 * [4], 4 * [4])
    expect_same(made, expected)
    assert not ray.is_initialized()
    assert not workers_at_work()


@pytest.mark.nightly("starts Ray")
def test_a_closed_run_leaves_no_processes(ray, ranks, tmp_path):
    batches = [Batch(number, (rank,)) for number, rank in enumerate(ranks[:4])]
    running = ray_engine.RayEngine(2).run(batches, job_of(tmp_path / "x"))
    next(running)
    running.close()
    deadline = time.monotonic() + 120
    while workers_at_work() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not workers_at_work()
    assert not ray.is_initialized()


@pytest.fixture
def cluster(ray, s3, monkeypatch):
    """Return a cluster of two nodes on this machine, as `ray start` makes one, for an S3 server."""
    from ray.cluster_utils import Cluster

    del ray
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    node = {"num_cpus": 1, "num_gpus": 0, "memory": 2 << 30, "object_store_memory": 80 << 20}
    # Names of sockets have a maximum length.
    folder = ray_engine._short_folder()
    (folder / "ray").mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    made = Cluster(shutdown_at_exit=False)
    try:
        made.add_node(**node, include_dashboard=False)
        made.add_node(**node)
        yield made
    finally:
        made.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.nightly("starts a Ray cluster and an S3 server")
@pytest.mark.usefixtures("a_batch_each")
def test_a_running_cluster_is_joined_and_loses_a_node(cluster, ray, tmp_path, monkeypatch):
    bucket = Location.of("s3://tracekit-ray")
    for file in write_ranks(tmp_path / "run", 4):
        (bucket / "run" / file.name).upload(file)
    (bucket / "run" / "rank9.json").write_bytes(b"no trace at all")
    make_engine = engines.make_engine

    def make_watched(name, count, **options):
        (_, other) = cluster.list_all_nodes()
        leave = lambda: cluster.remove_node(other, allow_graceful=False)  # noqa: E731
        return Watched(make_engine(name, count, **options), leave)

    monkeypatch.setattr(many_ranks, "BREAKDOWN", ANALYSES)
    serial = EngineChoice("serial", worker_count=2)
    expected = ingest_dataset([str(bucket / "run")], bucket / "again.tracekit", engine=serial)
    monkeypatch.setattr(engines, "make_engine", make_watched)
    choice = EngineChoice("ray", address=cluster.address)
    made = ingest_dataset([str(bucket / "run")], bucket / "run.tracekit", engine=choice)
    expect_same(made, expected)
    assert [one.location for one in made.missing] == ["s3://tracekit-ray/run/rank9.json"]
    with tracekit.open(str(bucket / "run.tracekit")) as trace:
        assert trace.query("timeline").column("rank") == [*range(4)]
    # The cluster keeps running.
    assert not ray.is_initialized()
    assert len(cluster.list_all_nodes()) == 1


def test_an_unreachable_cluster_is_an_error(ray):
    del ray
    with socket.socket() as bound:
        # The port is closed.
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(UsageError, match=address):
            _ = ray_engine.RayEngine(address=address).worker_count


def test_a_node_with_another_version_is_refused(ranks):
    answer = do_batch(JobSpec((), Location.of("unused"), ""), Batch(0, (ranks[0],)), "0.0.0")
    assert isinstance(answer, UsageError)
    assert "0.0.0" in answer.message


def test_the_hint_without_the_extra_is_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError) as caught:
        engines.make_engine("ray", 2)
    assert "[ray]" in str(caught.value.hint)


class Starting:
    """A Ray that fails to start some times."""

    def __init__(self, *failures):
        self.failures = list(failures)
        self.start_count = 0

    def init(self, **_):
        self.start_count += 1
        if self.failures:
            raise Exception(self.failures.pop(0))  # As Ray does.

    def shutdown(self):
        pass


LATE = "The current node timed out during startup. This could happen because\nof something."


@pytest.mark.parametrize(
    ("failures", "start_count"), [([LATE] * 2, 3), ([LATE] * 3, 3), (["no room"], 1)]
)
def test_a_slow_start_is_retried(failures, start_count):
    ray, is_started = Starting(*failures), len(failures) == 2
    with contextlib.ExitStack() as resources:
        if not is_started:
            caught = resources.enter_context(pytest.raises(UsageError, match=failures[0][:8]))
        ray_engine._start(cast("Any", ray), 1, resources)
    if not is_started:
        assert "\n" not in caught.value.message
        assert "--engine processes" in str(caught.value.hint)
    assert ray.start_count == start_count
