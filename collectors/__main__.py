"""`python -m tracekit.collectors`: `tracekit collect` for launchers that start modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tracekit.cli._main import main as run_command
from tracekit.cli.commands.collect import command


def main(args: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if args is None else args)
    end = words.index("--") if "--" in words else len(words)
    # DeepSpeed's launcher adds this option to every program; LOCAL_RANK has the same value.
    options = [word for word in words[:end] if not word.startswith("--local_rank=")]
    return run_command([*options, *words[end:]], command, "python -m tracekit.collectors")


if __name__ == "__main__":
    sys.exit(main())
