"""Runs the command `tracekit` as a person does, and says what it said."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence._setting import Setting


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """Return stdout parsed as JSON."""
        return json.loads(self.stdout)

    @property
    def last_words(self) -> str:
        """The end of what it said, for a reason."""
        return " | ".join(self.stderr.strip().splitlines()[-3:])[-400:]


def tracekit(setting: Setting, *words: object, variables: Mapping[str, str] | None = None) -> Done:
    """Run `tracekit WORDS`; what it says goes to the log too."""
    command = [*setting.tracekit, *map(str, words)]
    return run(command, setting.work_folder, variables or {})


def run(command: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> Done:
    """Run a command in a folder, with some variables added to the environment."""
    print("$", *command, flush=True)
    done = subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, **variables},
        check=False,
    )
    print(done.stderr, f"exit code {done.returncode}", flush=True)
    return Done(done.returncode, done.stdout, done.stderr)


def options(values: Mapping[str, object]) -> list[str]:
    """Return arguments as the command line takes them: `batch_size=2` is `--batch-size 2`."""
    found: list[str] = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(option)
        elif value is not None and value is not False:
            found += [option, str(value)]
    return found
