"""Starts a server for tests, waits until it is up, and stops it at the end."""

import contextlib
import subprocess
import time

START_TIMEOUT_S = 600
STOP_TIMEOUT_S = 20
_LOOK_S = 0.1


@contextlib.contextmanager
def running(command, folder, environment, is_up):
    """Run a server while the block lasts.

    Args:
        command: the program and its arguments.
        folder: its working folder; `output.txt` there receives its output.
        environment: its complete environment.
        is_up: returns whether the server is ready; connection errors mean that it is not.

    Raises:
        RuntimeError: the server did not start.
    """
    output = folder / "output.txt"
    with output.open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
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


def _wait_until_up(process, output, is_up):
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if is_up():
                return
        time.sleep(_LOOK_S)
    raise RuntimeError(f"the server did not start: {output.read_text('utf-8')[-2000:]}")
