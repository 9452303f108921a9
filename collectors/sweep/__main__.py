"""`python -m tracekit.collectors.sweep`: a sweep without the rest of the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tracekit.errors import TracekitError

from .arguments import sweep_arguments
from .run import check, run_sweep


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code, as `tracekit sweep` would.

    Args:
        args: the arguments after the program's name; those of the process if None.
    """
    from ..__main__ import INTERRUPTED, make_parser

    parser = make_parser(
        sweep_arguments(),
        program="python -m tracekit.collectors.sweep",
        description="Run a grid of workloads under the profiler, one run folder for each.",
    )
    try:
        values = vars(parser.parse_args(args))
        check(run_sweep(values, _echo))
    except TracekitError as error:
        _echo(f"error: {error.message}")
        if error.hint:
            _echo(f"hint: {error.hint}")
        return error.exit_code
    except KeyboardInterrupt:
        _echo("")
        return INTERRUPTED
    sys.stdout.write(f"{values['out']}\n")
    return 0


def _echo(line: str) -> None:
    """Write a line to stderr: stdout is the folder's path alone."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
