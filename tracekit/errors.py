"""Exceptions for all failures that are not bugs.

Each class has its own exit code of the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


def did_you_mean(
    name: str, known: Iterable[str], *, count: int = 3, cutoff: float = 0.6
) -> str | None:
    """Return a hint with similar names, or None.

    Args:
        name: the unknown name.
        known: existing names.
        count: maximum number of names in the hint.
        cutoff: required similarity, 0 to 1.
    """
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=count, cutoff=cutoff)
    return f"did you mean {' or '.join(close)}?" if close else None


class TracekitError(Exception):
    """Base class of all errors that tracekit raises on purpose.

    Args:
        message: one sentence with the file, if any, and the reason.
        hint: how to fix it, or None.

    `exit_code` is the exit code of the command line.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


given_stores: list[str] = []
"""Names of opened stores and datasets, whose rows are untrusted."""


def failed_on_given_store(error: Exception) -> str:
    """Return a message if the rows of an opened store may have caused the error, else ""."""
    why = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
    return f"{given_stores[-1]}: its rows cannot be analyzed ({why})" if given_stores else ""


class UsageError(TracekitError):
    """The call is invalid: for example, an unknown option, or a value of the wrong type."""

    exit_code: ClassVar[int] = 2


class TraceError(TracekitError):
    """The trace cannot be read, or its format is not supported."""

    exit_code: ClassVar[int] = 3


class StoreError(TracekitError):
    """A store cannot be used: wrong version, locked, disk full, or not writable."""

    exit_code: ClassVar[int] = 4


class QueryError(TracekitError):
    """A query has no answer: unknown analysis, invalid SQL, or missing data in the trace."""

    exit_code: ClassVar[int] = 5


class WorkloadError(TracekitError):
    """A collected workload failed or ran out of memory."""

    exit_code: ClassVar[int] = 6
