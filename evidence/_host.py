"""The environment in which items run: made from the pack's folder, without any index.

The host's own packages (torch, transformers, …) come in by a `.pth` file; what the pack brings lies
before them. LightLLM has an environment of its own, because it wants older versions of some.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from evidence._setting import Host

PACK_FILE = "pack.json"
"""Lies in a pack's folder and says what is in it."""

_INSTALL_S = 120
_PROBE_S = 120
_PACKAGES = (
    "accelerate",
    "bitsandbytes",
    "deepspeed",
    "duckdb",
    "lightning",
    "peft",
    "torch",
    "transformers",
    "triton",
)
_PROBE = """if True:
    import importlib.metadata as metadata, importlib.util as util, json, os, shutil, sys
    import torch
    found = {"core_count": len(os.sched_getaffinity(0)), "packages": {}}
    found["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in sys.argv[1:]:
        if util.find_spec(name) is not None:
            try:
                found["packages"][name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                found["packages"][name] = "unknown"
    found["has_cuda"] = torch.cuda.is_available()
    if found["has_cuda"]:
        found["device"] = torch.cuda.get_device_name(0)
        found["device_memory_bytes"] = torch.cuda.get_device_properties(0).total_memory
        from torch.utils.cpp_extension import CUDA_HOME
        found["has_nvcc"] = CUDA_HOME is not None and os.path.exists(f"{CUDA_HOME}/bin/nvcc")
    print("\\n" + json.dumps(found))
"""


@dataclass(slots=True)
class Made:
    """An environment, and what could not be installed into it."""

    python: Path
    problems: list[str] = field(default_factory=list)

    @property
    def command(self) -> Path:
        """The command `tracekit` of the environment."""
        return self.python.with_name("tracekit")


def pack_folder() -> Path | None:
    """Return the pack's folder if these scripts lie in one, None in a checkout."""
    folder = Path(__file__).resolve().parent.parent
    return folder if (folder / PACK_FILE).is_file() else None


def make(folder: Path, wheels: Sequence[Path], tell: Callable[[str], None]) -> Made:
    """Make an environment of some wheels and this Python's own packages.

    Args:
        folder: where it is made; one that is there already is made anew.
        wheels: what is installed, each without its requirements.
        tell: takes a line for people.
    """
    shutil.rmtree(folder, ignore_errors=True)
    has_pip = find_spec("pip") is not None
    bare = ["--without-pip"] if has_pip else []
    _run([sys.executable, "-m", "venv", *bare, str(folder)])
    made = Made(folder / "bin" / "python")
    purelib = Path(
        _run([str(made.python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    )
    lines = "".join(f"{path}\n" for path in own_packages())
    (purelib / "of_the_host.pth").write_text(lines, "utf-8")
    if not wheels:
        return made
    try:
        _install(made.python, wheels)
    except RuntimeError:
        # One that does not fit here must not keep the others out.
        for wheel in wheels:
            try:
                _install(made.python, [wheel])
            except RuntimeError as error:
                made.problems.append(f"{wheel.name}: {error}")
                tell(f"        not installed: {made.problems[-1]}")
    return made


def own_packages() -> list[str]:
    """Return the folders in which this Python has its packages."""
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    if sys.prefix == sys.base_prefix:
        folders += site.getsitepackages()
        if site.ENABLE_USER_SITE:
            folders.append(site.getusersitepackages())
    elif _has_system_packages():
        folders += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return [path for path in dict.fromkeys(folders) if Path(path).is_dir()]


def variables(work: Path, bin_folder: Path) -> dict[str, str]:
    """Return the environment variables of all items: nothing is fetched, nothing is left behind.

    Args:
        work: takes caches and temporary files.
        bin_folder: where the environment's commands are.
    """
    (work / "tmp").mkdir(parents=True, exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TRACEKIT_", "PYTHON", "RANK", "WORLD_SIZE", "LOCAL_"))
    }
    kept.pop("VIRTUAL_ENV", None)
    return {
        **kept,
        "PATH": os.pathsep.join([str(bin_folder), kept.get("PATH", "/usr/bin:/bin")]),
        "TMPDIR": str(work / "tmp"),
        "TRACEKIT_CACHE_DIR": str(work / "cache"),
        "XDG_CACHE_HOME": str(work / "cache"),
        "TORCH_EXTENSIONS_DIR": str(work / "extensions"),
        "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
        "TRITON_CACHE_DIR": str(work / "triton"),
        "PIP_NO_INDEX": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "KINETO_LOG_LEVEL": "6",
    }


def probe(python: Path, environment: dict[str, str]) -> Host:
    """Return what the machine and the environment have.

    Raises:
        RuntimeError: torch cannot be loaded.
    """
    text = _run(
        [str(python), "-c", _PROBE, *_PACKAGES], timeout_s=_PROBE_S, environment=environment
    )
    found = json.loads(text.splitlines()[-1])
    found.setdefault("device", _processor())
    return Host(**found)


def _install(python: Path, wheels: Sequence[Path]) -> None:
    # This Python's pip installs into the other environment, which then needs none of its own.
    pip = [str(python), "-m", "pip"]
    if find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
    _run(
        [
            *(*pip, "install", "--quiet"),
            *("--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--force-reinstall"),
            *("--disable-pip-version-check", *map(str, wheels)),
        ],
        timeout_s=_INSTALL_S,
    )


def _run(
    command: Sequence[str], *, timeout_s: float = 60, environment: dict[str, str] | None = None
) -> str:
    """Run a command and return what it printed.

    Raises:
        RuntimeError: it failed; the last line that it said.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"took more than {timeout_s:.0f} s") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise RuntimeError(lines[-1].strip() if lines else f"exit code {done.returncode}")
    return done.stdout.strip()


def _has_system_packages() -> bool:
    try:
        text = (Path(sys.prefix) / "pyvenv.cfg").read_text("utf-8")
    except OSError:
        return False
    return "include-system-site-packages = true" in text


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return "CPU"
