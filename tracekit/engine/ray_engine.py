"""Engine on Ray: one Ray Core task per batch, on this machine or a cluster.

Each task requests one processor and the memory of a unit. Tasks write shards directly to the
dataset and return only the result of the unit. Without an address, the engine starts and stops a
local cluster. Ray's environment variables apply in both cases.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tracekit import __version__
from tracekit.engine.choice import processor_count
from tracekit.engine.engines import DiedError, Task, failed_batch
from tracekit.engine.work import Batch, BatchResult, JobSpec
from tracekit.engine.worker_process import Answer, do_batch
from tracekit.errors import TracekitError, UsageError
from tracekit.units import format_bytes

if TYPE_CHECKING:
    from types import ModuleType

_OBJECT_STORE_BYTES = 128 << 20
"""Size of the object store of a local cluster; further results spill to disk."""

_ANSWER_S = 20.0
"""Time limit for connecting to the head node of a cluster, in seconds."""

_MAX_DEATHS = 3
"""Number of worker deaths after which a task is given up.

More than two, because Ray may assign a retry to a node that has just left the cluster.
"""

_MAX_STARTS = 3
"""Maximum number of attempts to start Ray. Ray's limit of 30 s is too short on busy machines."""

_MAX_NAME = 40
"""Maximum length of the folder name, because paths of sockets are limited to about 100
characters."""

# Environment variables for Ray, unless the user has set them.
_OWN_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

# Additional variables for a local cluster, which starts slowly on a busy machine.
_LOCAL_ENVIRONMENT = {"RAY_raylet_start_wait_time_s": "180"}


class RayEngine(Struct, frozen=True):
    """Runs units as Ray tasks; an `asked_count` of 0 means the number of processors."""

    asked_count: int = 0
    address: str | None = None

    @property
    def worker_count(self) -> int:
        if self.asked_count:
            return self.asked_count
        if not self.is_cluster:
            return processor_count()
        with _connected(self) as ray:
            return max(1, int(ray.cluster_resources().get("CPU", 1)))

    @property
    def is_cluster(self) -> bool:
        return bool(self.address or os.environ.get("RAY_ADDRESS"))

    def run(self, batches: Sequence[Batch], job: JobSpec) -> Generator[BatchResult, None, None]:
        if not batches:
            return
        with _connected(self) as ray:
            worker_count = min(self.worker_count, len(batches))
            with contextlib.closing(_Tasks(ray, job, worker_count)) as tasks:
                yield from tasks.results(batches)


class _Tasks:
    def __init__(self, ray: ModuleType, job: JobSpec, worker_count: int) -> None:
        self._ray = ray
        self._memory_bytes = job.memory_bytes
        _check_memory(ray, job.memory_bytes)
        self._job = ray.put(job)
        # Queue extra tasks (one per eight workers, at least one), so that a free node can start the
        # next task without a round trip.
        self._most = worker_count + max(1, worker_count // 8)
        self._under_way: dict[Any, Task] = {}
        # Ray does not retry tasks; tracekit retries them itself, in smaller batches.
        self._remote = ray.remote(
            num_cpus=1,
            memory=job.memory_bytes,
            max_retries=0,
            scheduling_strategy="SPREAD",
        )(do_batch)

    def results(self, batches: Sequence[Batch]) -> Iterator[BatchResult]:
        waiting = deque(Task(batch) for batch in batches)
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
                elif task.death_count + 1 < _MAX_DEATHS:
                    # Retry with one trace per unit, so that only a trace that is too large fails.
                    again = task.batch.split()[::-1]
                    death_count = task.death_count + 1
                    waiting.extendleft(Task(batch, death_count) for batch in again)
                else:
                    ended = f"its task crashed {_MAX_DEATHS} times"
                    yield failed_batch(task.batch, ended, answer)

    def _answer(self, reference: Any) -> BatchResult | str:
        """Return the result of a task, or the reason why its worker died."""
        from ray.exceptions import RayError

        try:
            answer: Answer = self._ray.get(reference)
        except RayError as error:
            if "No module named" in str(error):
                raise UsageError(
                    "tracekit is not installed on a node of the Ray cluster",
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
        """Cancel running tasks and wait until they have ended."""
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
    """Reject a request for which Ray would wait forever."""
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
    """Import Ray with settings that it reads only during import."""
    settings = _OWN_ENVIRONMENT if is_cluster else _OWN_ENVIRONMENT | _LOCAL_ENVIRONMENT
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    if not (is_cluster or "RAY_AUTH_MODE" in os.environ or "ray" in sys.modules):
        # Ray listens on all network interfaces. A token that only this process and its children
        # know protects the local cluster.
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
    """Connect to the cluster and disconnect at the end, or start a local cluster and stop it."""
    ray = import_ray(is_cluster=engine.is_cluster)
    if ray.is_initialized():
        # The program or tracekit is already connected.
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
    """Check that an address accepts connections, because Ray itself retries for minutes."""
    if address == "auto":
        # The address file of a killed local cluster still exists.
        with contextlib.suppress(ImportError, AttributeError, OSError):
            from ray._private.services import canonicalize_bootstrap_address

            address = canonicalize_bootstrap_address(address) or address
    host, _, port = address.rpartition("//")[2].partition("/")[0].rpartition(":")
    if host and port.isdecimal() and int(port) < 1 << 16:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()


def _start(ray: ModuleType, worker_count: int, resources: contextlib.ExitStack) -> None:
    import logging

    folder = _short_folder()
    resources.callback(shutil.rmtree, folder, ignore_errors=True)
    # Shut down Ray even if the start fails.
    resources.callback(ray.shutdown)
    options: dict[str, object] = {}
    if sys.platform == "linux":
        # Processes of the cluster connect through loopback, but listen on all interfaces, protected
        # by the token.
        options["_node_ip_address"] = "127.0.0.2"
    for start in range(1, _MAX_STARTS + 1):
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
            # Ray has no specific exception for a failed start.
            ray.shutdown()
            if "timed out" in str(error) and start < _MAX_STARTS:
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
    if len(top) > _MAX_NAME - len("/tk-ray-12345678"):
        top = "/tmp"
    return Path(tempfile.mkdtemp(prefix="tk-ray-", dir=top))
