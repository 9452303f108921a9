"""Checks a wheel: its parser is compiled, its command reads a trace.

python check_wheel.py TRACE
"""

from __future__ import annotations

import json
import subprocess
import sys

from tracekit.ingest.event_collector import compiled_columns


def main() -> None:
    """Read a trace, and fail where that is not as fast as it should be, or wrong."""
    if compiled_columns() is None:
        sys.exit("the wheel holds no compiled parser")
    command = [sys.executable, "-m", "tracekit", "breakdown", sys.argv[1], "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if not json.loads(done.stdout)["timeline"]:
        sys.exit("the trace has no timeline")


if __name__ == "__main__":
    main()
