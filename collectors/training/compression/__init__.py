"""Gradient compression as communication hooks of DistributedDataParallel, one method per file.

A file without a leading underscore is a method: its `install(ddp_model, **options)` hooks the model
and returns its `Compression`. torch is imported only when a method is used.
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


def install(ddp_model: Any, method: str, **options: Any) -> Compression:
    """Compress the gradients of a model from its next backward pass on.

    Each method uses the options that apply to it and ignores the others. All methods average the
    gradients of one-dimensional parameters (norms, biases) exactly.

    Raises:
        UsageError: the method does not exist, or an option is out of range.
    """
    if method not in methods():
        raise UsageError(
            f"unknown gradient compression {method!r}", hint="methods: " + ", ".join(methods())
        )
    hook = import_module(f"{__name__}.{method}").install
    parameters = inspect.signature(hook).parameters
    return hook(ddp_model, **{name: value for name, value in options.items() if name in parameters})
