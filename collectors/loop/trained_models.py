"""Determines which models a loop trains."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence

from torch import nn
from torch.nn.parameter import is_lazy


def outermost(called: list[nn.Module]) -> list[nn.Module]:
    """Return the modules that are not inside another, most trainable parameters first.

    The result includes modules without parameters, such as loss functions, because they also get
    ranges. It is empty if no module is trained.
    """
    inside = {inner for module in called for inner in module.modules() if inner is not module}
    sizes = {
        module: sum(p.numel() for p in module.parameters() if p.requires_grad)
        for module in called
        if module not in inside
    }
    result = sorted(sizes, key=lambda module: -sizes[module])
    # ZeRO-3 leaves empty parameters behind, so the count may be 0 for a trained model.
    is_trained = bool(result) and any(p.requires_grad for p in result[0].parameters())
    return result if is_trained else []


def owner_of(parameter: object) -> nn.Module | None:
    """Return the outermost module that contains a parameter, searching all objects."""
    best, best_count = None, 0
    for one in _modules():
        count = sum(1 for _ in one.modules())
        if count > best_count and any(p is parameter for p in one.parameters()):
            best, best_count = one, count
    return best


def owner_of_parts(called: Sequence[nn.Module]) -> tuple[nn.Module | None, list[nn.Module]]:
    """Return the model that contains the called parts, if a loop does not call the model itself.

    Examples are loops that call `model.forward(…)`, and models with an actor and a critic.

    Returns:
        The smallest module that contains all trained parts, or None; and the trained parts.
    """
    parts = [one for one in called if any(p.requires_grad for p in one.parameters())]
    best, best_count = None, 0
    for each in _modules() if len(parts) > 1 else ():
        inside = set(each.modules())
        if inside.issuperset(parts) and (best is None or len(inside) < best_count):
            best, best_count = each, len(inside)
    return best, parts if best is not None else []


def trained_part(root: nn.Module) -> nn.Module:
    """Return the module in a root that directly has the most trained parameters.

    Without trained parameters, all parameters count. The mode of this module counts as the mode of
    the root, which may be a loss or wrapper whose mode the program does not set.
    """

    def weight(module: nn.Module) -> tuple[bool, int]:
        own = [p for p in module.parameters(recurse=False) if not is_lazy(p)]
        trained = [p for p in own if p.requires_grad]
        return bool(trained), sum(p.numel() for p in trained or own)

    return max(root.modules(), key=weight)


def shares_modules(one: nn.Module, others: Iterable[nn.Module]) -> bool:
    """Return whether a module contains one of the others, or is inside one of them."""
    inside = set(one.modules())
    return any(other in inside or one in other.modules() for other in others)


def is_alike(module: nn.Module, other: nn.Module) -> bool:
    """Return whether two modules have the same class and, for torch's classes, parameter shapes."""
    if type(module) is not type(other):
        return False
    if not type(module).__module__.startswith("torch."):
        return True
    shapes = [[(name, p.shape) for name, p in one.named_parameters()] for one in (module, other)]
    return shapes[0] == shapes[1] and bool(shapes[0])


def _modules() -> Iterator[nn.Module]:
    """Yield all modules in memory."""
    for one in gc.get_objects():
        # isinstance() would have side effects on some objects, such as lazy proxies.
        if issubclass(type(one), nn.Module) and "_modules" in one.__dict__:
            yield one
