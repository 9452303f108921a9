"""Prints the requirements of extras, one per line: `python tests/extras.py EXTRA…`.

With these, pip does not rebuild an installed tracekit.
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def requirements(extras):
    """Return the requirements of the core and of extras, without duplicates."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    asked = [*project["dependencies"]]
    for extra in extras:
        asked += project["optional-dependencies"][extra]
    return sorted(set(asked))


if __name__ == "__main__":
    sys.stdout.write("".join(f"{one}\n" for one in requirements(sys.argv[1:])))
