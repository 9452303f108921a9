"""Times of many events at once, from µs as nearly all are written: no sign, three decimals at most.

All digits count, as in :mod:`tracekit.ingest.event_reader`, which reads the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_FEW_DECIMALS = re.compile(rb"\.\d\d?(?=,)")
_NO_DECIMALS = re.compile(rb",(\d+)(?=,)")
_NS_TIMES = re.compile(rb",(?:\d{1,17}\.\d{3},)*")


def times_ns(written: Sequence[Any]) -> list[int | None]:
    """Return times that are written in µs as ns.

    Args:
        written: the texts of JSON values, None for none.

    Returns:
        ns; None for none, and for what is no usual time.
    """
    given = [value for value in written if value is not None]
    text = b",".join((b"", *given, b""))
    point_count = text.count(b".")
    if point_count == 0:
        text = text[:1] + text[1:].replace(b",", b".000,")
    else:
        text = _FEW_DECIMALS.sub(lambda found: found[0].ljust(4, b"0"), text)
        if point_count < len(given):
            text = _NO_DECIMALS.sub(rb",\1.000", text)
    times: list[int | None]
    if _NS_TIMES.fullmatch(text):
        times = list(map(int, text[1:-1].decode().replace(".", "").split(","))) if given else []
    else:
        times = list(map(_time_ns, map(bytes, given)))
    return times if len(times) == len(written) else _in_places(times, written)


def _in_places(times: Sequence[Any], written: Sequence[Any]) -> list[int | None]:
    following = iter(times)
    return [None if value is None else next(following) for value in written]


def _time_ns(written: bytes) -> int | None:
    whole, point, fraction = written.partition(b".")
    if not whole.isdigit() or len(whole) > 17 or len(fraction) > 3:
        return None
    if point and not fraction.isdigit():
        return None
    return int(whole + fraction.ljust(3, b"0"))
