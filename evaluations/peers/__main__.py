"""`make peers`: compares figures with other tools on the test inputs of those tools.

    make peers ARGS="[--only TEXT] [--out FILE]"

Writes the tables of the manual's page. TRACEKIT_TRACELENS and TRACEKIT_HTA name clones of
AMD-AGI/TraceLens and facebookresearch/HolisticTraceAnalysis.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import made_parts

from . import hta, memory, replay, tracelens

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "against-peers.md"


def parts() -> dict[str, Callable[[], str]]:
    """Return the functions that create each part of the page, for the available tools."""
    makers: dict[str, Callable[[], str]] = {
        "replay": replay.replay,
        "memory": memory.memory,
    }
    if clone := os.environ.get("TRACEKIT_TRACELENS"):
        for make in (
            tracelens.operators,
            tracelens.captures,
            tracelens.categories,
            tracelens.costs,
        ):
            makers[f"TraceLens, {make.__name__}"] = partial(make, Path(clone))
    if clone := os.environ.get("TRACEKIT_HTA"):
        makers["HolisticTraceAnalysis"] = partial(hta.figures, Path(clone))
    return makers


def main(arguments: Sequence[str] | None = None) -> None:
    """Update the page."""
    parser = argparse.ArgumentParser(prog="make peers")
    parser.add_argument("--only", default="", help="text in the names of parts")
    parser.add_argument("--out", type=Path, default=PAGE)
    parsed = parser.parse_args(arguments)
    for name, make in parts().items():
        if parsed.only in name:
            text = parsed.out.read_text("utf-8")
            parsed.out.write_text(made_parts.filled(text, f"make peers, {name}", make()), "utf-8")


if __name__ == "__main__":
    main()
