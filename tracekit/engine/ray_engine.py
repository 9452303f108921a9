"""The engine on Ray: a task of Ray Core for each batch, on this machine or on a cluster.

Each task states the processor and the memory that it takes, so that Ray places it. Results are
written where the dataset lies, by who has them; what comes back is what a unit leaves. Without an
address, a cluster of this machine alone is started and ended again; Ray's own environment variables
hold for both.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import __version__
from tracekit.engine.engines import DiedError, given_up
from tracekit.engine.machine import processor_count
from tracekit.engine.work import Batch, BatchResult, JobSpec
from tracekit.engine.worker_process import Answer, do_batch
from tracekit.errors import TracekitError, UsageError
from tracekit.units import format_bytes

if TYPE_CHECKING:
    from types import ModuleType

_OBJECT_STORE_BYTES = 128 << 20
"""What of the memory of this machine results may take on their way; more goes to disk."""

_ANSWER_S = 20.0
"""How long the head of a cluster may take to let somebody connect."""

_MOST_DEATHS = 3
"""How often a task may die: a node that left may get a second one before Ray knows of it."""

_MOST_STARTS = 3
"""How often a start here is tried: Ray gives each 30 s, which a busy machine exceeds."""

_MOST_NAME = 40
"""Ray puts sockets into its folder, and their names may be no longer than about a hundred."""

# None of them where the user has set it.
_OWN_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

# A busy machine takes its time to start a cluster; one that is joined is there.
_OF_A_START = {"RAY_raylet_start_wait_time_s": "180"}


@dataclass(slots=True)
class _Task:
    """A batch, and how often the worker that did it died."""

    batch: Batch
    death_count: int = 0


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Does units as tasks of Ray; see :class:`tracekit.engine.engines.Engine`.

    Attributes:
        asked_count: maximum number of concurrent units; 0 for the number of processors.
        address: of the cluster, as ``ray.init`` takes it; None for that of RAY_ADDRESS, or, without
            it, one of this machine.
    """

    asked_count: int = 0
    address: str | None = None

    @property
    def worker_count(self) -> int:
        """How many units it does at a time, at most.

        Raises:
            UsageError: Ray is not installed, or the cluster cannot be reached.
        """
        if self.asked_count:
            return self.asked_count
        if not self.is_cluster:
            return processor_count()
        with _connected(self) as ray:
            return max(1, int(ray.cluster_resources().get("CPU", 1)))

    @property
    def is_cluster(self) -> bool:
        """Whether there is a cluster already that it joins."""
        return bool(self.address or os.environ.get("RAY_ADDRESS"))

    def run(self, batches: Sequence[Batch], job: JobSpec) -> Generator[BatchResult, None, None]:
        """Do a unit for each batch; yield what each leaves as soon as it is there."""
        if not batches:
            return
        with _connected(self) as ray:
            worker_count = min(self.worker_count, len(batches))
            with contextlib.closing(_Tasks(ray, job, worker_count)) as tasks:
                yield from tasks.results(batches)


