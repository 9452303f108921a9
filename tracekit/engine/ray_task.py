"""What a task of Ray does: one unit. It runs on any node, and imports no Ray."""

from __future__ import annotations

import gc
import sys
import traceback
from typing import TypeAlias

from tracekit import __version__
from tracekit.engine.work import Batch, Order, Outcome
from tracekit.errors import TracekitError, UsageError

Answer: TypeAlias = Outcome | TracekitError | str
"""What a task leaves: an outcome, an error that ends the run, or the traceback of a defect."""


def do_batch(order: Order, batch: Batch, version: str) -> Answer:
    """Do the unit of one batch.

    Args:
        order: what is wanted.
        batch: the traces to read.
        version: the version of tracekit that wants it: another one's results might differ.

    Returns:
        What the unit left; a defect is its traceback, as its type need not be known elsewhere.
    """
    if version != __version__:
        return UsageError(
            f"a node of the Ray cluster has tracekit {__version__}, this is {version}",
            hint=f"install tracekit=={version} on every node",
        )
    # One batch makes millions of objects and hardly a cycle.
    gc.set_threshold(200_000, 50, 50)
    sys.setswitchinterval(0.0001)
    try:
        from tracekit.engine.unit import Worker

        with Worker(order) as worker:
            return worker.do(batch)
    except TracekitError as error:
        return error
    except Exception:  # noqa: BLE001 - said by whoever wants it
        return traceback.format_exc()
