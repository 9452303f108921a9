"""Time of modules and phases, compared with CUDA events around the same calls in the same steps.

What passes on the stream between two events is the work of a module, and the idle time before it.
"""

import itertools
import time
from collections import defaultdict

import pytest
from devices import on_each_device
from trace_claims import claim_trace

import tracekit

_TOLERANCE_PCT = 3.0
_MIN_NS = 500_000
_WARMUP, _ACTIVE = 2, 3
_MODULES = (
    "lm_head",
    "model.layers.0",
    "model.layers.0.self_attn",
    "model.layers.0.self_attn.q_proj",
    "model.layers.0.mlp",
    "model.layers.0.mlp.down_proj",
    "model.layers.1",
)

# The time between a module's events includes the wait of its first kernel for earlier work.
_INSIDE = """
    SELECT sum(wall_ns + idle_ns)::BIGINT
    FROM work
    WHERE phase = 'forward' AND starts_with(module_path || '.', '{}.')
"""


class Timer:
    """Instants on the stream of a device, or of the clock without one."""

    def __init__(self, device):
        from tracekit.collectors.machine import accelerator

        self._now = lambda: accelerator.event(device) or time.perf_counter_ns()
        self._spans = defaultdict(list)
        self._open = {}
        self.is_on = False

    def begin(self, name):
        if self.is_on:
            self._open[name] = self._now()

    def end(self, name):
        if self.is_on:
            self._spans[name].append((self._open.pop(name), self._now()))

    def total_ns(self, name):
        """Return the time of all spans; the device must be idle by now."""
        return sum(
            float(end - begin) if isinstance(begin, int) else float(begin.elapsed_time(end)) * 1e6
            for begin, end in self._spans[name]
        )


@pytest.mark.alone
@on_each_device
def test_times_of_modules_and_phases(trial):
    """Modules above 0.5 ms, and phases, are within 3 % of CUDA events around the same calls.

    Trains a Llama of full width with two layers. On a CPU, the model is small, and only the
    existence of every module in the trace is checked.
    """
    trial.needs("transformers")
    import torch

    from tracekit.collectors import ranges
    from tracekit.collectors.machine import accelerator
    from tracekit.collectors.model import models

    device = trial.device
    config = models.model_config("llama2-7b" if trial.is_cuda else "tiny", 2)
    model = models.build(config, seed=0, dtype=torch.bfloat16, device=device)
    ids = torch.randint(config.vocab_size, (8, 1024) if trial.is_cuda else (1, 32), device=device)
    timer = Timer(device)
    for name in _MODULES:
        module = model.get_submodule(name)
        module.register_forward_pre_hook(lambda *_, name=name: timer.begin(name))
        module.register_forward_hook(lambda *_, name=name: timer.end(name))
    numbers = itertools.count(1)

    def step():
        number = next(numbers)
        timer.is_on = number > _WARMUP
        timer.begin("forward")
        with ranges.phase("forward"):
            loss = model(input_ids=ids, labels=ids).loss
        timer.end("forward")
        timer.begin("backward")
        with ranges.phase("backward"):
            loss.backward()
        timer.end("backward")
        model.zero_grad()
        if number == _WARMUP:
            # Queued work would be in the window without its launches.
            accelerator.synchronize(device)

    with ranges.ModuleRanges(model):
        path = trial.profile(step, warmup=_WARMUP, active=_ACTIVE)
    accelerator.synchronize(device)
    claim_trace(trial, path, phases={"forward", "backward"})
    with tracekit.open(path, cache=False) as trace:
        seen = {name: trace.sql(_INSIDE.format(name)).rows[0][0] or 0 for name in _MODULES}
        for row in trace.query("phases").to_dicts():
            seen[row["phase"]] = row["wall_ns"] + row["idle_ns"]
    for name in (*_MODULES, "forward", "backward"):
        found, events = seen.get(name, 0), timer.total_ns(name)
        trial.claim(f"{name} is in the trace", found > 0, {"trace_ns": found, "event_ns": events})
        if trial.is_cuda and events / _ACTIVE >= _MIN_NS:
            trial.claim_close(f"{name} is as long as its events", found, events, _TOLERANCE_PCT)
