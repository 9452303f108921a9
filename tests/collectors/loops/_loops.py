"""Runs loop programs, bare or under `tracekit collect`, and reports their results."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from processes import free_port
from trace_files import read_trace

PROGRAMS = Path(__file__).with_name("programs")
TRACEKIT = Path(sys.executable).with_name("tracekit")
OPTIONS = ("--warmup", "1", "--steps", "2", "--profile-steps", "2")
TOKENS = 2 * 16  # in one batch of `programs/tiny.py`
TIMEOUT_S = 600
_TOKEN = "LOOP_TOKEN"
_LEAVING_S = 30.0
# The varying parts of file names: the end of a temporary name, a UUID, a timestamp.
_DRAWN = re.compile(r"(?<=_)[a-z0-9_]{8}(?=/|$)|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{6,}")


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path

    @property
    def manifest(self):
        return json.loads((self.path / "run.json").read_text("utf-8"))

    @property
    def traces(self):
        return sorted(path.name for path in self.path.glob("rank*.json.gz"))

    def events(self, rank=0):
        events = read_trace(self.path / f"rank{rank}.json.gz")["traceEvents"]
        return [event for event in events if event.get("ph") == "X"]

    def names(self, rank=0):
        return Counter(event["name"] for event in self.events(rank))

    def spans(self, prefix, rank=0):
        events = self.events(rank)
        return [(e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith(prefix)]

    def phases(self, rank=0):
        prefix = "tk/phase/"
        names = self.names(rank).items()
        return {name.removeprefix(prefix): n for name, n in names if name.startswith(prefix)}

    def inside(self, outer, inner):
        events = self.events()
        spans = [(e["ts"], e["ts"] + e["dur"], e["tid"]) for e in events if e["name"] == outer]
        return sum(
            any(start <= e["ts"] < end and tid == e["tid"] for start, end, tid in spans)
            for e in events
            if e["name"] == inner
        )

    def steps(self, rank=0):
        """Return the loop's own steps whose mark ends inside each recorded step."""
        events = self.events(rank)
        # A restarted step follows the range that it replaces.
        marks = sorted((e["name"], e["ts"], e["ts"] + e["dur"]) for e in events)
        steps = {
            int(name.removeprefix("tk/step/").removesuffix(" anew")): (start, end)
            for name, start, end in marks
            if name.startswith("tk/step/") and " ended " not in name
        }
        own = {number: set() for number in steps}
        for event in events:
            if event["name"].startswith("own/"):
                close = event["ts"] + event["dur"]
                for number, (start, end) in steps.items():
                    if start <= close < end:
                        own[number].add(int(event["name"].removeprefix("own/")))
        return own

    def tokens_per_step(self):
        made = self.manifest
        if not made["repeats"] or made["repeats"][0]["tokens_per_s"] is None:
            return None
        (repeat,) = made["repeats"]
        tokens = repeat["tokens_per_s"] * repeat["wall_ns"] / 1e9
        return tokens / made["steps"]["measured_count"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a command: `exit_code` as in a shell, and `left`, the processes after it."""

    exit_code: int
    stdout: str
    stderr: str
    files: list[str]
    left: list[str]
    folder: Path

    @property
    def run(self):
        return RunFolder(self.folder / "run")


@dataclass(slots=True)
class Process:
    command: list[str]
    folder: Path
    token: str
    popen: subprocess.Popen[str]
    seen: list[str] = field(default_factory=list)

    def wait_for(self, line):
        for text in self.popen.stdout:
            self.seen.append(text)
            if text.startswith(line):
                return
        pytest.fail(f"ended without {line!r}: {self.seen}\n{self.end().stderr}")

    def end(self, stdin=None, *, wait_s=_LEAVING_S):
        """Wait for the end, and return the outcome; its children have `wait_s` to follow it."""
        try:
            stdout, stderr = self.popen.communicate(stdin, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            end_all(self.token)
            stdout, stderr = self.popen.communicate()
            pytest.fail(f"{self.command} has not ended\n{stdout}\n{stderr}")
        code = self.popen.returncode
        left = left_of(self.token, wait_s)
        end_all(self.token)
        return Outcome(
            exit_code=code if code >= 0 else 128 - code,
            stdout="".join(self.seen) + (stdout or ""),
            stderr=stderr or "",
            files=files_of(self.folder),
            left=left,
            folder=self.folder,
        )


class Loops:
    """Runs programs; the same run is made once per session."""

    def __init__(self, folder):
        self._folder = folder
        self._done = {}
        self._tokens = []

    def start(self, command, *, env=None, name="", **options):
        """Start a command; commands of one `name` share their folder."""
        folder = self._folder / (name or uuid.uuid4().hex[:8])
        for part in ("work", "home", "tmp"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        token = uuid.uuid4().hex
        self._tokens.append(token)
        dropped = ("TRACEKIT_", "PYTEST", "COV_", "KINETO")
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(dropped)},
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            # Inductor's C++ is compiled once; Dynamo compiles again for each program.
            "TORCHINDUCTOR_CACHE_DIR": str(self._folder / "inductor"),
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
            "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "DS_ACCELERATOR": "cpu",  # otherwise DeepSpeed prints a timestamp
            _TOKEN: token,
            **(env or {}),
        }
        given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        popen = subprocess.Popen(
            list(command),
            cwd=folder / "work",
            env=environment,
            text=True,
            start_new_session=True,
            **{**given, **options},
        )
        return Process(list(command), folder / "work", token, popen)

    def run(self, script, *words, ranks=1, **how):
        """Run a file of `programs` under `tracekit collect`, once per session.

        If `is_torchrun`, torchrun starts the `ranks`, else `ranks.sh`; if `is_bare`, without
        tracekit.
        """
        key = (script, words, ranks, *sorted(how.items()))
        if key not in self._done:
            stdin, options = how.pop("stdin", None), how.pop("options", OPTIONS)
            before = [] if how.pop("is_bare", False) else self.collect(*options)
            command = [*before, *self.program(script, *words, ranks=ranks, **how)]
            self._done[key] = self.start(command).end(stdin)
        return self._done[key]

    @staticmethod
    def program(script, *words, ranks=1, is_torchrun=False):
        command = [sys.executable, str(PROGRAMS / f"{script}.py"), *words]
        if ranks == 1:
            return command
        if not is_torchrun:
            return ["/bin/sh", str(PROGRAMS / "ranks.sh"), str(free_port()), *command]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        return [*torchrun, "--nproc-per-node", str(ranks), *command[1:]]

    @staticmethod
    def collect(*options, out="run"):
        return [str(TRACEKIT), "collect", "--out", out, *(options or OPTIONS), "--"]

    def close(self):
        for token in self._tokens:
            end_all(token)
        shutil.rmtree(self._folder, ignore_errors=True)


def needs(*packages):
    for name in packages:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install -e '.[loops]'")


def files_of(work):
    while True:
        # Another program of the folder may be removing a file.
        with contextlib.suppress(FileNotFoundError):
            top = work.parent
            paths = [path for part in ("work", "home", "tmp") for path in (top / part).rglob("*")]
            names = sorted(path.relative_to(top).as_posix() for path in paths)
            kept = [name for name in names if not f"{name}/".startswith("work/run/")]
            return [_DRAWN.sub("N", name) for name in kept]


def left_of(token, wait_s):
    deadline = time.monotonic() + wait_s
    while True:
        found = [" ".join(one.info["cmdline"] or ()) for one in _processes(token)]
        if not found or time.monotonic() > deadline:
            return sorted(found)
        time.sleep(0.1)


def end_all(token):
    for one in _processes(token):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def _processes(token):
    return [
        one
        for one in psutil.process_iter(["environ", "status", "cmdline"])
        if (one.info["environ"] or {}).get(_TOKEN) == token and one.info["status"] != "zombie"
    ]
