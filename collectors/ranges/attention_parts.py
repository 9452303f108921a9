"""Splits attention into its parts: Bmm0, Softmax, Bmm1, and RoPE.

The parts are ranges inside the model's eager attention function, so outputs are bit-identical.
While this function runs, a `TorchFunctionMode` opens `tk/part/bmm0` and `tk/part/bmm1` around the
two matrix multiplications, and `tk/part/softmax` between them (scaling, mask, softmax, and
dropout). Wrappers replace the functions in the Python module that defines the model.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Self

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..calls.dynamo_bypass import is_captured
from . import Range, part

_PRODUCTS = frozenset({"matmul", "bmm", "baddbmm", "__matmul__", "einsum"})
_MARK = "_is_tracekit_part"
_OWN = "eager_attention_forward"
_ROPE = re.compile(r"^_?apply_\w*rotary\w*$")


class RopeRanges:
    """`tk/part/rope` ranges around rotary embeddings while attached."""

    def __init__(self, model: nn.Module) -> None:
        # Reference only classes, so that the program can free its model at any time.
        self._kinds = {type(module) for module in model.modules()}
        self._originals: list[tuple[ModuleType, str, Callable[..., Any]]] = []

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.detach()

    def attach(self) -> None:
        for file in _files(self._kinds):
            for name, value in list(vars(file).items()):
                if _ROPE.match(name):
                    self._wrap(file, name, value, functools.partial(part, "rope"))

    def detach(self) -> None:
        for file, name, value in self._originals:
            # If the program has added a wrapper on top, tracekit's stays and calls the model's
            # function.
            if getattr(vars(file).get(name), "__wrapped__", None) is value:
                setattr(file, name, value)
        self._originals.clear()

    def _wrap(
        self,
        file: ModuleType,
        name: str,
        value: Any,
        context: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        if callable(value) and not isinstance(value, type) and not hasattr(value, _MARK):
            self._originals.append((file, name, value))
            setattr(file, name, _inside(context, value))


class AttentionRanges(RopeRanges):
    """Ranges for RoPE and the parts of eager attention of a transformers model.

    The model's configuration is unchanged, so a copy or checkpoint contains nothing of tracekit.
    """

    def attach(self) -> None:
        super().attach()
        for file in _files({base for kind in self._kinds for base in kind.__mro__}):
            self._wrap(file, _OWN, vars(file).get(_OWN), _Parts)


def _files(kinds: set[type]) -> Iterator[ModuleType]:
    return filter(None, map(sys.modules.get, sorted({kind.__module__ for kind in kinds})))


def _inside(
    context: Callable[[], AbstractContextManager[Any]], function: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or is_captured():
            return function(*args, **kwargs)
        with context():
            return function(*args, **kwargs)

    setattr(wrapper, _MARK, True)
    return wrapper


class _Parts(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self._products = 0
        self._softmax: Range | None = None

    def __exit__(self, *exc_info: Any) -> None:
        try:
            super().__exit__(*exc_info)
        finally:
            self._end_softmax()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        del types
        if getattr(func, "__name__", "") not in _PRODUCTS:
            return func(*args, **(kwargs or {}))
        self._end_softmax()
        self._products += 1
        with part("bmm0" if self._products == 1 else "bmm1"):
            result = func(*args, **(kwargs or {}))
        if self._products == 1:
            self._softmax = part("softmax")
            self._softmax.__enter__()
        return result

    def _end_softmax(self) -> None:
        if self._softmax is not None:
            self._softmax.__exit__(None, None, None)
            self._softmax = None
