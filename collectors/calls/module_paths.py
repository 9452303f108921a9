"""Paths of a model's modules, independent of its wrappers.

Paths are the names in `named_modules()` of the user's model without wrappers, so that runs of the
same model are comparable. The model and its wrappers have the model's class name as their path.
"""

from __future__ import annotations

from torch import nn

_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})


def module_paths(model: nn.Module) -> dict[nn.Module, str]:
    inner, prefix = _unwrapped(model)
    root = class_name(inner)
    paths: dict[nn.Module, str] = {}
    for name, module in model.named_modules():
        if f"{name}.".startswith(prefix):
            paths[module] = _without_wrappers(name[len(prefix) :]) or root
        elif prefix.startswith(f"{name}.") or not name:
            paths[module] = root
        else:  # outside the model, such as PEFT's prompt encoder
            paths[module] = _without_wrappers(name)
    return paths


def class_name(module: nn.Module) -> str:
    """Return the class name of a module, without FSDP2's prefix."""
    kinds = type(module).__mro__
    if kinds[1].__name__ == "FSDPModule" and len(kinds) > 2:
        return kinds[2].__name__
    return kinds[0].__name__


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the user's model inside DDP, FSDP, DeepSpeed, PEFT, or compile wrappers."""
    return _unwrapped(model)[0]


def _unwrapped(model: nn.Module) -> tuple[nn.Module, str]:
    prefix = ""
    while True:
        step_name = _wrapper_child(model)
        if step_name is None:
            return model, prefix
        model = model.get_submodule(step_name)
        prefix += f"{step_name}."


def _wrapper_child(model: nn.Module) -> str | None:
    children = dict(model.named_children())
    for name in (*_WRAPPERS, "module"):
        if list(children) == [name]:
            return name
    # DeepSpeed's engine may have other children than the model. A module with such a child, but
    # without an engine's methods, may be a checkpoint wrapper.
    if "module" in children and hasattr(model, "backward") and hasattr(model, "step"):
        return "module"
    # In PEFT's wrappers, the base model is at one of two depths. Other classes may have an
    # unrelated method of this name.
    if any(kind.__module__.startswith("peft.") for kind in type(model).__mro__):
        result = model.get_base_model() if hasattr(model, "get_base_model") else None
        return next(
            (name for name, inner in model.named_modules() if name and inner is result), None
        )
    return None


def _without_wrappers(path: str) -> str:
    return ".".join(name for name in path.split(".") if name not in _WRAPPERS)
