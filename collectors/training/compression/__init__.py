"""Gradient compression as communication hooks of DistributedDataParallel, one method per file.

torch is imported only when a method is used.
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
    names = (module.name for module in iter_modules([str(Path(__file__).parent)]))
    return sorted(name for name in names if not name.startswith("_"))


def install(ddp_model: Any, method: str, **options: Any) -> Compression:
    """Compress gradients, starting with the next backward pass; unknown options are ignored."""
    if method not in methods():
        raise UsageError(
            f"unknown gradient compression {method!r}", hint="methods: " + ", ".join(methods())
        )
    hook = import_module(f"{__name__}.{method}").install
    parameters = inspect.signature(hook).parameters
    return hook(ddp_model, **{name: value for name, value in options.items() if name in parameters})
