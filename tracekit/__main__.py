"""`python -m tracekit` is the `tracekit` command."""

from __future__ import annotations

import sys

from tracekit.cli._main import main

if __name__ == "__main__":
    sys.exit(main())
