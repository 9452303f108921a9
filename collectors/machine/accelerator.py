"""The accelerator that a model uses: CUDA, XPU, NPU, MTIA, HPU, or MPS.

Each kind of device has a torch module (`torch.cuda`, `torch.xpu`, …) with `Event`, `synchronize`,
and memory statistics; vendor plug-ins use the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import torch
from torch import nn

CPU = torch.device("cpu")


def device_of(model: nn.Module, inputs: Iterable[object] = ()) -> torch.device:
    """Return the device on which a model computes.

    This is the first accelerator among the model's `device`, its parameters (which may be offloaded
    to the host), its buffers, and the inputs. By default, it is the current CUDA device if the
    program uses CUDA, or the CPU.
    """
    device = getattr(model, "device", None)  # of an engine or a transformers model
    if isinstance(device, torch.device) and _is_accelerator(device):
        return _numbered(device)
    for tensor in chain(model.parameters(), model.buffers(), _tensors(inputs)):
        if _is_accelerator(tensor.device):
            return _numbered(tensor.device)
    # Querying an accelerator that the program does not use would create a context on it.
    if torch.cuda.is_initialized():
        return torch.device("cuda", torch.cuda.current_device())
    return CPU


def synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        _module(device).synchronize(device)


def event(device: torch.device) -> Any:
    """Return a timing event recorded on the device's current stream.

    Return None on a CPU or if the device's torch module has no `Event`.
    """
    module = _module(device)
    if device.type == "cpu" or not hasattr(module, "Event"):
        return None
    result = module.Event(enable_timing=True)
    stream = getattr(module, "current_stream", None)
    if stream is None:
        result.record()
    else:
        result.record(stream(device))
    return result


def profiler_activities() -> list[Any]:
    from torch import profiler

    result = set(profiler.supported_activities())
    # Kineto reports all activities of its build, even without a device.
    if not torch.cuda.is_available():
        result.discard(profiler.ProfilerActivity.CUDA)
    result.add(profiler.ProfilerActivity.CPU)
    return sorted(result, key=str)


def device_activities(device: torch.device) -> list[Any]:
    from torch import profiler

    if device.type == "cpu":
        return []
    return [one for one in profiler_activities() if one != profiler.ProfilerActivity.CPU]


def _module(device: torch.device) -> Any:
    return getattr(torch, device.type, None)


def _is_accelerator(device: torch.device) -> bool:
    return device.type not in ("cpu", "meta")


def _numbered(device: torch.device) -> torch.device:
    if device.index is not None:
        return device
    current = getattr(_module(device), "current_device", None)
    index = current() if callable(current) else 0
    return torch.device(device.type, index if isinstance(index, int) else 0)


def _tensors(values: Iterable[object]) -> Iterable[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, Mapping):
            yield from _tensors(value.values())
        elif isinstance(value, tuple | list):
            yield from _tensors(value)
