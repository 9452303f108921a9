"""Run one part of the evidence pack: `python3 evidence/run.py --part 1 --out RESULTS`.

On the host it makes its own environment from the folder that `prepare.py` made; in a checkout it
takes this Python's. What is to come back lies in RESULTS as a few files of bounded size.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

if __name__ == "__main__":
    # The folder of the scripts gives way to the one above, so that their names are `evidence.…`.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from evidence import _host, _plan, _records, page
from evidence._bring_back import Bounds, bring_back
from evidence._schedule import Limits, Schedule
from evidence._setting import Host, Setting

_MINUTES = 8.6
_RESERVE_S = 75.0
_SHARED_CORES = 4
_MOST_SHARED = 3
_SLOWER = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a part and return the exit code: 0 if no item failed, 1 if one did, 2 for wrong usage."""
    options = _options(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    out = Path(options.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        if options.work:
            work = Path(options.work).resolve()
            work.mkdir(parents=True, exist_ok=True)
        else:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evidence-")))
        return _Part(options, out, work).run()


class _Part:
    """One part on its way from the folder to what comes back."""

    def __init__(self, options: argparse.Namespace, out: Path, work: Path) -> None:
        self._options = options
        self._out = out
        self._work = work
        self._start = time.monotonic()
        self._name = f"part{options.part}"
        self._logs = work / self._name / "logs"
        self._runs = work / self._name / "runs"
        for folder in (self._logs, self._runs):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self._log = (self._logs / "run.log").open("a", encoding="utf-8")
        self._lightllm: _host.Made | None = None
        self._lightllm_source: Path | None = None

    def run(self) -> int:
        """Run the items that time allows, and leave what is to come back."""
        options = self._options
        self._tell(f"part {options.part}{', dry run' if options.dry_run else ''}")
        items = _wanted(options)
        made, pack = self._environment(items)
        environment = _host.variables(self._work, made.python.parent)
        host = _host.probe(made.python, environment)
        self._tell(f"{host.device}, {host.core_count} cores, torch {host.packages.get('torch')}")
        rows, runnable = self._skip(items, host)
        if not host.has_cuda:
            # The same work takes longer there.
            runnable = [
                dataclasses.replace(item, limit_s=_SLOWER * item.limit_s) for item in runnable
            ]
        schedule = Schedule(
            runnable,
            self._limits(host),
            lambda item: self._command(item, made, host),
            environment,
            self._logs,
            self._tell,
        )
        rows += schedule.run()
        order = {item.name: number for number, item in enumerate(items)}
        rows.sort(key=lambda row: order[row["item"]])
        results = {
            "part": options.part,
            "is_dry": options.dry_run,
            "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - self._start, 1),
            "host": _plain_host(host),
            "pack": pack,
            "problems": made.problems + (self._lightllm.problems if self._lightllm else []),
            "shows": {item.name: item.shows for item in items},
            "rows": rows,
        }
        return self._finish(results)

    def _environment(self, items: Sequence[_plan.Item]) -> tuple[_host.Made, dict[str, Any]]:
        """Return the environment of the items, and what the pack says of itself."""
        folder = _host.pack_folder()
        if folder is None or self._options.here:
            self._tell("environment: this Python's own")
            return _host.Made(Path(sys.executable)), {"is_checkout": folder is None}
        content = json.loads((folder / _host.PACK_FILE).read_text("utf-8"))
        wheels = sorted((folder / "wheels").glob("*.whl"))
        self._tell(f"environment: this Python's packages and {len(wheels)} wheels")
        made = _host.make(self._work / "environment", wheels, self._tell)
        source = folder / "lightllm" / "source"
        if source.is_dir() and any("lightllm" in item.needs for item in items):
            theirs = sorted((folder / "lightllm" / "wheels").glob("*.whl"))
            self._tell(f"environment of LightLLM: {len(theirs)} wheels")
            self._lightllm = _host.make(self._work / "lightllm", theirs, self._tell)
            self._lightllm_source = source
        return made, content

    def _skip(
        self, items: Sequence[_plan.Item], host: Host
    ) -> tuple[list[dict[str, Any]], list[_plan.Item]]:
        """Return rows for what cannot run here, and the items that can."""
        rows, runnable = [], []
        for item in items:
            reasons = [
                reason for need in item.needs if (reason := self._lacking(need, host)) is not None
            ]
            if reasons:
                rows.append(_records.row(item.name, "skipped", "; ".join(reasons)))
                self._tell(f"skip    {item.name}: {'; '.join(reasons)}")
            else:
                runnable.append(item)
        return rows, runnable

    def _lacking(self, need: str, host: Host) -> str | None:
        """Return why a need is not met, None if it is."""
        if need == "cuda":
            return None if host.has_cuda else "needs a CUDA device, and torch sees none here"
        if need == "nvcc":
            return None if host.has_nvcc else "needs nvcc"
        if need == "lightllm":
            return None if self._lightllm_source else "LightLLM is not in the pack"
        return None if need in host.packages else f"{need} is not installed here"

    def _limits(self, host: Host) -> Limits:
        end = self._start + 60 * self._options.minutes
        reserve_s = min(_RESERVE_S, 60 * self._options.minutes / 3)
        shared = self._options.jobs or min(_MOST_SHARED, max(1, host.core_count // _SHARED_CORES))
        return Limits(
            shared_count=shared,
            cpu_count=2 if host.core_count >= 2 * _SHARED_CORES else 1,
            start_by=end - reserve_s,
            end_by=end - reserve_s / 3,
        )

    def _command(self, item: _plan.Item, made: _host.Made, host: Host) -> tuple[list[str], Path]:
        folder = self._work / self._name / "items" / item.slug
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        record = folder / "record.jsonl"
        Setting(
            item=item.name,
            arguments=item.arguments_for(is_dry=self._options.dry_run),
            is_dry=self._options.dry_run,
            runs=str(self._runs),
            work=str(folder),
            record=str(record),
            tracekit=[str(made.command)],
            lightllm_python=str(self._lightllm.python) if self._lightllm else None,
            lightllm_source=str(self._lightllm_source) if self._lightllm_source else None,
            host=host,
        ).write(folder / "setting.json")
        script = Path(__file__).with_name("item.py")
        return [str(made.python), str(script), str(folder / "setting.json")], record

    def _finish(self, results: dict[str, Any]) -> int:
        """Write what is to come back, and say what did not fit."""
        outcomes = [row["outcome"] for row in results["rows"]]
        counted = ", ".join(
            f"{outcomes.count(name)} {name}" for name in _records.OUTCOMES if name in outcomes
        )
        self._tell(f"all: {counted}, {time.monotonic() - self._start:.0f} s")
        self._log.flush()
        bounds = Bounds(
            file_count=self._options.max_files - 2,  # beside the results and the page
            file_bytes=round(self._options.max_file_mb * 1e6),
        )
        left = bring_back(self._runs, self._logs, self._out, self._name, bounds)
        results["did_not_fit"] = left
        for text in left:
            self._tell(f"does not fit: {text}")
        path = self._out / f"{self._name}-results.json"
        path.write_text(json.dumps(results, indent=1), "utf-8")
        others = sorted(self._out.glob("part*-results.json"))
        known = [json.loads(other.read_text("utf-8")) for other in others]
        (self._out / "evidence.md").write_text(page.markdown(known), "utf-8")
        for file in sorted(self._out.iterdir()):
            self._tell(f"{file.stat().st_size / 1e6:8.3f} MB  {file.name}")
        self._log.close()
        return 1 if "failed" in outcomes else 0

    def _tell(self, line: str) -> None:
        text = f"{time.monotonic() - self._start:6.1f} s  {line}"
        print(text, flush=True)
        self._log.write(text + "\n")
        self._log.flush()


def _wanted(options: argparse.Namespace) -> list[_plan.Item]:
    """Return the items of the part, less those that were not asked for or are done already."""
    items = _plan.items(options.part)
    if options.only:
        patterns = [re.compile(text.strip()) for text in options.only.split(",")]
        items = [item for item in items if any(found.fullmatch(item.name) for found in patterns)]
        if not items:
            names = ", ".join(item.name for item in _plan.items(options.part))
            sys.exit(f"error: --only names no item of part {options.part}; they are: {names}")
    done: set[str] = set()
    for path in options.done or ():
        by_item: dict[str, set[str]] = {}
        for row in json.loads(Path(path).read_text("utf-8"))["rows"]:
            by_item.setdefault(row["item"], set()).add(row["outcome"])
        done |= {name for name, outcomes in by_item.items() if outcomes <= {"ok", "skipped"}}
    return [item for item in items if item.name not in done or item.is_last]


def _plain_host(host: Host) -> dict[str, Any]:
    return {name: getattr(host, name) for name in Host.__dataclass_fields__}


def _interrupt(number: int, frame: object) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__.split("\n", 1)[0])
    add: Callable[..., Any] = parser.add_argument
    add("--part", type=int, choices=(1, 2, 3), required=True, help="which part to run")
    add("--out", required=True, metavar="DIR", help="takes what is to come back")
    add("--dry-run", action="store_true", help="sizes for a trial on a CPU")
    add("--only", metavar="NAMES", help="only these items: names or patterns, with commas")
    add("--done", action="append", metavar="FILE", help="a results.json: leave out what did well")
    add("--minutes", type=float, default=_MINUTES, help="time that the part has")
    add("--jobs", type=int, default=0, help="items at once that do not measure time")
    add("--here", action="store_true", help="use this Python's environment as it is")
    add("--work", metavar="DIR", help="keep what is not brought back in this folder")
    add("--max-files", type=int, default=8, help="files that may come back")
    add("--max-file-mb", type=float, default=15.5, help="size of one at most, MB (1e6 bytes)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        os._exit(130)
