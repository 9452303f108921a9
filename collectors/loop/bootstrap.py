"""Runs in every Python process of a recorded program, and waits for the import of torch.

Every Python process loads this file, so it imports almost nothing; the recorder is imported after
torch. Errors go to a file for the parent and never reach the program.
"""

from __future__ import annotations

import os
import sys

from .hidden_modules import VisibleModules, hide_modules

TYPE_CHECKING = False  # instead of typing.TYPE_CHECKING, because typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

VARIABLE = "TRACEKIT_WRAP"
"""Environment variable with the path of the folder that contains the plan and the reports."""

UNUSABLE = "unusable"
"""File with the reason why a process could not be recorded, such as a Python without tracekit."""

TORCH = "torch"
"""Empty file that is created when a process has imported torch."""

# Content of tracekit's `sitecustomize`: it removes its own folder from `sys.path`, then imports the
# `sitecustomize` of the machine, if any.
SITE = f'''"""Written by tracekit collect: lets it record the program that it runs."""

import os
import sys

own = sys.modules["sitecustomize"]
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
del sys.modules["sitecustomize"]
try:
    import sitecustomize
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
finally:
    sys.modules.setdefault("sitecustomize", own)
folder = os.environ.get("{VARIABLE}")
if folder and os.path.isdir(folder):
    try:
        from tracekit.collectors.loop.bootstrap import install
    except ImportError as error:
        with open(os.path.join(folder, "{UNUSABLE}"), "w", encoding="utf-8") as file:
            file.write(f"{{sys.executable}}: {{error}}")
    else:
        install(folder)
'''


_is_installed = False


def install(folder: str) -> None:
    """Record this process once torch is imported. Later calls (nested `collect`) do nothing."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        if "torch" in sys.modules:  # imported earlier by a sitecustomize of the machine
            _watch(folder)
        else:
            sys.meta_path.insert(0, _TorchWatcher(folder))
    hide_modules()


class _TorchWatcher:
    """Detects the import of torch.

    It waits for torch's execution, because many programs first only check whether torch exists.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch" or self not in sys.meta_path:
            return None
        # Earlier finders have already been queried.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                self._watch_loader(spec.loader)
                return spec
        return None

    def _watch_loader(self, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def execute_and_watch(module: ModuleType) -> None:
            loader.exec_module = execute
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _watch(self._folder)

        loader.exec_module = execute_and_watch


def _watch(folder: str) -> None:
    try:
        with open(os.path.join(folder, TORCH), "w", encoding="utf-8"):  # noqa: PTH118, PTH123
            pass
        with VisibleModules():
            from .program_loop import watch

        watch(folder, unusable)
    except Exception as error:  # noqa: BLE001 - errors must not reach the program
        unusable(folder, f"{type(error).__name__}: {error}")


def step() -> None:
    """Report that the training loop has finished a step.

    Call it after each step of an optimizer that is not a `torch.optim.Optimizer`, such as those of
    fastai and Keras. It does nothing unless `tracekit collect` records the program.
    """
    hooks = sys.modules.get("tracekit.collectors.calls.training_hooks")
    if hooks is not None:
        hooks.foreign_optimizer_stepped()


def unusable(folder: str, reason: str) -> None:
    try:
        with open(os.path.join(folder, UNUSABLE), "w", encoding="utf-8") as file:  # noqa: PTH118, PTH123
            file.write(f"{sys.executable}: {reason}")
    except OSError:
        pass