class _Tasks:
    """The tasks of one job that are under way."""

    def __init__(self, ray: ModuleType, job: JobSpec, worker_count: int) -> None:
        self._ray = ray
        self._memory_bytes = job.memory_bytes
        _check_memory(ray, job.memory_bytes)
        self._job = ray.put(job)
        # One waits for each node that gets free: no round trip lies between two batches.
        self._most = worker_count + max(1, worker_count // 8)
        self._under_way: dict[Any, _Task] = {}
        # Tasks that die are done again by us: in smaller shards, and not for ever.
        self._remote = ray.remote(
            num_cpus=1,
            memory=job.memory_bytes,
            max_retries=0,
            scheduling_strategy="SPREAD",
        )(do_batch)

    def results(self, batches: Sequence[Batch]) -> Iterator[BatchResult]:
        waiting = deque(_Task(batch) for batch in batches)
        while waiting or self._under_way:
            while waiting and len(self._under_way) < self._most:
                task = waiting.popleft()
                reference = self._remote.remote(self._job, task.batch, __version__)
                self._under_way[reference] = task
            done, _ = self._ray.wait([*self._under_way], num_returns=1)
            for reference in done:
                task = self._under_way.pop(reference)
                answer = self._answer(reference)
                if isinstance(answer, BatchResult):
                    yield answer
                elif task.death_count + 1 < _MOST_DEATHS:
                    # Each for itself: one of them may be too much, and takes no other with it.
                    again = task.batch.split()[::-1]
                    death_count = task.death_count + 1
                    waiting.extendleft(_Task(batch, death_count) for batch in again)
                else:
                    ended = f"its task crashed {_MOST_DEATHS} times"
                    yield given_up(task.batch, ended, answer)

    def _answer(self, reference: Any) -> BatchResult | str:
        """Return what a task left, or why there is no such thing any more.

        Raises:
            TracekitError: the task cannot be done, nor can the others.
            DiedError: the task met a defect.
        """
        from ray.exceptions import RayError

        try:
            answer: Answer = self._ray.get(reference)
        except RayError as error:
            if "No module named" in str(error):
                raise UsageError(
                    "a node of the Ray cluster has no tracekit",
                    hint=f"install tracekit=={__version__} on every node, or add it to the "
                    "cluster's runtime environment",
                ) from None
            return _cause_of_death(error)
        finally:
            del reference
        if isinstance(answer, TracekitError):
            raise answer
        if isinstance(answer, str):
            raise DiedError(answer)
        return answer

    def close(self) -> None:
        """End what is under way, and wait until it has ended."""
        from ray.exceptions import RayError

        references = [*self._under_way]
        self._under_way.clear()
        for reference in references:
            with contextlib.suppress(RayError, ValueError):
                self._ray.cancel(reference, force=True)
        if references:
            self._ray.wait(references, num_returns=len(references), timeout=10)


def _cause_of_death(error: Exception) -> str:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "OutOfMemoryError" in kinds:
        return "ended by Ray because its node ran out of memory"
    if "NodeDiedError" in kinds:
        return "its node left the cluster"
    if "WorkerCrashedError" in kinds:
        return "its worker died"
    return type(error).__name__


def _check_memory(ray: ModuleType, memory_bytes: int) -> None:
    """Refuse what Ray would wait for without end.

    Raises:
        UsageError: no node has as much memory as a task says it takes.
    """
    most_bytes = max(
        (
            node["Resources"].get("memory", 0)
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        ),
        default=0,
    )
    if most_bytes < memory_bytes:
        raise UsageError(
            f"no node of the Ray cluster has the {format_bytes(memory_bytes)} that a task "
            f"needs: the largest has {format_bytes(most_bytes)}",
            hint="use a lower --memory",
        )


def import_ray(*, is_cluster: bool) -> ModuleType:
    """Return Ray, imported with the settings that it only takes then.

    Raises:
        UsageError: it is not installed.
    """
    settings = _OWN_ENVIRONMENT if is_cluster else _OWN_ENVIRONMENT | _OF_A_START
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    if not (is_cluster or "RAY_AUTH_MODE" in os.environ or "ray" in sys.modules):
        # The ports of the cluster that is started here are open to whoever reaches this machine:
        # only who has the token, which is this process and its children, is let in.
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    try:
        import ray
    except ImportError:
        raise UsageError(
            "Ray is not installed", hint="install it with: pip install '.[ray]'"
        ) from None
    module: ModuleType = ray
    return module


@contextlib.contextmanager
def _connected(engine: RayEngine) -> Iterator[ModuleType]:
    """Connect to the cluster, or start one here; undo at the end what was done.

    Raises:
        UsageError: Ray is not installed, or the cluster cannot be reached.
    """
    ray = import_ray(is_cluster=engine.is_cluster)
    if ray.is_initialized():
        # The program that uses us has its own connection, or we have it already.
        yield ray
        return
    with contextlib.ExitStack() as resources:
        if engine.is_cluster:
            _join(ray, engine.address)
            resources.callback(ray.shutdown)
        else:
            _start(ray, engine.worker_count, resources)
        yield ray


def _join(ray: ModuleType, address: str | None) -> None:
    import logging

    shown = address or os.environ.get("RAY_ADDRESS") or "auto"
    try:
        _check_answers(shown)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        text = getattr(error, "strerror", None) or str(error)
        reason = (text.splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"the Ray cluster {shown} cannot be reached: {reason}",
            hint="pass --ray-address as to ray status --address, and check RAY_AUTH_TOKEN",
        ) from error


def _check_answers(address: str) -> None:
    """Find out whether anybody listens at an address: Ray itself tries for minutes.

    Raises:
        OSError: nobody does.
    """
    if address == "auto":
        # What Ray notes of a cluster of this machine stays when the cluster is killed.
        with contextlib.suppress(ImportError, AttributeError, OSError):
            from ray._private.services import canonicalize_bootstrap_address

            address = canonicalize_bootstrap_address(address) or address
    host, _, port = address.rpartition("//")[2].partition("/")[0].rpartition(":")
    if host and port.isdecimal() and int(port) < 1 << 16:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()


def _start(ray: ModuleType, worker_count: int, resources: contextlib.ExitStack) -> None:
    """Start a cluster of this machine that lets nobody else in.

    Raises:
        UsageError: Ray does not start here.
    """
    import logging

    folder = _short_folder()
    resources.callback(shutil.rmtree, folder, ignore_errors=True)
    # Also what a start that failed has left.
    resources.callback(ray.shutdown)
    options: dict[str, object] = {}
    if sys.platform == "linux":
        # Of this machine alone: nothing of it is announced to the network.
        options["_node_ip_address"] = "127.0.0.2"
    for start in range(1, _MOST_STARTS + 1):
        try:
            ray.init(
                address="local",
                num_cpus=worker_count,
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=str(folder),
                **options,
            )
        except Exception as error:
            # Ray has no class of its own for this.
            ray.shutdown()
            if "timed out" in str(error) and start < _MOST_STARTS:
                continue
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UsageError(
                f"Ray could not be started on this machine: {reason}",
                hint="use --engine processes, which does not need Ray, or --ray-address "
                "to use a running cluster",
            ) from error
        else:
            return


def _short_folder() -> Path:
    top = tempfile.gettempdir()
    if len(top) > _MOST_NAME - len("/tk-ray-12345678"):
        top = "/tmp"
    return Path(tempfile.mkdtemp(prefix="tk-ray-", dir=top))
