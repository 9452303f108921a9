"""Pythons that have imported what is slow to import: see `warm_server`.

    python warm_python.py LOG KIND OWNER SOCKET

starts the server of a kind, unless there is one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from alone import alone

_HERE = Path(__file__).parent
_START_S = 120.0

_TORCH = ("numpy", "sympy", "networkx", "torch", "torch.profiler", "torch.distributed.run")
# Dynamo keeps what torch's classes were when it was imported, so it comes after what changes them.
# Optimizers import it, too, which is a half of all that a small loop imports.
_EAGER = (*_TORCH, "torch._dynamo")
KINDS: Mapping[str, tuple[str, ...]] = {
    "tracekit": (
        *("duckdb", "msgspec", "click", "rich.console", "rich.table", "asyncio"),
        # What most commands need, down to the headers of all analyses.
        *("tracekit.cli._main", "tracekit.cli.breakdown", "tracekit.cli.query", "tracekit.trace"),
        *("tracekit.opening", "tracekit.ingest.reading", "tracekit.ingest.load"),
        *("tracekit.ingest.event_loader", "tracekit.ingest.threads", "tracekit.analysis.relations"),
        *(
            "tracekit.analysis.query_folders",
            "tracekit.analysis.scopes",
        ),
        *("tracekit.render.sections", "warm_commands:run_once"),
    ),
    "compiling": _TORCH,
    "eager": _EAGER,
    "libraries": (
        *(*_EAGER, "transformers.models.llama.modeling_llama", "transformers.trainer"),
        *("peft", "accelerate"),
    ),
}


# What a command of tracekit starts by itself are ranks.
_STARTS = {"tracekit": "libraries"}
# A Python for the workers of a session: most of what they import is there, and it tells of itself
# as of any other, so that what tests start with it is cold.
_WORKER = "worker"
_SERVED_BY = {_WORKER: "libraries"}


def warm_python(folder: Path, kind: str) -> Path:
    """Return a command that stands for `python` with some modules imported.

    Who runs it first starts its server, which serves all workers of a session and ends with it.
    Beside it is a `tracekit`, which a Python has beside it where tracekit is installed.

    Args:
        folder: one that all workers share.
        kind: one of `KINDS`, whose modules are imported, or `worker`; what is not installed is left
            out.
    """
    if not hasattr(os, "pidfd_open"):  # only Linux has it
        return Path(sys.executable)
    command = folder / "warm" / f"python-{kind}"
    with alone(folder / "warm.lock"):
        if not command.exists():
            command.parent.mkdir(exist_ok=True)
            owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
            # The name of a socket must be short.
            sockets = {one: Path(f"/tmp/warm-{uuid.uuid4().hex[:12]}/socket") for one in KINDS}
            for one in (*KINDS, *_SERVED_BY):
                server = _SERVED_BY.get(one, one)
                _write(command.with_name(f"python-{one}"), one, server, owner, sockets[server])
    return command


def _write(command: Path, kind: str, server: str, owner: int, socket: Path) -> None:
    log = command.with_name(f"python-{server}.log")
    start = [sys.executable, __file__, str(log), server, str(owner), str(socket)]
    executable = command.with_name(f"python-{_STARTS.get(kind, kind)}")
    if kind == _WORKER:
        executable = Path(sys.executable)
    _write_script(
        command,
        f"#!{sys.executable} -IS\n"
        f"import sys\nsys.path.insert(0, {str(_HERE)!r})\nimport warm_client\n"
        f"warm_client.main({str(socket)!r}, {start!r}, {str(executable)!r}, sys.argv[1:])\n",
    )
    if kind == "tracekit":
        installed = Path(sys.executable).with_name("tracekit")
        _write_script(
            command.with_name("tracekit"), f'#!/bin/sh\nexec {command} {installed} "$@"\n'
        )


def _write_script(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    path.chmod(0o755)


def _faster_malloc() -> dict[str, str]:
    """Return what gives a Python the malloc that Ray brings, if that is installed.

    To plan statements, which is most of what the tests do, takes an eighth less time with it. What
    is forked from such a Python keeps it, what is started by that has the system's.
    """
    ray = find_spec("ray")
    for folder in (ray and ray.submodule_search_locations) or ():
        library = Path(folder, "core", "libjemalloc.so")
        if library.is_file():
            return {"LD_PRELOAD": str(library)}
    return {}


def _start(log: Path, kind: str, owner: str, socket: Path) -> None:
    """Start a server, and wait until it listens."""
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # Two threads that wait for each other keep both processors from all others else.
        "OMP_WAIT_POLICY": "PASSIVE",
        # Of pyarrow's allocator: a thread that a fork would not have.
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
        "HF_HUB_OFFLINE": "1",
        "KINETO_LOG_LEVEL": "6",
        **_faster_malloc(),
    }
    words = [sys.executable, str(_HERE / "warm_server.py"), str(socket), owner]
    socket.parent.mkdir(mode=0o700, exist_ok=True)
    with log.open("wb") as output:
        subprocess.Popen(
            [*words, *KINDS[kind]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ()),  # noqa: PLW1509
        )
    deadline = time.monotonic() + _START_S
    while not socket.exists():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


if __name__ == "__main__":
    _log, _kind, _owner, _socket = sys.argv[1:]
    with alone(Path(f"{_log}.lock")):
        if not Path(_socket).exists():
            _start(Path(_log), _kind, _owner, Path(_socket))
