"""Engine of local processes: each worker runs one batch at a time.

A worker is a Python process that does not import the main module, so programs that call tracekit
need no `__main__` guard. Batches and results are sent through a pipe.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path

from msgspec import Struct, field

from tracekit.engine.engines import DiedError, Task, failed_batch
from tracekit.engine.work import Batch, BatchResult, JobSpec
from tracekit.errors import TracekitError
from tracekit.storage.temp_dirs import temporary_folder

_PATIENCE_S = 5.0
"""Maximum time for a worker to exit after SIGTERM, in seconds."""

_START = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from tracekit.engine.worker_process import serve; serve(int(sys.argv[1]), sys.argv[2])"
)


class _Process(Struct):
    process: subprocess.Popen[bytes]
    pipe: Connection
    folder: Path
    task: Task | None = None


class ProcessesEngine(Struct, frozen=True):
    worker_count: int

    def run(self, batches: Sequence[Batch], job: JobSpec) -> Generator[BatchResult, None, None]:
        if not batches:
            return
        with contextlib.closing(_Pool(job, min(self.worker_count, len(batches)))) as pool:
            yield from pool.results(batches)


class _Pool(Struct):
    job: JobSpec
    worker_count: int
    folder: Path = field(default_factory=temporary_folder)
    workers: list[_Process] = field(default_factory=list)
    started_count: int = 0

    def results(self, batches: Sequence[Batch]) -> Iterator[BatchResult]:
        waiting = deque(Task(batch) for batch in batches)
        while waiting or any(worker.task for worker in self.workers):
            self._assign_tasks(waiting)
            ends: dict[object, _Process] = {worker.pipe: worker for worker in self.workers}
            for end in wait(list(ends)):  # type: ignore[arg-type]
                worker = ends[end]
                try:
                    answer = worker.pipe.recv()
                except (EOFError, OSError):
                    yield from self._handle_death(worker, waiting)
                    continue
                worker.task = None
                if isinstance(answer, str):
                    raise DiedError(answer)
                if isinstance(answer, TracekitError):
                    raise answer
                yield answer

    def _assign_tasks(self, waiting: deque[Task]) -> None:
        """Assign tasks to idle workers, and start missing workers."""
        while waiting:
            free = next((worker for worker in self.workers if worker.task is None), None)
            if free is None:
                if len(self.workers) >= self.worker_count:
                    return
                free = self._start()
            free.task = waiting.popleft()
            # The worker is dead, which the loop that waits for results will detect.
            with contextlib.suppress(OSError):
                free.pipe.send(free.task.batch)

    def _start(self) -> _Process:
        folder = self.folder / f"worker{self.started_count}"
        folder.mkdir()
        self.started_count += 1
        ours, theirs = Pipe()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, str(theirs.fileno()), str(folder), *sys.path],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        worker = _Process(process, ours, folder)
        self.workers.append(worker)
        with contextlib.suppress(OSError):
            ours.send(self.job)
        return worker

    def _handle_death(self, worker: _Process, waiting: deque[Task]) -> Iterator[BatchResult]:
        """Remove a dead worker; retry its batch, or return it as a failure."""
        self.workers.remove(worker)
        _end([worker])
        shutil.rmtree(worker.folder, ignore_errors=True)
        task = worker.task
        if task is None:
            return
        if not task.death_count:
            # Retry with one trace per unit, so that only a trace that is too large fails.
            waiting.extendleft(Task(batch, death_count=1) for batch in task.batch.split()[::-1])
            return
        reason = _cause_of_death(worker.process.returncode)
        yield failed_batch(task.batch, "its process crashed twice", reason)

    def close(self) -> None:
        """End all workers and remove their incomplete files."""
        _end(self.workers)
        self.workers.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


def _end(workers: Sequence[_Process]) -> None:
    for worker in workers:
        worker.pipe.close()
        if worker.process.poll() is None:
            with contextlib.suppress(OSError):
                worker.process.terminate()
    until = time.monotonic() + _PATIENCE_S
    for worker in workers:
        try:
            worker.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()


def _cause_of_death(returncode: int | None) -> str:
    if returncode is None or returncode >= 0:
        return f"exit code {returncode}"
    if returncode == -signal.SIGKILL:
        return "killed, probably because the system ran out of memory"
    with contextlib.suppress(ValueError):
        return f"by {signal.Signals(-returncode).name}"
    return f"by signal {-returncode}"
