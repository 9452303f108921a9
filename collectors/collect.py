"""Runs the selected stage, or a program: entry point of `collect` and of the sweep."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .options import validated
from .process.power import sampling
from .run.folder import Ended


def run(
    values: Mapping[str, object],
    command: Sequence[str],
    echo: Callable[[str], None],
    program: Sequence[str] = (),
    serving_figures: Callable[[Path], list[str]] | None = None,
) -> Ended:
    """Run a workload under the profiler; return the run folder and exit code.

    `program` is the user's command with its arguments, which runs instead of a stage.
    `serving_figures` analyzes the run folder of a serving run and returns summary lines.
    """
    options = validated(values, is_program=bool(program))
    if not program:
        # Must be set before torch is loaded; otherwise its profiler logs every start and stop.
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    # Stages are imported only when needed; none of them imports torch in this process.
    with sampling(bool(options.pop("power", False)), echo) as keep:
        if program:
            from .loop.wrap import run as run_program

            ended = run_program(options, list(program), list(command), echo)
        elif options["stage"] == "serve":
            from .serving.run import run as run_load

            ended = Ended(run_load(options, list(command), echo, figures=serving_figures), 0)
        else:
            from .training.run import run as run_training

            ended = Ended(run_training(options, list(command), echo), 0)
        keep(ended.folder)
    return ended


def is_first_rank() -> bool:
    """Return whether this process prints the result of the run."""
    return os.environ.get("RANK", "0") == "0"
