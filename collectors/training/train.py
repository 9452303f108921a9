"""The training of one rank: build, warm up, measure without the profiler, then profile."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from .. import ranges
from ..calls.module_paths import class_name, unwrapped
from ..machine import accelerator, memory
from ..model import flash_attention, models
from ..process.distributed import Place, barrier
from ..profiler.profile import Profile
from ..profiler.step_clock import StepClock
from ..ranges import attention_parts
from ..run.environment import probe
from . import methods
from .engines._engine import Engine
from .result import RankResult
from .spec import TrainingSpec

Range = Callable[[Any], AbstractContextManager[Any]]
_COMPUTE_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_PROFILER_WARMUP_COUNT = 1


def train(
    spec: TrainingSpec,
    place: Place,
    device: torch.device,
    folder: Path,
    result: RankResult,
    say: Callable[[str], None],
) -> None:
    """Train, measure and profile as one rank among those of the process group.

    `result` is filled in as figures become known, so that it tells what was reached.
    """
    result.environment = dataclasses.asdict(probe())
    if spec.memory_limit_bytes is not None:
        memory.limit(spec.memory_limit_bytes, device)
    say(f"building {spec.model}")
    config = models.model_config(spec.model, spec.layer_count)
    engine = _build(spec, config, device, result)
    result.notes += engine.notes
    batches = _batches(spec, place, device, config.vocab_size)
    memory.reset_peak(device)
    say(f"warming up: {spec.warmup_count} steps")
    for index in range(spec.warmup_count):
        loss = _step(engine, batches, _no_range)
        if index == 0:
            result.first_loss = loss.item()
    for repeat in range(spec.repeat_count):
        say(f"measuring: repeat {repeat + 1} of {spec.repeat_count}, {spec.measured_count} steps")
        _measure(spec, engine, batches, device, result)
    result.plain_step_ns = round(statistics.fmean(chain.from_iterable(result.step_ns)))
    result.memory = memory.peak(device)
    say(f"profiling: {spec.profiled_count} steps")
    _profile(spec, place, engine, batches, device, folder, result)
    if result.last_loss is None or not math.isfinite(result.last_loss):
        result.notes.append(f"the loss of rank {place.rank} ended as {result.last_loss}")


def _build(spec: TrainingSpec, config: Any, device: torch.device, result: RankResult) -> Engine:
    """Make the model as the methods ask, hand it to the engine, and note what it is."""
    module = import_module(f".engines.{spec.engine}", __package__)
    if hasattr(module, "build"):  # an engine with models of its own
        return module.build(spec, config, device, result)
    dtype = module.parameter_dtype(spec)
    compute_dtype = _COMPUTE_DTYPES[spec.precision]
    attention = "eager"
    result.attention_backend = "eager"
    if spec.opt.is_flash:
        backend = flash_attention.flash(device, compute_dtype, config, spec.sequence_length)
        attention, result.attention_backend, result.attention_reason = backend
    with _construction(module, spec, config, dtype, device):
        model: Any = models.build(
            config, seed=spec.seed, dtype=dtype, attention=attention, device=device
        )
    if spec.opt.is_recomputed:
        _recompute_activations(model)
    model = methods.prepare(model, spec, compute_dtype, device)
    model.train()
    result.model = models.describe(class_name(unwrapped(model)), model, config)
    return module.ENGINE(model, spec, device)


def _construction(
    module: Any, spec: TrainingSpec, config: Any, dtype: torch.dtype, device: torch.device
) -> AbstractContextManager[Any]:
    """Return in what the model is to be made: an engine may shard it meanwhile."""
    if not hasattr(module, "construction"):
        return contextlib.nullcontext()
    shapes = models.build(config, seed=spec.seed, dtype=dtype, device="meta")
    size_bytes = models.parameter_count(shapes)[0] * dtype.itemsize
    return module.construction(spec, size_bytes, device)


def _recompute_activations(model: Any) -> None:
    """Let every decoder layer be recomputed in the backward pass, in the non-reentrant form."""
    options = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):  # transformers 5.20 renamed it
        model.activation_checkpointing_enable(options)
    else:
        model.gradient_checkpointing_enable(options)


def _batches(
    spec: TrainingSpec, place: Place, device: torch.device, vocabulary_size: int
) -> Iterator[dict[str, torch.Tensor]]:
    """Give random token ids for ever; each data-parallel rank has its own.

    The labels are the same ids: the model shifts them by one itself.
    """
    generator = torch.Generator().manual_seed(spec.seed * 100_003 + place.rank // spec.tensor_size)
    shape = (spec.batch_size, spec.sequence_length)
    ids = None
    while True:
        if ids is None or not spec.is_batch_fixed:
            ids = torch.randint(vocabulary_size, shape, generator=generator)
        on_device = ids.to(device)
        yield {"input_ids": on_device, "labels": on_device}


def _step(
    engine: Engine, batches: Iterator[Mapping[str, torch.Tensor]], phase: Range
) -> torch.Tensor:
    """Train one step and return its loss, still on the device."""
    with phase("data"):
        batch = next(batches)
    with phase("forward"):
        loss = engine.loss(batch)
    with phase("backward"):
        engine.backward(loss)
    with phase("optimizer"):
        engine.optimize()
    return loss.detach()


def _no_range(_name: str) -> AbstractContextManager[Any]:
    return contextlib.nullcontext()


def _measure(
    spec: TrainingSpec,
    engine: Engine,
    batches: Iterator[Mapping[str, torch.Tensor]],
    device: torch.device,
    result: RankResult,
) -> None:
    """Run one repeat of the measured steps, nothing added to them."""
    barrier(device)
    # The first step begins with the clock: the steps are no longer than the whole.
    begin = time.perf_counter_ns()
    clock = StepClock(device)
    for _ in range(spec.measured_count):
        loss = _step(engine, batches, _no_range)
        clock.tick()
    step_ns = clock.stop()
    result.wall_ns.append(time.perf_counter_ns() - begin)
    result.step_ns.append(step_ns)
    result.last_loss = loss.item()
    if result.first_loss is None:
        result.first_loss = result.last_loss
    result.final_losses.append(result.last_loss)


def _profile(
    spec: TrainingSpec,
    place: Place,
    engine: Engine,
    batches: Iterator[Mapping[str, torch.Tensor]],
    device: torch.device,
    folder: Path,
    result: RankResult,
) -> None:
    """Run steps with ranges, to know what those cost, and then under the profiler too."""
    name = f"rank{place.rank}.json.gz"
    with ranges.ModuleRanges(engine.module), attention_parts.AttentionRanges(engine.module):
        barrier(device)
        clock = StepClock(device)
        for index in range(spec.profiled_count):
            with ranges.step(index):
                _step(engine, batches, ranges.phase)
            clock.tick()
        result.ranges_step_ns = round(statistics.fmean(clock.stop()))
        barrier(device)
        with Profile(
            folder / name,
            _metadata(spec, place),
            warmup=_PROFILER_WARMUP_COUNT,
            active=spec.profiled_count,
            all_threads=engine.needs_all_threads,
            **spec.profiler,
        ) as profile:
            for index in range(profile.step_count):
                if index == _PROFILER_WARMUP_COUNT:
                    clock = StepClock(device)
                with ranges.step(index):
                    loss = _step(engine, batches, ranges.phase)
                clock.tick()
                if index == _PROFILER_WARMUP_COUNT - 1:
                    # What is queued by now would lie in the window without its launches.
                    accelerator.synchronize(device)
                profile.step()
            result.profiled_step_ns = round(statistics.fmean(clock.stop()))
    result.last_loss = loss.item()
    result.trace = name
    result.extra |= engine.report()


def _metadata(spec: TrainingSpec, place: Place) -> dict[str, Any]:
    return {
        "stage": spec.stage,
        "engine": spec.engine,
        "opt": spec.opt_text,
        "model": models.display_name(spec.model, spec.layer_count),
        "precision": spec.precision,
        "batch_size": spec.batch_size,
        "sequence_length": spec.sequence_length,
        "seed": spec.seed,
        "rank": place.rank,
        "world_size": place.world_size,
    }
