"""Rejected and repaired events of a file: the number of all, and details of the first ones."""

from __future__ import annotations

from msgspec import Struct, field

MAX_FAULTS = 10_000
"""Maximum number of stored faults of each kind, to limit memory."""

REJECTED_TEXT_BYTES = 2048


class Rejected(Struct, frozen=True):
    byte_offset: int
    reason: str
    text: str
    event_id: int | None = None


class Repaired(Struct, frozen=True):
    event_id: int
    byte_offset: int
    reason: str


class Faults(Struct):
    """The first :data:`MAX_FAULTS` faults of each kind in a file, and the number of all faults."""

    rejected: list[Rejected] = field(default_factory=list)
    repaired: list[Repaired] = field(default_factory=list)
    rejected_count: int = 0
    repaired_count: int = 0

    def reject(
        self, byte_offset: int, reason: str, text: bytes, event_id: int | None = None
    ) -> None:
        self.rejected_count += 1
        if len(self.rejected) < MAX_FAULTS:
            shown = bytes(text[:REJECTED_TEXT_BYTES]).decode("utf-8", "replace")
            self.rejected.append(Rejected(byte_offset, reason, shown, event_id))

    def repair(self, event_id: int, byte_offset: int, reason: str) -> None:
        self.repaired_count += 1
        if len(self.repaired) < MAX_FAULTS:
            self.repaired.append(Repaired(event_id, byte_offset, reason))
