"""Detects the loop's own profilers, because two profilers at once crash torch.

All Python profilers use `torch.autograd.profiler.profile`, whose methods are wrapped while
`LoopProfilers` is attached.
"""

from __future__ import annotations

import functools
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import profiler

from ..run.folder import complete_file
from .profile import is_own_profiler_call

_MARKERS = ("emit_nvtx", "emit_itt")


class ProfilerListener:
    def on_user_profiler_start(self) -> None:
        """Notification that a profiler of the loop is about to start."""

    def on_user_profiler_stop(self) -> None:
        """Notification that a profiler of the loop has stopped."""

    def on_user_trace(self, path: Path) -> None:
        """Notification that a profiler of the loop has written a trace."""

    def failed(self, error: Exception) -> None:
        """Notification that a listener method raised."""


def is_any_enabled() -> bool:
    on_thread = getattr(torch.autograd, "_profiler_enabled", lambda: False)
    return bool(getattr(profiler, "_is_profiler_enabled", False) or on_thread())


class LoopProfilers:
    """Notifies `listener` of the loop's profilers. `was_seen` means that the loop has used one."""

    def __init__(self) -> None:
        self.listener: ProfilerListener | None = None
        self._active: weakref.WeakSet[Any] = weakref.WeakSet()
        self._undo: list[Callable[[], None]] = []
        # A profiler started earlier is detectable only while it runs.
        self._was_before = self.was_seen = is_any_enabled()

    @property
    def is_active(self) -> bool:
        return bool(self._active) or self._was_before

    def attach(self) -> None:
        kind = profiler.profile
        self._around(kind, "_prepare_trace", before=self._starts)
        self._around(kind, "_start_trace", before=self._starts)
        self._around(kind, "__exit__", after=self._stopped)
        self._around(kind, "export_chrome_trace", after=self._exported)
        for name in _MARKERS:
            marker = getattr(profiler, name, None)
            if marker is not None:
                self._around(marker, "__enter__", before=self._starts)
                self._around(marker, "__exit__", after=self._stopped)

    def detach(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _starts(self, one: Any, *_: Any) -> None:
        if getattr(one, "enabled", True) and one not in self._active:
            self.was_seen = True
            if self.listener is not None:
                self.listener.on_user_profiler_start()
            self._active.add(one)

    def _stopped(self, one: Any, *_: Any) -> None:
        if one in self._active or self._was_before:
            self._active.discard(one)
            self._was_before = False
            if self.listener is not None:
                self.listener.on_user_profiler_stop()

    def _exported(self, one: Any, path: Any = None, *_: Any) -> None:
        del one
        if path is not None and self.listener is not None:
            self.listener.on_user_trace(Path(path))

    def _around(
        self,
        kind: Any,
        name: str,
        *,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
    ) -> None:
        original = vars(kind).get(name)
        if original is None:  # this torch version does not have the method
            return

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not is_own_profiler_call():
                self._notify(before, *args, *kwargs.values())
            result = original(*args, **kwargs)
            if not is_own_profiler_call():
                self._notify(after, *args, *kwargs.values())
            return result

        def undo() -> None:
            if vars(kind).get(name) is wrapper:
                setattr(kind, name, original)

        setattr(kind, name, wrapper)
        self._undo.append(undo)

    def _notify(self, act: Callable[..., None] | None, *args: Any) -> None:
        if act is None:
            return
        try:
            act(*args)
        except Exception as error:  # noqa: BLE001 - errors must not reach the program
            if self.listener is not None:
                self.listener.failed(error)


def keep_copy(path: Path, folder: Path, name: str) -> str:
    """Copy a trace of the loop, which may delete the file later; return the copy's name."""
    with complete_file(folder / f"{name}.json") as aside:
        shutil.copyfile(path, aside)
    return f"{name}.json"
