"""Build backend: setuptools with the C library, as one wheel per platform for all Python versions.

The library needs no Python headers. It is compiled with ``$CC``, ``cc``, or the C compiler of
PyPI's package ``ziglang``, which the build then requires. ``$CFLAGS`` come last.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from setuptools import Extension, build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

FLAGS = ["-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"]
SOURCES = sorted(map(str, Path("native").rglob("*.c")))
ZIG = "ziglang>=0.13"


def system_compiler() -> list[str] | None:
    """Return the command of the installed C compiler, or None."""
    if os.environ.get("CC", "").strip():
        return shlex.split(os.environ["CC"])
    return ["cc"] if shutil.which("cc") else None


def compiler() -> list[str]:
    """Return the command of the C compiler to use.

    Raises:
        SystemExit: no C compiler is available.
    """
    command = system_compiler()
    if command is not None:
        return command
    if find_spec("ziglang") is None:
        sys.exit(
            "tracekit needs a C compiler to install from source: install one as cc, set $CC, or "
            "install PyPI's package ziglang"
        )
    # By default, zig targets this machine's CPU, and the library would not run on older CPUs.
    return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline", "-s"]


class BuildLibrary(build_ext):
    """Compiles the library under a name without a Python version."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the path of the library in the wheel."""
        return os.path.join(*fullname.split(".")) + ".so"  # noqa: PTH118

    def build_extension(self, ext: Extension) -> None:
        """Compile all files with one command, which takes a few seconds."""
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = shlex.split(os.environ.get("CFLAGS", ""))
        # A running program may have loaded the library, so never write into it.
        new = target.with_suffix(".new")
        command = [*compiler(), *FLAGS, *SOURCES, "-o", str(new), *flags]
        try:
            done = subprocess.run(command, check=False)
        except OSError as error:
            sys.exit(f"tracekit cannot be compiled: {command[0]}: {error.strerror}")
        if done.returncode:
            sys.exit(f"tracekit cannot be compiled: {command[0]} failed (see the output above)")
        new.replace(target)

    def copy_file(self, infile: str, outfile: str, *args: Any, **options: Any) -> Any:
        """Replace the library of an editable installation, which a program may be loading."""
        new, result = super().copy_file(infile, f"{outfile}.new", *args, **options)
        Path(new).replace(outfile)
        return outfile, result


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and all Python versions."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag of the wheel."""
        return "py3", "none", super().get_tag()[2]


def _requirements(of_setuptools: list[str]) -> list[str]:
    return of_setuptools if system_compiler() else [*of_setuptools, ZIG]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return the requirements of a wheel build."""
    return _requirements(build_meta.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Return the requirements of an editable installation."""
    return _requirements(build_meta.get_requires_for_build_editable(config_settings))


build_wheel = build_meta.build_wheel
build_editable = build_meta.build_editable
