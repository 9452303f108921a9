"""A worker of the engine of local processes: it does units until nobody is there any more."""

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
from typing import NoReturn


def serve(file_number: int, folder: str) -> NoReturn:
    """Do the batches that come through a pipe, and send back what each leaves.

    The first thing that comes is the order. A defect of tracekit is sent back as its traceback.

    Args:
        file_number: of this end of the pipe.
        folder: where what spills may lie; whoever started this removes it.
    """
    # Ctrl-C reaches all processes of a terminal: the one that started this decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    pipe = Connection(file_number)
    arrived: queue.SimpleQueue[object] = queue.SimpleQueue()
    order = pipe.recv()
    threading.Thread(target=_receive, args=(pipe, arrived), daemon=True).start()

    from tracekit.engine.unit import Worker
    from tracekit.engine.work import Batch

    # One run makes millions of objects and hardly a cycle.
    gc.set_threshold(200_000, 50, 50)
    sys.setswitchinterval(0.0001)
    try:
        with Worker(order, Path(folder)) as worker:
            while True:
                batch = arrived.get()
                assert isinstance(batch, Batch)
                pipe.send(worker.do(batch))
    except Exception:  # noqa: BLE001 - said by whoever started this
        pipe.send(traceback.format_exc())
    os._exit(1)


def _receive(pipe: Connection, arrived: queue.SimpleQueue[object]) -> None:
    """Take what comes; end this process at once where nobody is there any more."""
    while True:
        try:
            arrived.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(1)
