"""A Python that has imported what is slow to import, and forks for each program that it is given.

    python warm_server.py SOCKET OWNER MODULE[:FUNCTION]…

A program that `warm_client.py` asks for finds what a Python of its own would have made for it:
arguments, environment, folder, open files, masks and dispositions of signals, `__main__`, a
`sitecustomize` on its PYTHONPATH. It ends as Python ends: uncaught errors, threads, `atexit`, what
`__main__` holds, exit codes; what was imported before the fork is left to the system, as to take
that down would copy it first. Its stdout, the log, takes a line of the CPU seconds that each used,
and of the file of tests that started it.

Where that `sitecustomize` is there to see torch being imported, torch is imported by the program as
if for the first time: it leaves `sys.modules`, and comes back whole by a finder behind all others'.

It listens at SOCKET before it imports, so that nobody has to wait for the file alone, and ends when
the process OWNER is gone.
"""

from __future__ import annotations

import array
import atexit
import builtins
import contextlib
import gc
import importlib
import importlib.machinery
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import threading
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADER = struct.Struct("<I")
STATUS = struct.Struct("<iI")
_FDS_AT_MOST = 250
_LOOK_S = 1.0


@dataclass
class Job:
    """What a client asks for; `files` are the descriptors here by their number there."""

    words: list[str]
    executable: str
    environment: dict[str, str]
    folder: str
    mask: list[int]
    ignored: list[int]
    umask: int
    parent: int
    files: dict[int, int]


class Warm:
    """What was imported here, by when: torch itself, and what only some programs import."""

    def __init__(self) -> None:
        self.groups: list[dict[str, types.ModuleType]] = []

    def load(self, names: list[str]) -> None:
        """Import modules, those of torch apart from what else they bring; call what they name."""
        for name, _, call in (name.partition(":") for name in names):
            before = set(sys.modules)
            # What an extra would bring is no use to programs that skip without it.
            with contextlib.suppress(ImportError):
                module = importlib.import_module(name)
                if call:
                    getattr(module, call)()
            if name.partition(".")[0] == "torch":
                new = {key: module for key, module in sys.modules.items() if key not in before}
                self.groups.append({k: m for k, m in new.items() if k.split(".")[0] == "torch"})
        # It has a plugin for pytest, which complains of asserts that it cannot rewrite any more.
        if "anyio" in sys.modules:
            sys.modules["anyio"].__doc__ = "PYTEST_DONT_REWRITE"

    def hide(self) -> None:
        """Let torch be imported anew by whoever asks for it, to see it happen."""
        for group in self.groups:
            for name in group:
                sys.modules.pop(name, None)
        sys.meta_path.insert(0, _Finder(self.groups))


class _Finder:
    """Gives a module that was imported before, with all that came with it."""

    def __init__(self, groups: list[dict[str, types.ModuleType]]) -> None:
        self._groups = groups

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        group = next((one for one in self._groups if name in one), None)
        if group is None:
            return None
        own = group[name].__spec__
        assert own is not None
        spec = importlib.machinery.ModuleSpec(
            name,
            _Loader(group, group[name]),
            origin=own.origin,
            is_package=own.submodule_search_locations is not None,
        )
        spec.submodule_search_locations = own.submodule_search_locations
        return spec


class _Loader:
    def __init__(self, group: dict[str, types.ModuleType], module: types.ModuleType) -> None:
        self._group = group
        self._module = module
        self._own = module.__spec__

    def __getattr__(self, name: str) -> Any:
        """Tell of its code what the loader tells that it was loaded by."""
        return getattr(self._own.loader, name)

    def create_module(self, _: object) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._own
        for name, one in self._group.items():
            sys.modules.setdefault(name, one)


def serve(path: str, owner: int, modules: list[str], warm: Warm) -> Job:
    """Serve until the owner is gone; in a process that was forked for a program, return that."""
    listener = socket.socket(socket.AF_UNIX)
    # Whoever finds the name can connect.
    listener.bind(f"{path}.new")
    listener.listen(64)
    Path(f"{path}.new").rename(path)
    warm.load(modules)
    own = sys.path.pop(0)
    for name, module in list(sys.modules.items()):
        if name != "__main__" and str(getattr(module, "__file__", "")).startswith(own):
            del sys.modules[name]
    if len(list(Path("/proc/self/task").iterdir())) != 1:
        sys.exit("what was imported has started threads, which no fork would have")
    gc.collect()
    gc.freeze()
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ, None)
    while True:
        for key, _ in selector.select(_LOOK_S):
            if key.data is None:
                client, _ = listener.accept()
                job = _receive(client)
                if job is None:
                    client.close()
                    continue
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    return job
                for number in job.files.values():
                    os.close(number)
                ended = os.pidfd_open(pid)
                # What a worker of the tests used is counted by itself.
                test = job.environment.get("PYTEST_CURRENT_TEST", "-").partition("::")[0]
                test = test if job.executable != sys.executable else ""
                for file in (ended, client):
                    selector.register(file, selectors.EVENT_READ, (pid, ended, client, test))
                client.sendall(HEADER.pack(pid))
            else:
                _attend(selector, key)
        if not _is_alive(owner):
            Path(path).unlink(missing_ok=True)
            Path(path).parent.rmdir()
            sys.exit()


