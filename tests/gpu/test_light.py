"""Cost of each kind of recording per step."""

import statistics
from collections import Counter

import pytest
from devices import on_each_device

_STEPS = 4
_LIGHT_AT_MOST_PCT = 10.0


@pytest.mark.alone
@on_each_device
def test_the_cost_of_kinds_of_recording(trial):
    """Light steps (work and launches alone) cost at most 10 % of a step, and have every kernel."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    step = trial.training_step()
    light = [ProfilerActivity.CUDA] if trial.is_cuda else [ProfilerActivity.CPU]
    full = [*{*light, ProfilerActivity.CPU}]
    kinds = {
        "light": {"activities": light},
        "full": {"activities": full},
        "shapes": {"activities": full, "record_shapes": True},
        "stacks": {"activities": full, "record_shapes": True, "with_stack": True},
    }
    times = {name: [] for name in ("plain", *kinds)}
    counts = {}
    trial.times_ns(step, _STEPS)
    for _ in range(3 if trial.is_cuda else 1):
        for name, options in kinds.items():
            times["plain"] += trial.times_ns(step, _STEPS)
            with profile(**options) as session:
                trial.times_ns(step, _STEPS)
                times[name] += trial.times_ns(step, _STEPS)
            events = session.profiler.kineto_results.events()
            counts[name] = Counter(str(event.device_type()) for event in events)
    middle = {name: statistics.median(ns) for name, ns in times.items()}
    cost_pct = {name: 100 * (ns / middle["plain"] - 1) for name, ns in middle.items()}
    trial.figures(step_ns=middle, cost_pct=cost_pct, torch=torch.__version__)
    if trial.is_cuda:
        work = [counts[name]["DeviceType.CUDA"] for name in ("light", "full")]
        trial.claim("light steps have all work", work[0] == work[1] > 0, work)
        is_light = cost_pct["light"] <= _LIGHT_AT_MOST_PCT
        trial.claim("light steps cost little", is_light, cost_pct)
