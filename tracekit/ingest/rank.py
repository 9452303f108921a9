"""Which rank a trace file belongs to, and who says so."""

from __future__ import annotations

import re
from collections.abc import Mapping

_IN_NAME = (
    re.compile(r"(?:^|[^a-z0-9])rank[_\-.=]?(\d+)(?!\d)", re.IGNORECASE),
    re.compile(r"(?:^|[^a-z0-9])worker[_\-.=]?(\d+)(?!\d)", re.IGNORECASE),
    re.compile(r"[_\-.]r(\d+)(?=[_\-.])", re.IGNORECASE),
)


def find_rank(metadata: Mapping[str, object], file_name: str) -> tuple[int | None, str]:
    """Return the global rank of a trace and where it was found.

    Args:
        metadata: members of the trace object; Kineto writes ``distributedInfo.rank`` where
            torch.distributed was in use, tracekit's collectors always ``tracekit_rank``.
        file_name: name of the file, e.g. ``worker3_step_12.pt.trace.json.gz`` or ``rank0.json``.

    Returns:
        The rank, and ``distributedInfo``, ``tracekit_rank`` or ``file name``; (None, ``unknown``)
        where none of them tells.
    """
    info = metadata.get("distributedInfo")
    if isinstance(info, Mapping):
        rank = as_int(info.get("rank"))
        if rank is not None and rank >= 0:
            return rank, "distributedInfo"
    rank = as_int(metadata.get("tracekit_rank"))
    if rank is not None and rank >= 0:
        return rank, "tracekit_rank"
    for pattern in _IN_NAME:
        found = pattern.findall(file_name)
        if found:
            return int(found[-1]), "file name"
    return None, "unknown"


def as_int(value: object, bits: int = 64) -> int | None:
    """Return a whole number given as a number or as text; None if it is none or needs more bits."""
    is_whole_text = isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,20}\s*", value, re.ASCII)
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if is_whole_text or is_whole:
        number = int(value)  # type: ignore[call-overload]
    else:
        return None
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None
