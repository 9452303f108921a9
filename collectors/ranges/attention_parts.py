"""Attention as its parts, Bmm0, Softmax, Bmm1 and RoPE.

The parts are ranges inside of the model's own eager attention function, so that outputs are the
same to the bit: while it runs, a `TorchFunctionMode` opens `tk/part/bmm0` around the first matrix
product, `tk/part/softmax` from there to the second (scaling, mask, softmax and dropout), and
`tk/part/bmm1` around that. What is before and after (repeating the heads of keys and values, the
final transposition) stays with the attention module. The function is made known to transformers by
its `AttentionInterface`.

Rotary embeddings have no such interface: the module that makes cosines and sines has a range of its
own like every module, and the function that applies them is a global of the model's file
(`apply_rotary_pos_emb` or a name like it). It is wrapped there while `RopeRanges` is attached.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, Self

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tracekit.errors import WorkloadError

from . import Range, part

EAGER = "tracekit_eager"
"""The name under which transformers knows eager attention with ranges for its parts."""

_PRODUCTS = frozenset({"matmul", "bmm", "baddbmm", "__matmul__", "einsum"})
_MARK = "_is_tracekit_part"
_OWN = "eager_attention_forward"
_ROPE = re.compile(r"^_?apply_\w*rotary\w*$")


def eager_parts() -> str:
    """Make eager attention with ranges for its parts known to transformers.

    Returns:
        The name for `attn_implementation` or `model.set_attn_implementation()`.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(EAGER, _eager_attention)
    AttentionMaskInterface.register(EAGER, eager_mask)
    return EAGER


class RopeRanges:
    """`tk/part/rope` ranges around rotary embeddings, while they are attached.

    Args:
        model: whose model files are looked through for functions that apply them.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._originals: list[tuple[ModuleType, str, Callable[..., Any]]] = []

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.detach()

    def attach(self) -> int:
        """Wrap the functions, and return how many there are."""
        if not self._originals:
            names = sorted({type(module).__module__ for module in self.model.modules()})
            for file in filter(None, map(sys.modules.get, names)):
                for name, value in list(vars(file).items()):
                    if _ROPE.match(name) and callable(value) and not _is_wrapped(value):
                        self._originals.append((file, name, value))
                        setattr(file, name, _in_part("rope", value))
        return len(self._originals)

    def detach(self) -> None:
        """Put the functions back."""
        for file, name, value in self._originals:
            setattr(file, name, value)
        self._originals.clear()


class AttentionRanges:
    """Ranges for the parts of attention of a whole model, while they are attached.

    RoPE as by `RopeRanges`; and the eager attention of a transformers model is wrapped in its file
    in the same way. Other models and other attention are left as they are, and so is the model's
    configuration: a copy or a checkpoint that is made meanwhile holds nothing of ours.

    Args:
        model: the model; it may be wrapped.
    """

    def __init__(self, model: nn.Module) -> None:
        self._rope = RopeRanges(model)
        self._model = model
        self._originals: list[tuple[ModuleType, Callable[..., Any]]] = []

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.detach()

    def attach(self) -> None:
        """Open the ranges from now on."""
        self._rope.attach()
        kinds = {base for module in self._model.modules() for base in type(module).__mro__}
        for file in filter(None, map(sys.modules.get, sorted({kind.__module__ for kind in kinds}))):
            function = vars(file).get(_OWN)
            if callable(function) and not _is_wrapped(function):
                self._originals.append((file, function))
                setattr(file, _OWN, _in_parts(function))

    def detach(self) -> None:
        """Put everything back."""
        self._rope.detach()
        for file, function in self._originals:
            setattr(file, _OWN, function)
        self._originals.clear()


def _is_wrapped(value: object) -> bool:
    return isinstance(value, type) or hasattr(value, _MARK)


def _in_part(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        with part(name):
            return function(*args, **kwargs)

    setattr(wrapper, _MARK, True)
    return wrapper


class _Parts(TorchFunctionMode):
    """Opens and closes the ranges of the parts as their operators go by."""

    def __init__(self) -> None:
        super().__init__()
        self._products = 0
        self._softmax: Range | None = None

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
        self.end()
        self._products += 1
        with part("bmm0" if self._products == 1 else "bmm1"):
            result = func(*args, **(kwargs or {}))
        if self._products == 1:
            self._softmax = part("softmax")
            self._softmax.__enter__()
        return result

    def end(self) -> None:
        """Close the range of the softmax if it is open."""
        if self._softmax is not None:
            self._softmax.__exit__(None, None, None)
            self._softmax = None


def _in_parts(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        parts = _Parts()
        try:
            with parts:
                return function(*args, **kwargs)
        finally:
            parts.end()

    setattr(wrapper, _MARK, True)
    return wrapper


def _eager_attention(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Run the eager attention of a module's own model file, with ranges for its parts."""
    function = _own_eager(type(module))
    if not _is_wrapped(function):
        function = _in_parts(function)
    return function(module, *args, **kwargs)


def _own_eager(kind: type[nn.Module]) -> Callable[..., Any]:
    """Return the eager attention function that a class of attention modules would use itself.

    Raises:
        WorkloadError: its file has none.
    """
    for base in kind.__mro__:
        file = sys.modules.get(base.__module__)
        function = getattr(file, _OWN, None)
        if callable(function):
            return function
    raise WorkloadError(
        f"{kind.__name__} of {kind.__module__} has no eager attention that has parts",
        hint="run the model with attn_implementation='eager' or 'sdpa'",
    )
