"""Run the stage that the arguments ask for: one way in for both command lines and the sweep."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from .arguments import all_arguments, settle


def run(
    values: Mapping[str, object],
    command: Sequence[str],
    echo: Callable[[str], None],
    program: Sequence[str] = (),
) -> Path:
    """Run a workload under the profiler.

    Args:
        values: the arguments that were given, by `Argument.key`.
        command: the command line, for the manifest.
        echo: takes lines for people: what is being done, and the summary.
        program: a user's own training script with its arguments, to run in place of a stage.

    Returns:
        The run folder.

    Raises:
        TracekitError: the arguments are wrong, something is missing here, or the workload failed.
    """
    # Torch's profiler says on stderr when it starts and stops, unless told before torch is loaded.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    settled = settle(values, all_arguments())
    # A stage is the module of its name beside this one; none imports torch in this process.
    stage = import_module(f".{settled['stage'] if not program else 'wrap'}", __package__)
    folder: Path
    if program:
        folder = stage.run(settled, list(program), list(command), echo)
    else:
        folder = stage.run(settled, list(command), echo)
    return folder


def is_first_rank() -> bool:
    """Tell whether this process speaks for the run: of several ranks one prints the result."""
    return os.environ.get("RANK", "0") == "0"
