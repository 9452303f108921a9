"""Carries the GPU tests to a host without a network, and brings back their results.

    python3 evaluations/gpu_pack/carry.py pack PACK --lightllm CLONE
    python3 PACK/evaluations/gpu_pack/carry.py run OUT

The first command creates a folder of at most 64 MB here, and the second at most eight files in OUT
on the host. The host needs Python 3.12, torch for CUDA, transformers, accelerate, and peft; nothing
is downloaded there. The folder contains the tests, wheels of tracekit, pytest, DeepSpeed, and
bitsandbytes, and LightLLM's source and wheels. Unavailable parts are reported and omitted. `run`
creates an environment from the wheels and the host's packages. Within a time limit, it runs tests
with measurements sequentially and others concurrently. No process is left running. Arguments after
`--` go to pytest: files, `-k`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_BYTES = 64_000_000
# pip compares platform names exactly.
_FOR_HOST = (
    *("--only-binary=:all:", "--implementation", "cp", "--python-version", "3.12"),
    *(f"--platform=manylinux_2_{n}_x86_64" for n in (39, 35, 34, 31, 28, 27, 26, 24, 17)),
    *("--platform=manylinux2014_x86_64", "--platform=manylinux1_x86_64", "--platform=linux_x86_64"),
)
_CARRIED = (
    *("evaluations/gpu_pack", "tests/gpu", "tests/shared"),
    "tests/collectors/loops/programs",
)
_PINNED = ("--constraint", ROOT / "constraints.txt")
_PYTEST = ("pytest", "pytest-xdist", "pytest-timeout", "pytest-reportlog")
# The extra `serve`.
_LOAD = ("httptools", "psutil")
# Libraries of bitsandbytes that the host can use.
_KEPT_LIBRARIES = ("cpu.so", "cuda130.so")
_LIGHTLLM = "https://github.com/ModelTC/LightLLM.git"
# Later than v1.1, which has no profiler interface; pins the host's version of torch.
_LIGHTLLM_COMMIT = "87881ae7c"
# Replaces librosa, which exceeds the size limit; audio is not served.
_LIBROSA_FILES = (
    "lightllm/server/multimodal_params.py",
    "lightllm/models/qwen3_omni_moe_thinker/model.py",
)
_OF_LIGHTLLM = (
    *("rpyc==6.0.1", "plumbum==1.10.0", "pyzmq==27.1.0", "atomics==1.0.3", "cffi==1.17.1"),
    *("pycparser==2.23", "easydict==1.13", "fastapi==0.115.6", "starlette==0.41.3"),
    *("pydantic==2.10.3", "pydantic_core==2.27.1", "annotated_types==0.8.0"),
    *("sniffio==1.3.1", "hypercorn==0.18.0", "h2==4.3.0", "hpack==4.1.0"),
    *("hyperframe==6.1.0", "priority==2.0.0", "wsproto==1.2.0", "websockets==15.0.1"),
    *("ujson==5.11.0", "orjson==3.11.2", "setproctitle==1.3.6", "frozendict==2.4.6"),
    *("partial_json_parser==0.2.1.1.post6", "redis==7.3.0", "typing_extensions==4.16.0"),
    # Without it, each request fails with status 400.
    "interegular==0.3.3",
)
# Variables that the tests must not inherit.
_OWN = ("PYTHON", "TRACEKIT_", "RANK", "WORLD_SIZE", "LOCAL_")


class CarryError(Exception):
    """A command failed; the message is the end of its output."""


def pack(folder: Path, parts: Sequence[str], lightllm: str) -> int:
    """Create the folder from parts in order of priority; return the exit code."""
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"error: {folder} is not empty")
    for name in _CARRIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    wheels, theirs = folder / "wheels", folder / "lightllm" / "wheels"
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        makers: dict[str, Callable[[], object]] = {
            "tracekit": lambda: build_tracekit(wheels, work),
            "needs": lambda: _fetch(wheels, *_PINNED, *wheels.glob("tracekit*"), *_PYTEST, *_LOAD),
            "nvtx": lambda: _fetch(wheels, *_PINNED, "nvtx"),
            "deepspeed": lambda: (
                _pip("wheel", "--no-deps", "-w", wheels, *_PINNED, "deepspeed", DS_BUILD_OPS="0"),
                _fetch(wheels, *_PINNED, "hjson", "pydantic", "py-cpuinfo"),
            ),
            "bitsandbytes": lambda: strip_bitsandbytes(wheels, work),
            "lightllm": lambda: (
                export_lightllm(lightllm, folder / "lightllm" / "source", work),
                _fetch(theirs, "--no-deps", *_OF_LIGHTLLM),
            ),
        }
        for name in parts or makers:
            before = set(folder.rglob("*"))
            note = ""
            try:
                makers[name]()
            except CarryError as error:
                note = f"  {error}"
            added = [path for path in folder.rglob("*") if path not in before and path.is_file()]
            if _size(folder.rglob("*")) > MAX_BYTES:
                note += "  left out: the folder would be too large"
                for path in added:
                    path.unlink()
            print(f"{name:14} {_size(added) / 1e6:6.2f} MB{note}", flush=True)
    print(f"{'all':14} {_size(folder.rglob('*')) / 1e6:6.2f} MB  in {folder}")
    return 0 if any(wheels.glob("tracekit*")) else 1


def build_tracekit(wheels: Path, work: Path) -> None:
    """Build the wheel from the files that git would commit."""
    listed = _run("git", "-C", ROOT, "ls-files", "-coz", "--exclude-standard").decode()
    for name in filter(None, listed.split("\0")):
        if os.path.lexists(ROOT / name):
            (work / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, work / "tree" / name, follow_symlinks=False)
    _pip("wheel", "--no-deps", "-w", wheels, work / "tree")


def strip_bitsandbytes(wheels: Path, work: Path) -> None:
    """Download bitsandbytes without libraries that the host cannot use: 4 MB instead of 43."""
    _fetch(work, *_PINNED, "--no-deps", "bitsandbytes")
    (whole,) = work.glob("bitsandbytes*.whl")
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(wheels / whole.name, "w") as stripped:
        for item in source.infolist():
            if not item.filename.endswith(".so") or item.filename.endswith(_KEPT_LIBRARIES):
                stripped.writestr(item, source.read(item), zipfile.ZIP_DEFLATED, 9)


def export_lightllm(clone: str, into: Path, work: Path) -> None:
    """Export LightLLM's package at its commit, from its URL or a clone."""
    repository = work / "lightllm.git"
    _run("git", "clone", "--quiet", "--bare", "--filter=blob:none", clone, repository)
    words = ("archive", "--format=tar", _LIGHTLLM_COMMIT, "lightllm", "LICENSE")
    with tarfile.open(fileobj=io.BytesIO(_run("git", "-C", repository, *words))) as archive:
        archive.extractall(into, filter="data")
    for name in _LIBROSA_FILES:
        text = (into / name).read_text("utf-8")
        text = re.sub("^import librosa$", "librosa = None", text, flags=re.MULTILINE)
        (into / name).write_text(text, "utf-8")


