"""The paper's tables and figures with ours beside them, by `tracekit paper`."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from evidence._commands import tracekit
from evidence._records import Record, SkippedError
from evidence._setting import Setting

_AT_ONCE = 4


def run(setting: Setting, record: Record) -> None:
    """Ask for each table, and for the analyses of all runs together."""
    folders = sorted(path.parent for path in setting.runs_folder.glob("*/run.json"))
    runs = [folder for folder in folders if _is_wanted(folder, setting)]
    # Reading the traces takes the time; each is read once and kept.
    with ThreadPoolExecutor(max(1, min(_AT_ONCE, setting.host.core_count // 2))) as pool:
        list(pool.map(lambda folder: tracekit(setting, "health", folder), _with_traces(runs)))
    for name in setting.arguments["tables"]:
        with record.case(name) as case:
            if not runs:
                raise SkippedError("there is no run to put beside it")
            done = tracekit(setting, "paper", name, *runs, "--format", "markdown")
            if done.exit_code == 2:  # this tracekit knows no such table
                raise SkippedError(done.last_words)
            case.claim("it ends well", done.exit_code == 0, done.last_words, "exit code 0")
            case.text(f"tracekit paper {name}", done.stdout)
    for name in setting.arguments.get("queries", ()):
        with record.case(f"query {name}") as case:
            if not runs:
                raise SkippedError("there is no run to ask")
            done = tracekit(setting, "query", name, *runs, "--format", "markdown")
            case.claim("it ends well", done.exit_code == 0, done.last_words, "exit code 0")
            case.text(f"tracekit query {name}", done.stdout)


def _is_wanted(folder: Path, setting: Setting) -> bool:
    stage = json.loads((folder / "run.json").read_text("utf-8"))["stage"]
    return bool(stage == setting.arguments.get("stage", stage))


def _with_traces(folders: list[Path]) -> list[Path]:
    return [folder for folder in folders if list(folder.glob("rank*.json.gz"))]
