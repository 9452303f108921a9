"""What could not be read of a file, and what was mended: all counted, the first ones kept."""

from __future__ import annotations

from dataclasses import dataclass, field

KEPT_FAULTS = 10_000
"""How many pieces of a file are kept of each sort, the first ones: memory is bounded by them."""

REJECTED_TEXT_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Rejected:
    """A piece of the file that could not be read: offset in the plain text, why, its beginning."""

    byte_offset: int
    reason: str
    text: str
    event_id: int | None = None


@dataclass(frozen=True, slots=True)
class Repaired:
    """An event that was read after mending its text: its id, offset in the plain text, what."""

    event_id: int
    byte_offset: int
    reason: str


@dataclass(slots=True)
class Faults:
    """What is wrong with a file.

    Attributes:
        rejected: what could not be read, in the order found, :data:`KEPT_FAULTS` at most.
        repaired: what was read after mending, likewise.
        rejected_count: all that could not be read.
        repaired_count: all that was read after mending.
    """

    rejected: list[Rejected] = field(default_factory=list)
    repaired: list[Repaired] = field(default_factory=list)
    rejected_count: int = 0
    repaired_count: int = 0

    def reject(
        self, byte_offset: int, reason: str, text: bytes, event_id: int | None = None
    ) -> None:
        """Note a piece of the file that cannot be read."""
        self.rejected_count += 1
        if len(self.rejected) < KEPT_FAULTS:
            shown = bytes(text[:REJECTED_TEXT_BYTES]).decode("utf-8", "replace")
            self.rejected.append(Rejected(byte_offset, reason, shown, event_id))

    def repair(self, event_id: int, byte_offset: int, reason: str) -> None:
        """Note an event that is read after mending."""
        self.repaired_count += 1
        if len(self.repaired) < KEPT_FAULTS:
            self.repaired.append(Repaired(event_id, byte_offset, reason))
