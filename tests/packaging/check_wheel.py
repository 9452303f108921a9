"""Checks a wheel: its command reads a trace.

python check_wheel.py TRACE
"""

import json
import subprocess
import sys


def main():
    """Read a trace, and fail where the result is wrong."""
    command = [sys.executable, "-m", "tracekit", "breakdown", sys.argv[1], "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if not json.loads(done.stdout)["timeline"]:
        sys.exit("the trace has no timeline")


if __name__ == "__main__":
    main()
