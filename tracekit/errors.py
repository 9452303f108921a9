"""The error tree: everything that can go wrong without being a bug.

Each class carries the exit code of the command line, so an exit code means the same thing in a
script as the exception type means in Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


def did_you_mean(
    name: str, known: Iterable[str], *, count: int = 3, cutoff: float = 0.6
) -> str | None:
    """Return a hint that names what is nearly called so, None if nothing is.

    Args:
        name: what there is not.
        known: what there is.
        count: how many to name, at most.
        cutoff: how alike they have to be, 0 to 1.
    """
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=count, cutoff=cutoff)
    return f"did you mean {' or '.join(close)}?" if close else None


class TracekitError(Exception):
    """The base of every error that tracekit raises on purpose.

    Args:
        message: one sentence that names the file (where there is one) and the reason.
        hint: what to do about it, or None.

    `exit_code` is what the command line exits with.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


given_stores: list[str] = []
"""The stores and datasets that were opened as such: somebody else may have made their rows."""


def failed_on_given_store(error: Exception) -> str:
    """Return a sentence for an error that rows of a given store may explain, empty without one."""
    why = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
    return f"{given_stores[-1]}: its rows cannot be analyzed ({why})" if given_stores else ""


class UsageError(TracekitError):
    """The call cannot be understood: an unknown option, a value of the wrong type."""

    exit_code: ClassVar[int] = 2


class TraceError(TracekitError):
    """The trace cannot be read or is of no supported kind."""

    exit_code: ClassVar[int] = 3


class StoreError(TracekitError):
    """The store or the disk under it failed: wrong version, locked, full, not writable."""

    exit_code: ClassVar[int] = 4


class QueryError(TracekitError):
    """The question has no answer: unknown analysis, bad SQL, a trace without the data for it."""

    exit_code: ClassVar[int] = 5


class WorkloadError(TracekitError):
    """A collected workload failed or ran out of memory."""

    exit_code: ClassVar[int] = 6
