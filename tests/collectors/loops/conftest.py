"""Runs training loops bare and under `tracekit collect`, and says what each run left behind."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _left_behind import end_all, files_of, left_of
from warm_python import warm_python

PROGRAMS = Path(__file__).with_name("programs")
TRACEKIT = Path(sys.executable).with_name("tracekit")
OPTIONS = ("--warmup", "1", "--steps", "2", "--profile-steps", "2")
TIMEOUT_S = 180
_TOKEN = "LOOP_TOKEN"
_LEAVING_S = 10.0
# Programs that import more than torch; recorded they do so after us, as in a Python of their own.
_OF_LIBRARIES = {"transformers_trainer", "trl_sft", "accelerate_loop"}
# What a recorded program that runs cold is held against, by its script.
_BARE_KINDS = {"plain": "eager", "compiled": "compiling"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command left behind. An exit code is that which a shell shows: 128 + n for signals.

    `files` are those in its folder, home and temporary folder without the run folder; `left` are
    the command lines of the processes that it started and that did not end with it.
    """

    exit_code: int
    stdout: str
    stderr: str
    files: list[str]
    left: list[str]
    folder: Path

    @property
    def lines(self) -> list[str]:
        """Return the lines of stdout, in an order of their own: ranks print side by side."""
        return sorted(self.stdout.splitlines())

    @property
    def run(self) -> RunFolder:
        return RunFolder(self.folder / "run")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run folder, read with nothing of tracekit, and so whatever its version."""

    path: Path

    @property
    def manifest(self) -> dict[str, Any]:
        members: dict[str, Any] = json.loads((self.path / "run.json").read_text("utf-8"))
        return members

    @property
    def traces(self) -> list[str]:
        return sorted(path.name for path in self.path.glob("rank*.json.gz"))

    def events(self, rank: int = 0) -> list[dict[str, Any]]:
        content = json.loads(gzip.decompress((self.path / f"rank{rank}.json.gz").read_bytes()))
        return [event for event in content["traceEvents"] if event.get("ph") == "X"]

    def names(self, rank: int = 0) -> Counter[str]:
        return Counter(event["name"] for event in self.events(rank))

    def steps(self, rank: int = 0) -> dict[int, set[int]]:
        """Return for each recorded step the numbers that the loop itself gave to what ran in it.

        The end of the loop's own mark decides: it may begin before what we see of a step does, by
        however long it takes us to begin that.
        """
        events = self.events(rank)
        # A step that begins anew comes after what was taken for it.
        marks = sorted((e["name"], e["ts"], e["ts"] + e["dur"]) for e in events)
        steps = {
            int(name.removeprefix("tk/step/").removesuffix(" anew")): (start, end)
            for name, start, end in marks
            if name.startswith("tk/step/") and " ended " not in name
        }
        found: dict[int, set[int]] = {number: set() for number in steps}
        for event in events:
            if event["name"].startswith("own/"):
                close = event["ts"] + event["dur"]
                for number, (start, end) in steps.items():
                    if start <= close < end:
                        found[number].add(int(event["name"].removeprefix("own/")))
        return found

    def tokens_per_step(self) -> float | None:
        """Return how many tokens the ranks were given per timed step, all together."""
        manifest = self.manifest
        if not manifest["repeats"]:
            return None
        (repeat,) = manifest["repeats"]
        if repeat["tokens_per_s"] is None:
            return None
        return (
            repeat["tokens_per_s"] * repeat["wall_ns"] / 1e9 / manifest["steps"]["measured_count"]
        )


@dataclass(frozen=True, slots=True)
class Both:
    """One program, run bare and under `tracekit collect`."""

    bare: Outcome
    wrapped: Outcome


@dataclass(slots=True)
class Process:
    command: list[str]
    folder: Path
    token: str
    popen: subprocess.Popen[str]
    seen: list[str] = field(default_factory=list)

    def wait_for(self, line: str) -> None:
        """Wait until it prints a line that begins so."""
        assert self.popen.stdout is not None
        for text in self.popen.stdout:
            self.seen.append(text)
            if text.startswith(line):
                return
        pytest.fail(f"ended without {line!r}: {self.seen}\n{self.end().stderr}")

    def end(self, stdin: str | None = None, *, wait_s: float = _LEAVING_S) -> Outcome:
        """Wait for its end and look at what it left, which is then ended.

        Args:
            stdin: what it is given to read.
            wait_s: how long processes may take to end after the one that started them.
        """
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
    """Runs programs, two at a time, and the same one only once in a session."""

    def __init__(self, folder: Path, shared_folder: Path) -> None:
        self._folder = folder
        self._shared_folder = shared_folder
        self._pool = ThreadPoolExecutor(2)
        self._jobs: dict[Any, Future[Outcome]] = {}
        self._tokens: list[str] = []

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        name: str = "",
        **options: Any,
    ) -> Process:
        """Start a command in a new folder, or one that other commands were started in.

        Args:
            command: what to run.
            env: added to the environment.
            name: of the folder; one of its own if empty.
            options: those of `subprocess.Popen`.
        """
        folder = self._folder / (name or uuid.uuid4().hex[:8])
        for part in ("work", "home", "tmp"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        token = uuid.uuid4().hex
        self._tokens.append(token)
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("TRACEKIT_", "PYTEST", "COV_", "KINETO"))
        }
        environment = {
            **inherited,
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            # What a program compiles to is found out by every one anew, and its C++ compiled once.
            "TORCHINDUCTOR_CACHE_DIR": str(self._folder / "inductor"),
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
            "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "DS_ACCELERATOR": "cpu",  # else DeepSpeed prints the time at which it found none
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

    def job(self, key: Any, work: Callable[[], Outcome]) -> Future[Outcome]:
        """Return what becomes of a piece of work, which is done once for all that ask for it."""
        if key not in self._jobs:
            self._jobs[key] = self._pool.submit(work)
        return self._jobs[key]

    def begin(
        self, script: str, *words: str, ranks: int = 1, is_wrapped: bool = False, **how: Any
    ) -> Future[Outcome]:
        """Begin to run a program bare or wrapped.

        Args:
            script: a file of `programs`, without its suffix.
            words: its arguments.
            ranks: how many there are; torchrun starts them.
            is_wrapped: whether under `tracekit collect`.
            how: `options` of `tracekit collect`; `stdin`, which the program is given to read;
                `is_in_shell`, if a shell script is to start two ranks, which takes less time;
                `python`, a kind of it (see `python`).
        """
        python = how.get("python", "eager")
        if not is_wrapped and python == "cold":
            python = _BARE_KINDS.get(script, python)
        elif not is_wrapped and script in _OF_LIBRARIES:
            python = "libraries"
        options = how.get("options", OPTIONS) if is_wrapped else ()
        stdin = how.get("stdin")
        place = {
            "ranks": ranks,
            "is_in_shell": how.get("is_in_shell", False),
            "python": self.python(python),
        }

        def work() -> Outcome:
            before = self.collect(*options) if is_wrapped else []
            return self.start([*before, *self.program(script, *words, **place)]).end(stdin)

        return self.job((script, words, ranks, is_wrapped, options, stdin, python), work)

    def begin_both(self, script: str, *words: str, **how: Any) -> None:
        """Begin to run a program bare and wrapped; see `begin`."""
        for is_wrapped in (True, False):
            self.begin(script, *words, is_wrapped=is_wrapped, **how)

    def both(self, script: str, *words: str, **how: Any) -> Both:
        """Run a program bare and wrapped; see `begin`."""
        self.begin_both(script, *words, **how)
        bare, wrapped = (
            self.begin(script, *words, is_wrapped=is_wrapped, **how) for is_wrapped in (False, True)
        )
        return Both(bare.result(), wrapped.result())

    def python(self, kind: str) -> str:
        """Return a command that stands for `python`: `cold` is a process that imports all it needs.

        The others are of `warm_python`, where torch has been imported: most of the time that small
        programs take. Each kind of program and launcher is run cold by some test as well.
        """
        return sys.executable if kind == "cold" else str(warm_python(self._shared_folder, kind))

    @staticmethod
    def program(
        script: str,
        *words: str,
        ranks: int = 1,
        is_in_shell: bool = False,
        python: str = sys.executable,
    ) -> list[str]:
        """Return the command that runs a file of `programs`; see `begin`."""
        command = [python, str(PROGRAMS / f"{script}.py"), *words]
        if ranks == 1:
            return command
        if is_in_shell:
            return ["/bin/sh", str(PROGRAMS / "ranks.sh"), str(Loops.free_port()), *command]
        words = ("--standalone", "--nproc-per-node", str(ranks))
        return [*Loops.torchrun(*words, python=python), *command[1:]]

    @staticmethod
    def torchrun(*words: str, python: str = sys.executable) -> list[str]:
        return [python, "-m", "torch.distributed.run", *words]

    @staticmethod
    def collect(*options: str, out: str = "run") -> list[str]:
        """Return `tracekit collect` up to the program, with the usual options or others."""
        return [str(TRACEKIT), "collect", "--out", out, *(options or OPTIONS), "--"]

    @staticmethod
    def free_port() -> int:
        """Return a port that nobody uses, outside of those that the system gives away."""
        while True:
            with socket.socket() as server, contextlib.suppress(OSError):
                server.bind(("127.0.0.1", random.randint(20_000, 30_000)))
                return int(server.getsockname()[1])

    def close(self) -> None:
        """End whatever still runs, and remove what was written."""
        self._pool.shutdown(cancel_futures=True)
        for token in self._tokens:
            end_all(token)
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture(scope="session")
def loops(tmp_path_factory: pytest.TempPathFactory, shared_folder: Path) -> Iterator[Loops]:
    pytest.importorskip("torch")
    if not Path("/proc").is_dir():
        pytest.skip("which processes a program leaves behind is seen in /proc")
    made = Loops(tmp_path_factory.mktemp("loops"), shared_folder)
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def begun_ahead(request: pytest.FixtureRequest, loops: Loops) -> None:
    """Begin to run the programs of a file's cases, so that both cores are busy while tests wait.

    A case is what a test is given as `case`; its `begin` begins to run what the test looks at.
    """
    for item in request.session.items:
        if item.path == request.path and isinstance(item, pytest.Function):
            case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
            if case is not None:
                case.begin(loops)


@pytest.fixture
def needs() -> Callable[..., None]:
    """Return a function that skips a test without some packages of the `loops` extra."""

    def check(*packages: str) -> None:
        for name in packages:
            if not has(name):
                pytest.skip(f"{name} is not installed: pip install -e '.[loops]'")

    return check


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
