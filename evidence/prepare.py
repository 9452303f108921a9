"""Make the folder to bring to a GPU host: `python3 evidence/prepare.py PACK`.

What cannot be had is left out and listed with the reason; the rest goes on. The folder holds no
credentials and no paths of this machine.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # The folder of the scripts gives way to the one above, so that their names are `evidence.…`.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from evidence import _lightllm, _wheels
from evidence._host import PACK_FILE
from evidence._wheels import UnavailableError, Wheels

REPO = Path(__file__).resolve().parent.parent
_MOST_BYTES = 64_000_000
_SCRIPTS = ("*.py", "README.md", "items/*.py", "loops/*.py")


@dataclass(slots=True)
class Part:
    """A part of the pack: its files below the folder, or why it is missing."""

    name: str
    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the folder; return 0, or 1 if tracekit itself is missing in it."""
    options = _options(arguments)
    pack = Path(options.pack)
    if pack.exists() and not (pack / PACK_FILE).is_file() and any(pack.iterdir()):
        sys.exit(f"error: {pack} holds something that is no pack")
    shutil.rmtree(pack, ignore_errors=True)
    wheels = pack / "wheels"
    wheels.mkdir(parents=True)
    _copy_scripts(pack)
    with tempfile.TemporaryDirectory(prefix="evidence-") as folder:
        work = Path(folder)
        makers = _makers(options, pack, work)
        wanted = options.parts.split(",") if options.parts else list(makers)
        if unknown := set(wanted) - set(makers):
            sys.exit(f"error: no part {', '.join(unknown)}; they are: {', '.join(makers)}")
        parts = []
        for name in wanted:
            part = Part(name)
            try:
                makers[name](part)
            except UnavailableError as error:
                part.problems.append(str(error))
            parts.append(part)
            size = sum(map(_size, part.files))
            print(f"{name:24} {size / 1e6:6.2f} MB", *part.problems, sep="  ", flush=True)
    _drop_what_is_too_much(pack, parts)
    _write(pack, parts, options.python_version)
    print(f"{'all':24} {_size(pack) / 1e6:6.2f} MB  in {pack}")
    return 0 if any(part.name == "tracekit" and part.files for part in parts) else 1


def _makers(
    options: argparse.Namespace, pack: Path, work: Path
) -> dict[str, Callable[[Part], None]]:
    """Return what makes each part, in the order of its worth."""
    wheels, theirs = pack / "wheels", pack / "lightllm" / "wheels"

    def downloaded(which: Wheels, into: Path) -> Callable[[Part], None]:
        def make(part: Part) -> None:
            into.mkdir(parents=True, exist_ok=True)
            part.files, part.problems = _wheels.download(which, into, options.python_version)
            part.facts["what_for"] = which.what_for

        return make

    def built(build: Callable[[], Path]) -> Callable[[Part], None]:
        def make(part: Part) -> None:
            part.files = [build()]

        return make

    def lightllm(part: Part) -> None:
        source = pack / "lightllm" / "source"
        part.facts["commit"] = _lightllm.export(options.lightllm, source, work)
        part.files = [source]
        of_it = Part("")
        downloaded(_wheels.OF_LIGHTLLM, theirs)(of_it)
        part.files += of_it.files
        part.problems += of_it.problems

    return {
        "tracekit": built(lambda: _wheels.build_tracekit(REPO, wheels, work)),
        "analysis": downloaded(_wheels.ANALYSIS, wheels),
        "nvtx": downloaded(_wheels.NVTX, wheels),
        "deepspeed": built(lambda: _wheels.build_deepspeed(wheels)),
        "deepspeed-needs": downloaded(_wheels.OF_DEEPSPEED, wheels),
        "bitsandbytes": built(
            lambda: _wheels.strip_bitsandbytes(wheels, work, options.python_version)
        ),
        "lightllm": lightllm,
    }


def _copy_scripts(pack: Path) -> None:
    here = Path(__file__).resolve().parent
    for pattern in _SCRIPTS:
        for path in here.glob(pattern):
            target = pack / "evidence" / path.relative_to(here)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def _drop_what_is_too_much(pack: Path, parts: Sequence[Part]) -> None:
    """Leave out parts from the last on until the pack is within its size."""
    for part in reversed(parts):
        size = _size(pack)
        if size <= _MOST_BYTES or part.name == "tracekit":
            return
        for path in part.files:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        part.files = []
        part.problems.append(f"left out: the pack would have {size / 1e6:.1f} MB with it")


def _write(pack: Path, parts: Sequence[Part], python: str) -> None:
    """Write what is in the pack."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]["name"]
    content = {
        "made_by": f"{project}'s evidence/prepare.py",
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": python,
        "total_bytes": _size(pack),
        "parts": [
            {
                "name": part.name,
                "files": sorted(path.relative_to(pack).as_posix() for path in part.files),
                "bytes": sum(map(_size, part.files)),
                "problems": part.problems,
                **part.facts,
            }
            for part in parts
        ],
    }
    (pack / PACK_FILE).write_text(json.dumps(content, indent=1), "utf-8")


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="prepare.py", description=__doc__.split("\n", 1)[0])
    parser.add_argument("pack", help="the folder to make")
    parser.add_argument("--lightllm", metavar="CLONE", help="a clone of LightLLM on this machine")
    parser.add_argument("--parts", metavar="NAMES", help="only these, with commas")
    parser.add_argument(
        "--python-version",
        default=_wheels.HOST_PYTHON,
        metavar="VERSION",
        help="of the host [default: %(default)s]",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
