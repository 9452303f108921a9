"""Counts the training tokens passed to a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch._C import _functorch

# Names of keyword arguments that take integer matrices other than token ids.
_NO_IDS = re.compile(r"label|target|mask|position|type|index|edge|length|^y$")


class TokenCounter:
    """Counts tokens between `begin` and `end`, except in dropped steps."""

    def __init__(self) -> None:
        self.total = 0
        self.shapes: set[tuple[int, int]] = set()
        self.is_without_ids = False
        self._in_step = 0
        self._is_counting = False
        self._counted: int | None = None
        self._is_batch_first: bool | None = None
        # Token ids of this step, with the version of a parameter at that time. The references
        # prevent other tensors from reusing the addresses.
        self._given: dict[tuple[Any, ...], tuple[torch.Tensor, int]] = {}
        # Groups of token-id tensors that may be copies of each other, for this step and for all
        # steps.
        self._alike_in_step: list[list[tuple[torch.Tensor, int]]] = []
        self._alike: list[list[tuple[torch.Tensor, int]]] = []

    @property
    def batch_size(self) -> int | None:
        return _only({size for size, _ in self.shapes})

    @property
    def sequence_length(self) -> int | None:
        return _only({length for _, length in self.shapes})

    @property
    def ranges(self) -> str | None:
        names = ("sequences per call", "tokens per sequence")
        parts = [
            f"{min(values):,} to {max(values):,} {name}"
            for name, values in zip(names, zip(*self.shapes, strict=True), strict=False)
            if len(set(values)) > 1
        ]
        return ", ".join(parts) or None

    def begin(self) -> None:
        self.total = self._in_step = 0
        self.shapes.clear()
        self.is_without_ids = False
        self._is_counting = True
        self._counted = None

    def resume(self) -> None:
        self._is_counting = True

    def end(self) -> None:
        self._is_counting = False
        # Comparing waits for the device, so it is deferred to the end.
        self.total -= sum(one[0][0].numel() for one in self._alike if _is_copied(one))
        self._alike.clear()
        self.drop_step()

    def count(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Count the tokens of one training call.

        If a loop calls parts of a model, the first part that receives tokens counts. The same ids
        in the same step are the same tokens if the parameters have changed, as with SAM and
        closures. Otherwise, they belong to another pass of gradient accumulation.
        """
        # Determined only once, before steps are timed, because it visits every module.
        if self._is_batch_first is None:
            self._is_batch_first = _is_batch_first(module)
        if not self._is_counting:
            return
        if self._counted not in (None, id(module)):
            return
        for tensor in _first_tensors(args, kwargs):
            ids, shape = _unbatched(tensor)
            if not shape:
                if self._counted is None:
                    self.is_without_ids = tensor.is_floating_point() or tensor.is_complex()
                continue
            self._counted, self.is_without_ids = id(module), False
            if self._is_batch_first:
                self.shapes.add(shape)
            if not self._is_repeated(module, ids):
                self._in_step += ids.numel()

    def keep_step(self) -> None:
        self.total += self._in_step
        self._alike += self._alike_in_step
        self.drop_step()

    def drop_step(self) -> None:
        self._in_step = 0
        self._given.clear()
        self._alike_in_step.clear()

    def _is_repeated(self, module: nn.Module, ids: torch.Tensor) -> bool:
        """Return whether these ids already appeared in this step, with other parameters."""
        parameter = next((p for p in module.parameters() if p.requires_grad), None)
        if type(ids) is not torch.Tensor or ids.is_inference() or parameter is None:
            return False
        version = parameter._version
        key = (ids.data_ptr(), ids.shape, ids.stride(), ids._version)
        known = self._given.get(key)
        if known is not None:
            return known[1] != version
        others = [
            (other, other._version)
            for other, before in self._given.values()
            if before != version
            and (other.shape, other.dtype, other.device) == (ids.shape, ids.dtype, ids.device)
        ]
        if others:
            self._alike_in_step.append([(ids, ids._version), *others])
        self._given[key] = ids, version
        return False


def _is_copied(versions: Sequence[tuple[torch.Tensor, int]]) -> bool:
    (ids, is_known), *others = [(one, one._version == version) for one, version in versions]
    return is_known and any(is_same and ids.equal(other) for other, is_same in others)


def _only(values: set[int]) -> int | None:
    return next(iter(values)) if len(values) == 1 else None


def token_ids(args: tuple[object, ...], kwargs: Mapping[str, object]) -> torch.Tensor | None:
    """Return the integer matrix that is probably the token ids of a call, if any."""
    tensor = next(iter(_first_tensors(args, kwargs)), None)
    is_ids = tensor is not None and tensor.ndim == 2 and _unbatched(tensor)[1] is not None
    return tensor if is_ids else None


def _first_tensors(
    args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Sequence[torch.Tensor]:
    """Return candidates for token ids: `input_ids`, or the first tensor argument.

    A list or dict of dicts, such as a pair for a sentence encoder, has several candidates.
    """
    known = kwargs.get("input_ids")
    for value in (known, *args, kwargs):
        results = [value] if isinstance(value, torch.Tensor) else [*_of_dicts(value)]
        if results:
            return results
    return ()


def _of_dicts(value: object, depth: int = 2) -> Iterator[torch.Tensor]:
    result = _named(value) if isinstance(value, Mapping) else None
    if isinstance(result, torch.Tensor):
        yield result
    elif depth and isinstance(value, Mapping):
        for one in value.values():
            yield from _of_dicts(one, depth - 1)
    elif isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
        for one in value:
            yield from _of_dicts(one, 0)


def _named(values: Mapping[str, object]) -> object:
    if "input_ids" in values:
        return values["input_ids"]
    tensors = (name for name, value in values.items() if isinstance(value, torch.Tensor))
    return next((values[name] for name in tensors if not _NO_IDS.search(str(name))), None)


def _unbatched(given: torch.Tensor) -> tuple[torch.Tensor, tuple[int, int] | None]:
    """Return a tensor without `torch.func` wrappers, and its shape (sequences, tokens).

    Inside `vmap`, a tensor has the shape of one sample. The shape is None if the tensor cannot
    contain token ids.
    """
    size, shape = 1, given.shape
    while _functorch.is_functorch_wrapped_tensor(given):
        if _functorch.is_batchedtensor(given):
            axis = _functorch.maybe_get_bdim(given)
            given = _functorch.get_unwrapped(given)
            size *= given.shape[axis]
        else:
            given = _functorch.get_unwrapped(given)
    is_many = given.ndim > len(shape)
    is_ids = given.dtype in (torch.int32, torch.int64)
    if not is_ids or len(shape) not in ((1, 2) if is_many else (2,)):
        return given, None
    return given, (size * (shape[0] if len(shape) == 2 else 1), shape[-1])


def _is_batch_first(module: nn.Module) -> bool:
    """Return whether the batch is the first dimension of a model's input."""
    return all(getattr(inner, "batch_first", True) for inner in module.modules())
