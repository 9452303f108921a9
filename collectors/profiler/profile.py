"""Runs `torch.profiler` and writes one trace per rank atomically."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import profiler
from torch.torch_version import TorchVersion

from tracekit import __version__
from tracekit.errors import WorkloadError

from ..machine.accelerator import profiler_activities
from ..process.distributed import wait_for_gloo_threads
from ..run.folder import complete_file, pack

_STDERR = 2
_SILENT_SINCE = TorchVersion("2.13")
_TRACE_NAME = re.compile(rb'("traceName":\s*)"(?:[^"\\]|\\.)*"')
# Kineto writes these members last; a file without either of them is truncated.
_LAST_MEMBERS = (b'"baseTimeNanoseconds"', b'"traceName"')

# Messages that Kineto prints only because tracekit profiles.
_LINES = re.compile(
    rb"^(?:USDT|STAGE):.*\n|^ERROR: External init callback.*\n|^\[W[^\n]*\bcollection\.cpp.*\n",
    re.M,
)

_is_own_call = False


@contextlib.contextmanager
def own_profiler_call() -> Iterator[None]:
    """Mark profiler calls in this block as tracekit's, so that listeners ignore them."""
    global _is_own_call
    before, _is_own_call = _is_own_call, True
    try:
        yield
    finally:
        _is_own_call = before


def is_own_profiler_call() -> bool:
    return _is_own_call


@contextlib.contextmanager
def _without_lines() -> Iterator[None]:
    """Remove Kineto's messages about tracekit's profile, but no other output, from stderr."""
    with contextlib.ExitStack() as files:
        try:
            aside = files.enter_context(tempfile.TemporaryFile(buffering=0))
            saved = os.dup(_STDERR)
        except OSError:  # no stderr, or no space
            yield
            return
        files.callback(os.close, saved)
        os.dup2(aside.fileno(), _STDERR)
        try:
            yield
        finally:
            os.dup2(saved, _STDERR)
            aside.seek(0)
            rest = _LINES.sub(b"", aside.read())
            with contextlib.suppress(OSError):
                while rest:
                    rest = rest[os.write(saved, rest) :]


