"""Power samples during a run: RAPL energy counters of processors, and nvidia-smi.

A separate process writes the samples. Its own session protects it from signals for the program, and
it ends with the process that started it. GPUs are numbered as in the program.
"""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .job import launched_place

_NAME = "power.csv"
"""File name that analyses expect in a run folder."""

_POWERCAP = Path("/sys/class/powercap")
_INTERVAL_S = 0.1
_END_S = 5

Keep = Callable[[Path | None], None]


@contextmanager
def sampling(is_asked: bool, echo: Callable[[str], None]) -> Iterator[Keep]:
    """Sample power while the block runs; yield a function that copies samples to a run folder."""
    place = launched_place(os.environ)
    # Under a launcher, only rank 0 samples, because all ranks write one run folder.
    if not is_asked or (place is not None and place.rank > 0):
        yield lambda _folder: None
        return
    if not packages(_POWERCAP) and shutil.which("nvidia-smi") is None:
        echo("Power is not recorded: no processor energy counter is readable (RAPL), and")
        echo("nvidia-smi is not installed.")
        yield lambda _folder: None
        return
    with tempfile.TemporaryDirectory(prefix="tracekit-power-") as name:
        samples = Path(name) / _NAME
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(samples)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

        def keep(folder: Path | None) -> None:
            _end(process)
            if folder is not None and folder.is_dir() and samples.is_file():
                # Copy under a temporary name and rename, so that the file is always complete.
                aside = folder / f".{_NAME}"
                shutil.copyfile(samples, aside)
                aside.rename(folder / _NAME)

        try:
            yield keep
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def packages(powercap: Path) -> list[Path]:
    results = []
    for folder in sorted(powercap.glob("*-rapl:*")):
        with suppress(OSError, ValueError):
            if (folder / "name").read_text().startswith("package") and _read(folder) >= 0:
                results.append(folder)
    return results


def _read(folder: Path, name: str = "energy_uj") -> int:
    return int((folder / name).read_text())


class _Energy:
    """Energy of all processors since the first sample, µJ, corrected for counter overflows."""

    def __init__(self, folders: list[Path]) -> None:
        self._ranges = {folder: _read(folder, "max_energy_range_uj") for folder in folders}
        self._last = {folder: _read(folder) for folder in folders}
        self._sum = 0

    def sample(self) -> int:
        for folder, before in self._last.items():
            now = self._last[folder] = _read(folder)
            self._sum += now - before + (self._ranges[folder] if now < before else 0)
        return self._sum


class _Smi:
    def __init__(self) -> None:
        command, visible = shutil.which("nvidia-smi"), os.environ.get("CUDA_VISIBLE_DEVICES")
        self._rest = b""
        self._numbers = {
            index.encode(): b"%d" % number
            for number, index in enumerate((visible or "").split(","))
            if index.isdecimal()
        }
        self.process = command and subprocess.Popen(
            [command, "--query-gpu=timestamp,index,power.draw", "--format=csv,noheader,nounits"]
            + ["-lms", str(int(_INTERVAL_S * 1000))]
            + ([] if visible is None else ["-i", visible]),
            # nvidia-smi prints local timestamps without a time zone.
            env={**os.environ, "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def samples(self, text: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + text).split(b"\n")
        for line in lines:
            at, *cells = line.strip().split(b", ")
            if len(cells) == 2:
                timestamp = at.replace(b"/", b"-").replace(b" ", b"T")
                yield b"%sZ,%s,%s,\n" % (timestamp, self._numbers.get(cells[0], cells[0]), cells[1])

    def end(self) -> Iterator[bytes]:
        if self.process:
            self.process.terminate()
            yield from self.samples(self.process.communicate()[0])


def write_samples(path: Path, powercap: Path = _POWERCAP) -> None:
    folders = packages(powercap)
    energy, smi = _Energy(folders), _Smi()
    with path.open("wb", buffering=0) as out, selectors.DefaultSelector() as ready:
        out.write(b"timestamp,device,power [W],energy [uJ]\n")
        ready.register(sys.stdin, selectors.EVENT_READ)
        if smi.process and smi.process.stdout:
            ready.register(smi.process.stdout, selectors.EVENT_READ)
        due, is_over = time.monotonic(), False
        while not is_over:
            for key, _ in ready.select(max(due - time.monotonic(), 0)):
                if key.fileobj is sys.stdin:
                    is_over = True
                elif text := os.read(key.fd, 1 << 16):
                    out.writelines(smi.samples(text))
                else:
                    ready.unregister(key.fileobj)
            if time.monotonic() >= due:
                due = time.monotonic() + _INTERVAL_S
                if folders:
                    at_ns = time.time_ns()
                    out.write(b"%d.%09d,cpu,,%d\n" % (*divmod(at_ns, 10**9), energy.sample()))
        out.writelines(smi.end())


if __name__ == "__main__":
    write_samples(Path(sys.argv[1]))