def run(out: Path, marks: str, minutes: float, jobs: int, words: Sequence[str]) -> int:
    """Run the tests, and write the results to a folder; return the exit code."""
    end = time.time() + 60 * minutes
    out.mkdir(parents=True, exist_ok=True)
    codes = []
    with tempfile.TemporaryDirectory(prefix="tracekit-gpu-") as temporary:
        work = Path(temporary)
        python = make_environment(work / "environment", ROOT / "wheels")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(_OWN)}
        environment = {
            **inherited,
            "PATH": f"{python.parent}{os.pathsep}{inherited.get('PATH', '/usr/bin:/bin')}",
            "TRACEKIT_GPU_TESTS_OUT": str(work / "kept"),
            "TRACEKIT_GPU_TESTS_UNTIL": str(end - 60),
            "HF_HUB_OFFLINE": "1",
            # DeepSpeed compiles its fused optimizer only for the host's GPU.
            "TORCH_CUDA_ARCH_LIST": inherited.get("TORCH_CUDA_ARCH_LIST", "9.0"),
        }
        for name in ("TMPDIR", "TRACEKIT_CACHE_DIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR"):
            environment[name] = str(work / name.lower())
            (work / name.lower()).mkdir()
        if (ROOT / "lightllm").is_dir():
            lightllm = make_environment(work / "lightllm", ROOT / "lightllm" / "wheels")
            environment["TRACEKIT_LIGHTLLM_PYTHON"] = str(lightllm)
            environment["TRACEKIT_LIGHTLLM_SOURCE"] = str(ROOT / "lightllm" / "source")
        for name, chosen, count in (
            ("side_by_side", f"({marks}) and not alone", jobs),
            ("alone", f"({marks}) and alone", 1),
        ):
            command = [
                *(python, "-m", "pytest", "-m", chosen, "-n", str(count), "-W", "default"),
                *("-p", "no:cacheprovider", "--rootdir", ROOT, "--timeout", "300"),
                *("--timeout-method", "thread", f"--report-log={out / name}.jsonl"),
                *("-v", "--tb", "short", *(words or ["tests/gpu"])),
            ]
            both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            timer = threading.Timer(max(0, end - time.time()), end_all, [work])
            timer.start()
            try:
                process = subprocess.Popen(command, cwd=ROOT, env=environment, **both)
                with (out / f"{name}.log").open("wb") as log:
                    for line in process.stdout:
                        log.write(line)
                        os.write(1, line)
                codes.append(process.wait())
            finally:
                timer.cancel()
                end_all(work)
        for text in bring_back(work / "kept", out):
            print(f"does not fit: {text}")
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.3f} MB  {path.name}")
    # Exit code 5: no tests were selected.
    return int(any(code not in (0, 5) for code in codes))


