"""No file of ours is longer than one reads in a sitting: `python tests/file_lengths.py`.

Ends with 1 if a file is too long and not excepted, or excepted and no longer too long.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
FOLDERS = ("tracekit", "collectors", "queries", "native", "evidence", "tests")
SUFFIXES = {".py", ".sql", ".c", ".h"}
MOST_LINES = 400

EXCEPTED = {
    "tracekit/schema.py": "one table after the other, each a few lines",
}
"""Files that may be longer, each with its reason."""


def line_counts(repo: Path) -> dict[str, int]:
    """Return how many lines each file of the repository has, by its path in it."""
    return {
        path.relative_to(repo).as_posix(): path.read_bytes().count(b"\n")
        for folder in FOLDERS
        for path in sorted((repo / folder).rglob("*"))
        if path.suffix in SUFFIXES and path.is_file()
    }


def complaints(counts: dict[str, int], excepted: dict[str, str]) -> list[str]:
    """Return a sentence for each file that is too long, and each exception that is none."""
    found = [
        f"{name}: {count} lines, and {MOST_LINES} are the most: split it by what it holds"
        for name, count in counts.items()
        if count > MOST_LINES and name not in excepted
    ]
    found += [
        f"{name}: is excepted ({reason}), and need not be: take it off the list"
        for name, reason in excepted.items()
        if counts.get(name, 0) <= MOST_LINES
    ]
    return found


if __name__ == "__main__":
    told = complaints(line_counts(REPO), EXCEPTED)
    sys.stderr.write("".join(f"{line}\n" for line in told))
    sys.exit(bool(told))
