"""The wheels of a pack: which they are, and how each is had."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOST_PYTHON = "3.12"
HOST_PLATFORMS = tuple(
    f"{name}_x86_64"
    for name in (
        *(f"manylinux_2_{minor}" for minor in (39, 35, 34, 31, 28, 27, 26, 24, 17)),
        "manylinux2014",
        "manylinux1",
    )
)
"""What the host's pip takes; a platform is matched by its very name."""

_BUILD_S = 600
_DOWNLOAD_S = 600
_MISSING = re.compile(r"ERROR: (.*)")
_ADDRESS = re.compile(r"(?:https?|file|git\+\w+)://\S+")
_PATH = re.compile(r"(?<![\w.])/(?:[\w.+@-]+/)+")

# What bitsandbytes ships a library for, and the host has.
_KEPT_LIBRARIES = ("cpu.so", "cuda130.so")


class UnavailableError(Exception):
    """Something cannot be had here; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Wheels:
    """Wheels that are fetched together.

    Attributes:
        name: of the part of the pack.
        requirements: each with its version; their own requirements are not followed.
        what_for: what is missing in the pack without them.
    """

    name: str
    requirements: tuple[str, ...]
    what_for: str


ANALYSIS = Wheels(
    "analysis",
    (
        *("duckdb==2.0.0", "isal==1.9.1", "msgspec==0.22.0", "click==8.5.1", "rich==15.0.0"),
        *("markdown-it-py==4.3.0", "mdurl==0.1.2", "prompt_toolkit==3.0.53"),
        *("pygments==2.21.0", "wcwidth==0.9.4"),
    ),
    "reading traces and asking them",
)
NVTX = Wheels("nvtx", ("nvtx==0.2.17",), "ranges in Nsight")
OF_DEEPSPEED = Wheels(
    "deepspeed's requirements",
    (
        *("hjson==3.1.0", "pydantic==2.10.3", "pydantic_core==2.27.1", "annotated_types==0.8.0"),
        *("py-cpuinfo==9.0.0", "typing_extensions==4.16.0"),
    ),
    "ZeRO",
)
OF_LIGHTLLM = Wheels(
    "LightLLM's requirements",
    (
        *("rpyc==6.0.1", "plumbum==1.10.0", "pyzmq==27.1.0", "atomics==1.0.3", "cffi==1.17.1"),
        *("pycparser==2.23", "easydict==1.13", "fastapi==0.115.6", "starlette==0.41.3"),
        *("pydantic==2.10.3", "pydantic_core==2.27.1", "annotated_types==0.8.0"),
        *("sniffio==1.3.1", "hypercorn==0.18.0", "h2==4.3.0", "hpack==4.1.0"),
        *("hyperframe==6.1.0", "priority==2.0.0", "wsproto==1.2.0", "websockets==15.0.1"),
        *("ujson==5.11.0", "orjson==3.11.2", "setproctitle==1.3.6", "frozendict==2.4.6"),
        *("partial_json_parser==0.2.1.1.post6", "redis==7.3.0", "typing_extensions==4.16.0"),
    ),
    "the LightLLM server",
)
DEEPSPEED = "deepspeed==0.19.8"
BITSANDBYTES = "bitsandbytes==0.50.2"


def download(wheels: Wheels, into: Path, python: str) -> tuple[list[Path], list[str]]:
    """Fetch wheels for the host; one that cannot be had does not keep the others out.

    Args:
        wheels: what to fetch.
        into: the folder.
        python: version of the host's Python.

    Returns:
        The wheels, and a sentence for each that is missing.
    """
    found, problems = [], []
    for requirement in wheels.requirements:
        try:
            found.append(_download(requirement, into, python))
        except UnavailableError as error:
            problems.append(f"{requirement}: {error}")
    return found, problems


def build_tracekit(repo: Path, into: Path, work: Path) -> Path:
    """Build tracekit's wheel from what a commit of the tree would hold.

    Raises:
        UnavailableError: it cannot be built.
    """
    source = work / "source"
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            capture_output=True,
            encoding="utf-8",
            cwd=repo,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError(f"the files of the tree cannot be listed: {error}") from error
    for name in filter(None, listed.split("\0")):
        if (repo / name).is_file() or (repo / name).is_symlink():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(repo / name, source / name, follow_symlinks=False)
    return _build([str(source)], into, {})


def build_deepspeed(into: Path) -> Path:
    """Build DeepSpeed's wheel without its operations, which it compiles on the host when asked.

    Raises:
        UnavailableError: it cannot be built.
    """
    variables = {"DS_BUILD_OPS": "0"}
    try:
        return _build(["--no-build-isolation", DEEPSPEED], into, variables)
    except UnavailableError:
        return _build([DEEPSPEED], into, variables)


def strip_bitsandbytes(into: Path, work: Path, python: str) -> Path:
    """Fetch bitsandbytes and leave out the libraries for what the host has not.

    Raises:
        UnavailableError: it cannot be had.
    """
    whole = _download(BITSANDBYTES, work, python)
    target = into / whole.name
    with (
        zipfile.ZipFile(whole) as source,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as kept,
    ):
        dropped = {
            name
            for name in source.namelist()
            if name.endswith(".so") and not name.endswith(_KEPT_LIBRARIES)
        }
        for item in source.infolist():
            if item.filename in dropped:
                continue
            data = source.read(item)
            if item.filename.endswith(".dist-info/RECORD"):
                lines = data.decode("utf-8").splitlines()
                lines = [line for line in lines if line.split(",")[0] not in dropped]
                data = ("\n".join(lines) + "\n").encode("utf-8")
            kept.writestr(item, data)
    return target


def clean(text: str) -> str:
    """Take addresses and folders of this machine out of a text."""
    return _PATH.sub("", _ADDRESS.sub("…", text)).strip()


def _download(requirement: str, into: Path, python: str) -> Path:
    platforms = [word for name in HOST_PLATFORMS for word in ("--platform", name)]
    before = set(into.glob("*.whl"))
    _pip(
        [
            *("download", "--no-deps", "--only-binary=:all:", "--python-version", python),
            *("--implementation", "cp", *platforms, "--dest", str(into), requirement),
        ],
        _DOWNLOAD_S,
        {},
    )
    name = re.sub(r"[-_.]+", "_", requirement.split("==", maxsplit=1)[0]).lower()
    made = set(into.glob("*.whl")) - before
    known = [path for path in into.glob("*.whl") if path.name.lower().startswith(f"{name}-")]
    if not (made or known):
        raise UnavailableError("pip said it was done, and left nothing")
    return next(iter(made or known))


def _build(words: Sequence[str], into: Path, variables: Mapping[str, str]) -> Path:
    before = set(into.glob("*.whl"))
    _pip(["wheel", "--no-deps", "--wheel-dir", str(into), *words], _BUILD_S, variables)
    made = set(into.glob("*.whl")) - before
    if not made:
        raise UnavailableError("pip said it was done, and left nothing")
    return made.pop()


def _pip(words: Sequence[str], timeout_s: float, variables: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            env={**os.environ, **variables},
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"pip took more than {timeout_s:.0f} s") from error
    if done.returncode != 0:
        said = _MISSING.findall(done.stderr)
        raise UnavailableError(clean(said[-1] if said else f"pip ended with {done.returncode}"))
