"""Gradient compression as communication hooks of DistributedDataParallel, one method per file.

A file without a leading underscore is a method: it has `install(ddp_model, **options)`, which hooks
the model and returns its `Compression`. Torch is loaded only when one is used.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from tracekit.errors import UsageError

if TYPE_CHECKING:
    from ._hook import Compression


def methods() -> list[str]:
    """Return the names of the methods: the modules of this folder."""
    names = (module.name for module in iter_modules([str(Path(__file__).parent)]))
    return sorted(name for name in names if not name.startswith("_"))


def install(
    ddp_model: Any, method: str, *, rank: int = 4, density: float = 0.01, start_step: int = 2
) -> Compression:
    """Compress the gradients of a model from its next backward pass on.

    Each method takes the options that it has a use for and ignores the others. Parameters of one
    dimension (norms, biases) are averaged exactly by every method.

    Args:
        ddp_model: a `DistributedDataParallel`, of any backend, not yet hooked.
        method: one of `methods()`.
        rank: columns of the low-rank factors (powersgd, acpsgd).
        density: share of the elements of a matrix that is sent, above 0 up to 1 (topk).
        start_step: steps before this one are not compressed (powersgd; torch asks for 2 or more).

    Raises:
        UsageError: there is no such method, or an option is out of its range.
    """
    if method not in methods():
        raise UsageError(
            f"there is no gradient compression {method!r}", hint="methods: " + ", ".join(methods())
        )
    if rank < 1:
        raise UsageError(f"the rank of a factor is at least 1, not {rank}")
    if not 0 < density <= 1:
        raise UsageError(f"the density is above 0 and at most 1, not {density}")
    hook = import_module(f"tracekit.collectors.training.compression.{method}").install
    options = {"rank": rank, "density": density, "start_step": start_step}
    taken = inspect.signature(hook).parameters
    return hook(ddp_model, **{name: value for name, value in options.items() if name in taken})
