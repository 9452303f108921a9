"""`python -m tracekit` is the `tracekit` command."""

from __future__ import annotations

from tracekit.cli._main import run_and_exit

if __name__ == "__main__":
    run_and_exit()
