"""Made-up traces that are asked the same thing, opened at once: as the ranks of one run.

To open a trace of ten events takes as long as to open twenty of them, so that analyses whose rows
are those of a rank are asked of all cases together.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from traces_by_hand import Event

import tracekit


@contextlib.contextmanager
def opened_as_ranks(
    folder: Path,
    cases: Sequence[Sequence[Event]],
    *,
    ceilings: Path | None = None,
    **top_level: Any,
) -> Iterator[tracekit.Trace]:
    """Open traces as one run; the events at each place are those of the rank of that number.

    `top_level` are members that each file has beside `traceEvents`; `ceilings` is as for
    `tracekit.open`.
    """
    paths = []
    for rank, events in enumerate(cases):
        info = {"rank": rank, "world_size": len(cases)}
        whole = {**top_level, "distributedInfo": info, "traceEvents": [*events]}
        paths.append(folder / f"rank{rank}.json")
        paths[-1].write_text(json.dumps(whole), "utf-8")
    with tracekit.open(*paths, cache=False, ceilings=ceilings) as trace:
        yield trace


def rows_by_rank(
    trace: tracekit.Trace, analysis: str, **params: Any
) -> dict[int, list[dict[str, Any]]]:
    """Return the rows that an analysis has of each rank."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in trace.query(analysis, **params).to_dicts():
        found.setdefault(row["rank"], []).append(row)
    return found
