"""Processes of ours that end when the one that started them is gone, however that ended (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from dataclasses import dataclass

_LINUX_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Tie:
    """What ties a process to the one that started it.

    Attributes:
        variable: names the parent in the environment of the process.
        number: the signal that it gets when the parent is gone.
    """

    variable: str
    number: signal.Signals

    def variables(self) -> dict[str, str]:
        """Return what a process finds in its environment that is to be tied to this one."""
        return {self.variable: str(os.getpid())}

    def hold(self) -> None:
        """Tie this process to its parent, if that has asked for it."""
        # Taken away, so that nothing that this process starts takes it for its own.
        told = os.environ.pop(self.variable, None)
        if told is None or not sys.platform.startswith("linux"):
            return
        ctypes.CDLL(None).prctl(_LINUX_PR_SET_PDEATHSIG, self.number)
        if os.getppid() != int(told):  # it went before we asked
            os.kill(os.getpid(), self.number)


TO_LAUNCHER = Tie("TRACEKIT_LAUNCHER_PID", signal.SIGKILL)
"""Of a rank to what started the ranks: nothing of a rank alone is of use."""

TO_SWEEP = Tie("TRACEKIT_SWEEP_PID", signal.SIGTERM)
"""Of a cell to its sweep: it ends in good order, and its ranks with it."""
