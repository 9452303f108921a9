"""Worker that runs units in a local process or a Ray task."""

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
    """Run the batches that arrive through a pipe, and return the result of each.

    The first message is the job spec. An unexpected exception is returned as its traceback.
    """
    # Ctrl-C is sent to all processes of a terminal; only the parent handles it.
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
    except Exception:  # noqa: BLE001 - reported by the parent
        pipe.send(traceback.format_exc())
    os._exit(1)


def _tune() -> None:
    # One batch creates millions of objects, but almost no cycles.
    gc.set_threshold(200_000, 50, 50)
    sys.setswitchinterval(0.0001)


def _receive(pipe: Connection, arrived: queue.SimpleQueue[object]) -> None:
    """Receive messages; exit immediately if the parent has ended."""
    while True:
        try:
            arrived.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(1)


Answer: TypeAlias = BatchResult | TracekitError | str


def do_batch(job: JobSpec, batch: Batch, version: str) -> Answer:
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
    except Exception:  # noqa: BLE001 - reported by the driver
        return traceback.format_exc()
