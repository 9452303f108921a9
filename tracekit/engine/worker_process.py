"""What does units where an engine has them done: in a process of this machine, in a task of Ray."""

from __future__ import annotations

import gc
import os
import queue
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn, TypeAlias

from tracekit import __version__
from tracekit.engine.work import Batch, BatchResult, JobSpec
from tracekit.errors import TracekitError, UsageError


def serve(file_number: int, folder: str) -> NoReturn:
    """Do the batches that come through a pipe, and send back what each leaves.

    The first thing that comes is the job spec. A defect of tracekit is sent back as its traceback.

    Args:
        file_number: of this end of the pipe.
        folder: where what spills may lie; whoever started this removes it.
    """
    # Ctrl-C reaches all processes of a terminal: the one that started this decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    pipe = Connection(file_number)
    arrived: queue.SimpleQueue[object] = queue.SimpleQueue()
    job = pipe.recv()
    threading.Thread(target=_receive, args=(pipe, arrived), daemon=True).start()

    from tracekit.engine.unit import Worker

    _tune()
    try:
        with Worker(job, Path(folder)) as worker:
            while True:
                batch = arrived.get()
                assert isinstance(batch, Batch)
                pipe.send(worker.do(batch))
    except Exception:  # noqa: BLE001 - said by whoever started this
        pipe.send(traceback.format_exc())
    os._exit(1)


def _tune() -> None:
    # One batch makes millions of objects and hardly a cycle.
    gc.set_threshold(200_000, 50, 50)
    sys.setswitchinterval(0.0001)


def _receive(pipe: Connection, arrived: queue.SimpleQueue[object]) -> None:
    """Take what comes; end this process at once where nobody is there any more."""
    while True:
        try:
            arrived.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(1)


Answer: TypeAlias = BatchResult | TracekitError | str
"""What a task leaves: an result, an error that ends the run, or the traceback of a defect."""


def do_batch(job: JobSpec, batch: Batch, version: str) -> Answer:
    """Do the unit of one batch."""
    if version != __version__:
        return UsageError(
            f"a node of the Ray cluster has tracekit {__version__}, not {version}",
            hint=f"install tracekit=={version} on every node",
        )
    _tune()
    try:
        from tracekit.engine.unit import Worker

        with Worker(job) as worker:
            return worker.do(batch)
    except TracekitError as error:
        return error
    except Exception:  # noqa: BLE001 - said by whoever wants it
        return traceback.format_exc()