class Profile:
    """A profiled window of steps and its trace file, which appears only when it is complete.

    As a context manager, it profiles `active` steps after `warmup` steps; `step()` ends each step,
    and the trace is written at the end of the block. Without a block, the caller uses `start()`,
    `stop()`, and `export()`, the last on any thread. `save()` only writes uncompressed JSON, during
    which torch holds the GIL; `run.folder.compress` can then run in the background.

    Values of `metadata` other than None become members `tracekit_<name>` next to `traceEvents`.
    With `all_threads`, all threads are recorded, not only the starting thread and autograd's
    threads. Without CPU among the `activities`, a trace has no ranges. So if `activities` is given,
    `tracekit_step_bounds_unix_ns` has the step boundaries on the host's clock.
    """

    def __init__(
        self,
        path: Path,
        metadata: Mapping[str, object],
        *,
        warmup: int = 1,
        active: int = 2,
        record_shapes: bool = True,
        with_stack: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        all_threads: bool = False,
        activities: Sequence[Any] | None = None,
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.step_count = warmup + active
        self._warmup, self._active = warmup, active
        self._options: dict[str, Any] = {
            "record_shapes": record_shapes,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "profile_memory": profile_memory,
        }
        self._activities = activities
        self._bounds_unix_ns: list[int] = []
        # Whether the window is over and can be exported.
        self.is_recorded = False
        if all_threads:
            self._options["experimental_config"] = _all_threads()
        self._profiler: Any = None
        self._ended_count = 0

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.end()
            self.export()
        else:
            self.abandon()

    def begin(self) -> None:
        # Suppress torch's warning, because a schedule without warm-up is intended.
        with _unwarned("Profiler won't be using warmup", is_expected=not self._warmup):
            schedule = profiler.schedule(wait=0, warmup=self._warmup, active=self._active, repeat=1)
        self._ended_count = 0
        self._bounds_unix_ns.clear()
        self._make(schedule=schedule, on_trace_ready=self._note_recorded)
        self._start()

    def end(self) -> None:
        try:
            wait_for_gloo_threads()
        finally:
            # A profiler that is destroyed while it is running crashes the process.
            with own_profiler_call(), _without_lines():
                self._profiler.stop()

    def abandon(self) -> None:
        if self._profiler is not None:
            self.end()
            self._profiler = None
        self.is_recorded = False

    def start(self) -> None:
        self._make()
        self._start()

    def stop(self) -> None:
        self.end()
        self.is_recorded = True

    def step(self) -> None:
        self._ended_count += 1
        if self._ended_count == self.step_count:
            wait_for_gloo_threads()
        changes = self._ended_count in (self._warmup, self.step_count)
        with own_profiler_call(), _without_lines() if changes else contextlib.nullcontext():
            if self._activities is not None and self._ended_count >= self._warmup:
                self._bounds_unix_ns.append(time.time_ns())
            if len(self._bounds_unix_ns) > 1:
                text = json.dumps(self._bounds_unix_ns)
                self._profiler.add_metadata_json("tracekit_step_bounds_unix_ns", text)
            self._profiler.step()

    def export(self) -> Path:
        self._check_recorded()
        with complete_file(self.path) as aside:
            if self.path.suffix == ".gz":
                plain = aside.with_suffix("")
                self._export_json(plain)
                pack(plain, aside)
            else:
                self._export_json(aside)
        return self.path

    def save(self) -> Path:
        self._check_recorded()
        plain = self.path.with_suffix("") if self.path.suffix == ".gz" else self.path
        with complete_file(plain) as aside:
            self._export_json(aside)
        return plain

    def _check_recorded(self) -> None:
        if not self.is_recorded:
            raise WorkloadError(
                f"{self.path}: no trace was recorded: the workload ended before the first "
                f"profiled step was complete; warm-up steps before it: {self._warmup}",
                hint="run more steps, or profile fewer",
            )

    def _start(self) -> None:
        with own_profiler_call(), starting(), _without_lines():
            self._profiler.start()

    def _make(self, **schedule: Any) -> None:
        self.is_recorded = False
        self._profiler = profiler.profile(
            activities=self._activities or profiler_activities(), **self._options, **schedule
        )
        for name, value in {"version": __version__, **self.metadata}.items():
            if value is not None:
                self._profiler.preset_metadata_json(f"tracekit_{name}", json.dumps(value))

    def _note_recorded(self, _: Any) -> None:
        # A window needs at least one complete step.
        self.is_recorded = self._ended_count > self._warmup

    def _export_json(self, path: Path) -> None:
        try:
            with own_profiler_call():
                self._profiler.export_chrome_trace(str(path))
        except RuntimeError as error:
            raise WorkloadError(f"{self.path}: the trace cannot be written: {error}") from error
        # Kineto does not report a full disk, but leaves a truncated file or none.
        if not path.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            tail_at = file.seek(max(0, size - 4096))
            tail = file.read().rstrip()
            if not tail.endswith(b"}") or not any(member in tail for member in _LAST_MEMBERS):
                raise OSError(
                    errno.ENOSPC, "the profiler wrote only part of the trace; is the disk full?"
                )
            # Kineto stores the path of the file, which is in a temporary folder.
            name = json.dumps(self.path.name).encode()
            tail = _TRACE_NAME.sub(lambda result: result[1] + name, tail)
            file.seek(tail_at)
            file.write(tail)
            file.truncate()


def end_without_destructors() -> None:
    """End a forked child without Kineto's destructor, which waits for a parent's thread."""
    with contextlib.suppress(Exception):  # other C libraries lack these functions
        libc = ctypes.CDLL(None)
        # Exit handlers run in reverse order: first `fcloseall`, then `_exit` with the exit code.
        libc.on_exit(libc._exit, None)
        libc.__cxa_atexit(libc.fcloseall, None, None)


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Suppress torch's warning about cleared events while a profiler starts (before torch 2.13)."""
    with _unwarned(
        "Warning: Profiler clears events", is_expected=torch.__version__ < _SILENT_SINCE
    ):
        yield


@contextlib.contextmanager
def _unwarned(message: str, *, is_expected: bool) -> Iterator[None]:
    """Ignore an expected warning of torch.

    Set a filter only if necessary, because a filter makes Python show the program's earlier
    warnings again.
    """
    if not is_expected:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message, UserWarning)
        yield


def _all_threads() -> Any:
    try:
        from torch._C._profiler import _ExperimentalConfig

        return _ExperimentalConfig(profile_all_threads=True)
    except (ImportError, TypeError) as error:
        raise WorkloadError(
            f"torch {torch.__version__} cannot profile threads that a workload starts",
            hint="upgrade torch",
        ) from error