def make_environment(folder: Path, wheels: Path) -> Path:
    """Create an environment from wheels and this Python's packages; return its Python."""
    _run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    (purelib,) = folder.glob("lib/python*/site-packages")
    own = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (purelib / "of_the_host.pth").write_text("\n".join(own), "utf-8")
    install = ("--python", python, "install", "--no-index", "--no-deps", "--no-compile")
    there = sorted(wheels.glob("*.whl"))
    try:
        _pip(*install, "--ignore-installed", *there)
    except CarryError:  # an incompatible wheel must not prevent the others
        for wheel in there:
            try:
                _pip(*install, "--ignore-installed", wheel)
            except CarryError as error:
                print(f"not installed: {wheel.name}: {error}", flush=True)
    return python


def bring_back(results: Path, out: Path, most_bytes: int = 15_500_000) -> list[str]:
    """Pack test files into at most four archives; return the files that did not fit.

    Manifests, logs, and tables come first, then run folders in order of creation. Two result files
    and two logs of pytest are already in the folder.
    """
    omitted: list[str] = []
    manifests = sorted(results.rglob("run.json"), key=lambda path: path.stat().st_mtime_ns)
    small = [path for path in results.rglob("*") if path.suffix in (".json", ".md", ".txt", ".log")]
    bins: list[tuple[int, list[Path]]] = [(0, small)]
    for folder in (path.parent for path in manifests):
        # tar adds a header to each file.
        size = sum(path.stat().st_size + 1536 for path in folder.rglob("*"))
        for number, (used, paths) in enumerate(bins[1:], 1):
            if used + size <= most_bytes:
                bins[number] = (used + size, [*paths, folder])
                break
        else:
            if size <= most_bytes and len(bins) < 4:
                bins.append((size, [folder]))
            else:
                omitted.append(f"{folder.relative_to(results)}: {size / 1e6:.1f} MB")
    for number, (_, paths) in enumerate(bins):
        with tarfile.open(out / f"kept-{number}.tar.gz", "w:gz") as archive:
            for path in paths:
                archive.add(path, path.relative_to(results))
    return omitted


def end_all(work: Path) -> None:
    """End every process with the run's folder in its environment."""
    mark = f"TRACEKIT_GPU_TESTS_OUT={work / 'kept'}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)


def _fetch(into: Path, *what: object) -> None:
    _pip("download", *_FOR_HOST, "--dest", into, *what)


def _pip(*words: object, **variables: str) -> None:
    _run(sys.executable, "-m", "pip", "--disable-pip-version-check", *words, **variables)


def _run(*command: object, **variables: str) -> bytes:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, env={**os.environ, **variables}, check=False)
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise CarryError(lines[-1] if lines else f"exit code {done.returncode}")
    return done.stdout


def _size(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.is_file())


def main(arguments: Sequence[str]) -> int:
    """Run the command `pack` or `run`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packs = commands.add_parser("pack", help="create the folder")
    packs.add_argument("folder", type=Path)
    packs.add_argument("--lightllm", default=_LIGHTLLM, help="a clone or its URL")
    packs.add_argument(
        "--parts",
        type=lambda text: text.split(","),
        default=[],
        help="parts to include [default: all]",
    )
    runs = commands.add_parser("run", help="run the tests on the host")
    runs.add_argument("out", type=Path, help="folder for the results")
    runs.add_argument("--marks", default="gpu", help="marks of the tests to run [default: gpu]")
    runs.add_argument("--minutes", type=float, default=8.6, help="time limit [default: 8.6]")
    runs.add_argument("--jobs", type=int, default=4, help="concurrent tests without measurements")
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given = parser.parse_args(arguments[:end])
    if given.command == "pack":
        return pack(given.folder, given.parts, given.lightllm)
    return run(given.out.resolve(), given.marks, given.minutes, given.jobs, arguments[end + 1 :])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # also ends child processes
    sys.exit(main(sys.argv[1:]))
