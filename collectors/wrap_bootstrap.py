"""Runs inside of a user's own training program and records its loop.

`wrap.py` starts the program with a `sitecustomize` that calls `install`, in every Python process
that the program starts; so launchers need not be known. A process in which torch is never imported,
or in which no optimizer takes a step, is left alone.

The first step tells which models are trained: those called outside of any other. From then on a
step begins where the model is called for training after an optimizer took a step. So several
optimizers, accumulated gradients and engines that step group by group make one step each.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.machinery
import importlib.util
import json
import multiprocessing
import multiprocessing.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tracekit.errors import TracekitError

from .loop_plan import LoopPlan

if TYPE_CHECKING:
    from torch import nn

    from .loop_recorder import LoopRecorder

VARIABLE = "TRACEKIT_WRAP"
"""Names the folder in which this file finds the plan and leaves the report."""

PLAN = "plan.json"

UNUSABLE = "unusable"
"""The file in which a Python without tracekit says so."""

# Its own folder goes, then a sitecustomize that the machine has gets its turn.
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
        from tracekit.collectors.wrap_bootstrap import install
    except ImportError as error:
        with open(os.path.join(folder, "{UNUSABLE}"), "w", encoding="utf-8") as file:
            file.write(f"{{sys.executable}}: {{error}}")
    else:
        install(folder)
'''


def install(folder: str) -> None:
    """Record what this process trains, should it import torch."""
    with contextlib.suppress(OSError, ValueError):
        plan = LoopPlan(**json.loads(Path(folder, PLAN).read_text("utf-8")))
        sys.meta_path.insert(0, _TorchWatcher(_Loop(Path(folder), plan)))


class _TorchWatcher(MetaPathFinder):
    """Sees torch being imported, and lets it be imported as it would have been."""

    def __init__(self, loop: _Loop) -> None:
        self._loop = loop

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_watch(module: ModuleType) -> None:
                execute(module)
                self._loop.watch()

            spec.loader.exec_module = execute_and_watch  # type: ignore[method-assign]
        return spec


class _Loop:
    """The training loop of this process, if it turns out to have one."""

    def __init__(self, folder: Path, plan: LoopPlan) -> None:
        self._folder = folder
        self._plan = plan
        self._called: dict[nn.Module, None] = {}
        self._handles: list[Any] = []
        self._boundary: Any = None
        self._recorder: LoopRecorder | None = None
        self._model: nn.Module | None = None
        self._has_stepped = False

    def watch(self) -> None:
        """Wait for a model to be called and an optimizer to take a step."""
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._handles = [
            register_module_forward_pre_hook(self._note_call),
            register_optimizer_step_post_hook(self._note_optimizer_step),
        ]

    def _note_call(self, module: nn.Module, _: Any) -> None:
        import torch

        if module.training and torch.is_grad_enabled():
            self._called[module] = None

    def _note_optimizer_step(self, *_: Any) -> None:
        self._has_stepped = True
        if self._recorder is None and self._called:
            with self._failures_reported():
                self._begin()

    def _begin(self) -> None:
        """Find the models and take the step that has just been seen for the first."""
        from .loop_recorder import LoopRecorder

        trained = _outermost(list(self._called))
        self._called.clear()
        if not trained:
            return
        self._handles.pop(0).remove()
        self._model = trained[0]
        self._recorder = LoopRecorder(self._plan, _place(), self._folder.parent, trained)
        self._recorder.begin_step()
        self._put_boundary()
        if multiprocessing.parent_process() is None:
            atexit.register(self._end)
        else:  # such a process ends without atexit
            multiprocessing.util.Finalize(None, self._end, exitpriority=0)

    def _put_boundary(self) -> None:
        """See the calls of the model, before all hooks that were made since."""
        if self._boundary is not None:
            self._boundary.remove()
        if self._model is not None:
            self._boundary = self._model.register_forward_pre_hook(self._next_step, prepend=True)

    def _next_step(self, module: nn.Module, _: Any) -> None:
        import torch

        recorder = self._recorder
        is_training = module.training and torch.is_grad_enabled()
        if recorder is None or not is_training or not self._has_stepped:
            return
        self._has_stepped = False
        with self._failures_reported():
            recorder.end_step()
            recorder.begin_step()
            if recorder.is_done:
                self._report(is_final=True)
            else:
                self._put_boundary()

    def _end(self) -> None:
        """Report a loop that ended before it was recorded to the end, or exactly there."""
        recorder = self._recorder
        if recorder is None or recorder.is_done:
            return
        with self._failures_reported():
            if self._has_stepped:
                recorder.end_step()
            recorder.close()
            self._report(is_final=False)

    def _report(self, *, is_final: bool) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        report = recorder.report
        report.is_final = is_final
        if report.trace is None and report.outcome == "ok":
            report.outcome = "failed"
            report.reason = recorder.plan.too_few(report.step_count)
        for handle in (*self._handles, self._boundary):
            handle.remove()
        with contextlib.suppress(OSError):  # the other side has gone, and the folder with it
            report.write(self._folder)

    @contextlib.contextmanager
    def _failures_reported(self) -> Any:
        """Let the program go on if it cannot be recorded, and say so on the other side."""
        try:
            yield
        except (TracekitError, OSError) as error:
            recorder = self._recorder
            if recorder is not None:
                recorder.abandon()
                recorder.report.outcome = "failed"
                recorder.report.reason = str(error)
                self._report(is_final=True)


def _outermost(called: list[nn.Module]) -> list[nn.Module]:
    """Return the modules that lie in no other one, those with most to train first.

    A loss function has nothing to train and yet ranges of its own; without a module that is
    trained there are none.
    """
    inside = {inner for module in called for inner in module.modules() if inner is not module}
    sizes = {
        module: sum(p.numel() for p in module.parameters() if p.requires_grad)
        for module in called
        if module not in inside
    }
    found = sorted(sizes, key=lambda module: -sizes[module])
    # ZeRO-3 leaves empty parameters behind, so the count may be 0 for a model that is trained.
    is_trained = bool(found) and any(p.requires_grad for p in found[0].parameters())
    return found if is_trained else []


def _place() -> Any:
    """Return the place of this process, as its process group or its launcher says."""
    import torch.distributed as dist

    from .distributed import Place, place_in

    if dist.is_available() and dist.is_initialized():
        local = int(os.environ.get("LOCAL_RANK", "0"))
        return Place(dist.get_rank(), local, dist.get_world_size())
    return place_in(os.environ) or Place(0, 0, 1)
