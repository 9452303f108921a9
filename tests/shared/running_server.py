"""A server that tests need: started, waited for, and stopped at the end."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20
_LOOK_S = 0.1


@contextlib.contextmanager
def running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], is_up: Callable[[], bool]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server while the block lasts.

    Args:
        command: the program and its arguments.
        folder: where it runs; `output.txt` there takes what it says.
        environment: all variables that it has.
        is_up: whether it serves already; errors of the connection mean that it does not.

    Raises:
        RuntimeError: it did not come up.
    """
    output = folder / "output.txt"
    with output.open("wb") as said:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    try:
        _wait_until_up(process, output, is_up)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_up(
    process: subprocess.Popen[bytes], output: Path, is_up: Callable[[], bool]
) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if is_up():
                return
        time.sleep(_LOOK_S)
    raise RuntimeError(f"the server did not come up: {output.read_text('utf-8')[-2000:]}")
