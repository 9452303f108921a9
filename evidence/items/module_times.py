"""Time of modules and phases, held against CUDA events around the same calls in the same steps.

The products are large, so that the device is never waited for and what a module holds of it is
what passes on the stream between the two events, but for the gaps between kernels.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import tracekit
from evidence._records import Record, SkippedError
from evidence._setting import Setting
from evidence._trace_checks import check

_TOLERANCE_PCT = 3.0
_LEAST_NS = 500_000
_ACTIVE = 3
_MODULES = (
    "lm_head",
    "model.layers.0",
    "model.layers.0.self_attn",
    "model.layers.0.self_attn.q_proj",
    "model.layers.0.mlp",
    "model.layers.0.mlp.down_proj",
    "model.layers.1",
)


class _Timer:
    """Instants on the stream of a device, or of the clock without one."""

    def __init__(self, device: Any) -> None:
        from tracekit.collectors.machine import accelerator

        self._event = accelerator.event
        self._device = device
        self.spans: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
        self._open: dict[str, Any] = {}
        self.is_on = False

    def begin(self, name: str) -> None:
        if self.is_on:
            self._open[name] = self._event(self._device) or time.perf_counter_ns()

    def end(self, name: str) -> None:
        if self.is_on:
            end = self._event(self._device) or time.perf_counter_ns()
            self.spans[name].append((self._open.pop(name), end))

    def total_ns(self, name: str) -> float:
        """Return the time of all spans; the device must be idle by now."""
        return sum(
            float(end - begin) if isinstance(begin, int) else float(begin.elapsed_time(end)) * 1e6
            for begin, end in self.spans[name]
        )


def run(setting: Setting, record: Record) -> None:
    """Train a Llama of full width and two layers, and time its parts in two ways."""
    import torch

    from tracekit.collectors import ranges
    from tracekit.collectors.machine import accelerator
    from tracekit.collectors.model import models
    from tracekit.collectors.profiler.profile import Profile

    has_cuda = setting.host.has_cuda
    device = torch.device("cuda", 0) if has_cuda else torch.device("cpu")
    config = models.model_config("llama2-7b" if has_cuda else "tiny", 2)
    model: Any = models.build(config, seed=0, dtype=torch.bfloat16, device=device)
    shape = (8, 1024) if has_cuda else (1, 32)
    ids = torch.randint(config.vocab_size, shape, device=device)
    timer = _Timer(device)
    for name in _MODULES:
        module = model.get_submodule(name)
        module.register_forward_pre_hook(lambda *_, name=name: timer.begin(name))
        module.register_forward_hook(lambda *_, name=name: timer.end(name))
    path = setting.work_folder / "rank0.json.gz"
    with (
        ranges.ModuleRanges(model),
        Profile(path, {"rank": 0, "world_size": 1}, warmup=2, active=_ACTIVE) as profile,
    ):
        for number in range(profile.step_count):
            timer.is_on = number >= profile.step_count - _ACTIVE
            with ranges.step(number):
                timer.begin("forward")
                with ranges.phase("forward"):
                    loss = model(input_ids=ids, labels=ids).loss
                timer.end("forward")
                timer.begin("backward")
                with ranges.phase("backward"):
                    loss.backward()
                timer.end("backward")
                model.zero_grad()
            if number == profile.step_count - _ACTIVE - 1:
                # What is queued by now would lie in the window without its launches.
                accelerator.synchronize(device)
            profile.step()
        accelerator.synchronize(device)
    with tracekit.open(path) as trace:
        modules = {
            row["module_path"]: row["total_wall_ns"]
            for row in trace.query("modules", phase="forward").to_dicts()
        }
        phases = {
            row["phase"]: row["wall_ns"] + row["idle_ns"]
            for row in trace.query("phases").to_dicts()
        }
    with record.case("the trace") as case:
        check(case, path, phases={"forward", "backward"}, has_cuda=has_cuda)
    with record.case("modules, forward") as case:
        for name in _MODULES:
            seen, events = modules.get(name, 0), timer.total_ns(name)
            if has_cuda and events / _ACTIVE >= _LEAST_NS:
                case.claim_close(name, seen, events, _TOLERANCE_PCT)
            case.figure(**{name: {"trace_ns": seen, "event_ns": round(events)}})
            case.claim(f"{name} is in the trace", seen > 0, seen)
        if not has_cuda:
            raise SkippedError("times are held against CUDA events, which need a CUDA device")
    with record.case("phases") as case:
        for name in ("forward", "backward"):
            seen, events = phases.get(name, 0), timer.total_ns(name)
            case.figure(**{name: {"trace_ns": seen, "event_ns": round(events)}})
            if has_cuda:
                case.claim_close(name, seen, events, _TOLERANCE_PCT)
        if not has_cuda:
            raise SkippedError("times are held against CUDA events, which need a CUDA device")
