"""Lines for people in the process of a program that may be drawing progress bars."""

from __future__ import annotations

import sys


def write_notice(text: str) -> None:
    """Write a line to stderr that begins with `tracekit: ` and touches no open bar of tqdm.

    tqdm's own `write` clears its bars, writes, and draws them anew. It is used only where the
    program has imported tqdm.
    """
    line = f"tracekit: {text}"
    bars = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if bars is not None:
        try:
            bars.write(line, file=sys.stderr)
        except Exception:  # noqa: BLE001 - the program may have put anything in its place
            pass
        else:
            return
    sys.stderr.write(f"{line}\n")
