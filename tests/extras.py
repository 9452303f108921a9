"""Prints what some extras ask for, a requirement a line: `python tests/extras.py EXTRA…`.

pip installs that next to an installed tracekit, which it would otherwise build again.
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def requirements(extras: list[str]) -> list[str]:
    """Return what some extras ask for, and the core, without what is named twice."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    asked = [*project["dependencies"]]
    for extra in extras:
        asked += project["optional-dependencies"][extra]
    return sorted(set(asked))


if __name__ == "__main__":
    sys.stdout.write("".join(f"{one}\n" for one in requirements(sys.argv[1:])))
