# ruff: noqa: PTH109, PTH123, PTH208 - pathlib takes longer to import than all of this
"""Stands for a Python: has its program run by a process that `warm_server.py` forks.

It is the process that others see, signal and wait for: signals go on to the program, and it ends as
the program ends. What the program leaves running in its session is an error here, as nobody could
find it: its environment is the server's.
"""

import array
import contextlib
import json
import os
import signal
import socket
import struct
import sys
import time

HEADER = struct.Struct("<I")
STATUS = struct.Struct("<iI")
LEFT = 119
_FORWARDED = {
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGCONT),
}
_LEAVING_S = 10.0


def main(path: str, start: list[str], executable: str, words: list[str]) -> None:
    """Have a program run, and end as it ends.

    Args:
        path: the socket of the server.
        start: the command that starts the server, should there be none.
        executable: the program's `sys.executable`.
        words: what follows `python` on a command line.
    """
    files = [int(name) for name in os.listdir("/proc/self/fd")]
    files = [number for number in files if _is_open(number)]
    server = _connected(path, start)
    handled = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
    ignored = [int(n) for n in handled if signal.getsignal(n) == signal.SIG_IGN]
    # Python itself ignores these two from its start.
    ignored = [n for n in ignored if n not in (signal.SIGPIPE, signal.SIGXFSZ)]
    umask = os.umask(0)
    os.umask(umask)
    asked = {
        "words": words,
        "executable": executable,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "mask": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "ignored": ignored,
        "umask": umask,
        "parent": os.getppid(),
        "files": files,
    }
    content = json.dumps(asked).encode()
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))
    # No signal may come between the parts of what is asked for.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    for number in _FORWARDED - {*ignored}:
        signal.signal(number, lambda number, _: server.send(bytes([number])))
    server.sendmsg([HEADER.pack(len(content))], [rights])
    server.sendall(content)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    # A pipe that stays open here never ends for its reader.
    for number in files:
        with contextlib.suppress(OSError):
            if number != 2:
                os.close(number)
    (pid,) = HEADER.unpack(_read(server, HEADER.size))
    code, _ = STATUS.unpack(_read(server, STATUS.size))
    deadline = time.monotonic() + _LEAVING_S
    while left := _session(pid):
        if time.monotonic() > deadline:
            os.write(2, f"left running: {left}\n".encode())
            for one in left:
                os.kill(one, signal.SIGKILL)
            os._exit(LEFT)
        time.sleep(0.1)
    if code < 0:
        if -code != signal.SIGKILL:
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(-code, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
        os.kill(os.getpid(), -code)
        time.sleep(10)
    os._exit(code)


def _connected(path: str, start: list[str]) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(path)
    except FileNotFoundError:
        import subprocess

        subprocess.run(start, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        server.connect(path)
    return server


def _read(server: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        got = server.recv(size - len(content))
        if not got:
            sys.exit("the server of warm processes is gone")
        content += got
    return content


def _session(leader: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
                if words[0] != b"Z" and int(words[3]) == leader:
                    found.append(int(name))
    return found


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
