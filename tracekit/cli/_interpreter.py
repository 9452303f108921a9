"""The interpreter as it suits reading traces; a workload that is measured must not find it so."""

from __future__ import annotations

import gc
import sys


def tune_for_traces() -> None:
    """Set what the commands that read traces are faster with."""
    # One run makes millions of objects and hardly a cycle: looking for some costs more than memory.
    gc.set_threshold(200_000, 50, 50)
    # The thread that reads ahead needs the interpreter often, for moments between long work in C.
    sys.setswitchinterval(0.0001)
