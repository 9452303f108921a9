"""Determines which models a loop trains."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence

from torch import nn
from torch.nn.parameter import is_lazy


def outermost(called: list[nn.Module]) -> list[nn.Module]:
    """Return the called modules that are not inside another called module, including losses.

    The module with the most trainable parameters is first.
    """
    inside = {inner for module in called for inner in module.modules() if inner is not module}
    sizes = {
        module: sum(p.numel() for p in module.parameters() if p.requires_grad)
        for module in called
        if module not in inside
    }
    result = sorted(sizes, key=lambda module: -sizes[module])
    # ZeRO-3 leaves empty parameters, so the count may be 0 for a trained model.
    is_trained = bool(result) and any(p.requires_grad for p in result[0].parameters())
    return result if is_trained else []


def owner_of(parameter: object) -> nn.Module | None:
    best, best_count = None, 0
    for one in _modules():
        count = sum(1 for _ in one.modules())
        if count > best_count and any(p is parameter for p in one.parameters()):
            best, best_count = one, count
    return best


def owner_of_parts(called: Sequence[nn.Module]) -> tuple[nn.Module | None, list[nn.Module]]:
    """Return the smallest model that contains all trained parts, and these parts.

    Needed for loops that call `model.forward(…)`, and for models with an actor and a critic.
    """
    parts = [one for one in called if any(p.requires_grad for p in one.parameters())]
    best, best_count = None, 0
    for each in _modules() if len(parts) > 1 else ():
        inside = set(each.modules())
        if inside.issuperset(parts) and (best is None or len(inside) < best_count):
            best, best_count = each, len(inside)
    return best, parts if best is not None else []


def trained_part(root: nn.Module) -> nn.Module:
    """Return the module with the most trained parameters; its mode is used as the root's mode."""

    def weight(module: nn.Module) -> tuple[bool, int]:
        own = [p for p in module.parameters(recurse=False) if not is_lazy(p)]
        trained = [p for p in own if p.requires_grad]
        return bool(trained), sum(p.numel() for p in trained or own)

    return max(root.modules(), key=weight)


def shares_modules(one: nn.Module, others: Iterable[nn.Module]) -> bool:
    inside = set(one.modules())
    return any(other in inside or one in other.modules() for other in others)


def is_alike(module: nn.Module, other: nn.Module) -> bool:
    if type(module) is not type(other):
        return False
    if not type(module).__module__.startswith("torch."):
        return True
    shapes = [[(name, p.shape) for name, p in one.named_parameters()] for one in (module, other)]
    return shapes[0] == shapes[1] and bool(shapes[0])


def _modules() -> Iterator[nn.Module]:
    for one in gc.get_objects():
        # isinstance() has side effects on some objects, such as lazy proxies.
        if issubclass(type(one), nn.Module) and "_modules" in one.__dict__:
            yield one