def _attend(selector: selectors.DefaultSelector, key: selectors.SelectorKey) -> None:
    """Hand a signal on to a program, or its end to the one that asked for it."""
    pid, ended, client, test = key.data
    if key.fileobj is client:
        if client.fileno() < 0:
            # The end of its program was seen at the same time, and came first.
            return
        try:
            numbers = client.recv(16)
        except ConnectionError:
            numbers = b""
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if not numbers:
            # Nobody waits for it: a process that was killed runs no more.
            selector.unregister(client)
            client.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return
    _, status, used = os.wait4(pid, 0)
    if test:
        sys.stdout.write(f"{used.ru_utime + used.ru_stime:.2f} CPU seconds of {test}\n")
        sys.stdout.flush()
    selector.unregister(ended)
    os.close(ended)
    with contextlib.suppress(KeyError, ValueError, OSError):
        client.sendall(STATUS.pack(os.waitstatus_to_exitcode(status), pid))
        selector.unregister(client)
        client.close()


def _receive(client: socket.socket) -> Job | None:
    numbers = array.array("i")
    try:
        first, ancillary, _, _ = client.recvmsg(
            HEADER.size, socket.CMSG_LEN(_FDS_AT_MOST * numbers.itemsize)
        )
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
        (size,) = HEADER.unpack(first)
        content = b""
        while len(content) < size:
            content += (got := client.recv(size - len(content)))
            if not got:
                return None
    except (OSError, struct.error):
        return None
    asked = json.loads(content)
    there = asked.pop("files")
    return Job(**asked, files=dict(zip(there, numbers, strict=True)))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def become(job: Job, warm: Warm) -> int:
    """Run a program in this process, which was forked for it, and return its exit code."""
    os.setsid()
    _take_files(job.files)
    os.chdir(job.folder)
    os.umask(job.umask)
    os.environ.clear()
    os.environ.update(job.environment)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            if number in job.ignored:
                signal.signal(number, signal.SIG_IGN)
            elif number == signal.SIGINT:
                signal.signal(number, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, job.mask)
    os.getppid = lambda: job.parent  # whoever started it knows the client
    sys.executable = job.executable
    _open_streams()
    threads = int(job.environment.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
    if "torch" in sys.modules and threads != 1:  # read when the library was loaded
        sys.modules["torch"].set_num_threads(threads)
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    code = 0
    try:
        _run(list(job.words), main, warm)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
    except BaseException as error:  # noqa: BLE001 - as Python does at its end
        found = error.__traceback__
        while found is not None and found.tb_frame.f_code.co_filename in (
            __file__,
            "<frozen runpy>",
        ):
            found = found.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, found
        sys.last_exc = error
        sys.excepthook(type(error), error.with_traceback(found), found)
        if isinstance(error, KeyboardInterrupt):
            sys.stdout.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        code = 1
    return code


def end(code: int) -> None:
    """End this process as Python ends, but for the modules that were there before the fork."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        sys.__dict__.pop(name, None)
    sys.modules["__main__"].__dict__.clear()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            try:
                stream.flush()
            except OSError:
                code = 120  # as Python's, where what it had written cannot be
    os._exit(code)


def _take_files(files: dict[int, int]) -> None:
    """Give the open files the numbers that they have for the client; all others are closed."""
    high = max([*files, *files.values()]) + 1
    moved = {}
    for there, here in files.items():
        os.dup2(here, high, inheritable=False)
        moved[there] = high
        high += 1
    for path in list(Path("/proc/self/fd").iterdir()):
        if int(path.name) not in moved.values():
            with contextlib.suppress(OSError):
                os.close(int(path.name))
    for there, here in moved.items():
        os.dup2(here, there)
        os.close(here)


def _open_streams() -> None:
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        try:
            errors = "backslashreplace" if number == 2 else "strict"
            stream = open(number, mode, encoding="utf-8", closefd=False, errors=errors)  # noqa: SIM115
        except OSError:
            stream = None
        else:
            if number:
                stream.reconfigure(
                    line_buffering=number == 2 or stream.isatty(), write_through=is_unbuffered
                )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run(words: list[str], main: types.ModuleType, warm: Warm) -> None:
    is_safe = False
    while words[0] in ("-P", "-I", "-E", "-s", "-u", "-B"):
        is_safe |= words.pop(0) in ("-P", "-I")
    added = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path[:0] = added
    importlib.invalidate_caches()
    if any((Path(one) / "sitecustomize.py").is_file() for one in added):
        sys.modules.pop("sitecustomize", None)
        if "TRACEKIT_WRAP" in os.environ:
            warm.hide()
        importlib.import_module("sitecustomize")
    kind, sys.argv = words[0], words
    if kind == "-m":
        sys.argv = words[1:]
        if not is_safe:
            sys.path.insert(0, str(Path.cwd()))
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
    elif kind == "-c":
        sys.argv = ["-c", *words[2:]]
        if not is_safe:
            sys.path.insert(0, "")
        exec(compile(words[1], "<string>", "exec"), main.__dict__)  # noqa: S102
    else:
        if not is_safe:
            sys.path.insert(0, str(Path(kind).resolve().parent))
        main.__file__ = kind
        main.__dict__["__cached__"] = None
        exec(compile(Path(kind).read_bytes(), kind, "exec"), main.__dict__)  # noqa: S102


if __name__ == "__main__":
    _warm = Warm()
    _job = serve(sys.argv[1], int(sys.argv[2]), sys.argv[3:], _warm)
    end(become(_job, _warm))
