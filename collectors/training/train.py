"""Training program of one rank, measured and profiled by the recorder."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import torch

from tracekit.errors import WorkloadError

from ..calls.module_paths import class_name, unwrapped
from ..loop.plan import PROFILER_WARMUP_COUNT, LoopPlan
from ..loop.recorder import LoopRecorder
from ..loop.watch import LoopWatch, Observer
from ..machine import accelerator, memory
from ..model import flash_attention, models
from ..process.distributed import Place, barrier
from ..profiler.loop_profilers import LoopProfilers
from ..run.environment import probe
from ..run.folder import LIGHT, compress
from . import methods
from .engines._engine import Engine
from .result import RankResult
from .spec import TrainingSpec

_COMPUTE_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def train(
    spec: TrainingSpec,
    place: Place,
    device: torch.device,
    folder: Path,
    result: RankResult,
    say: Callable[[str], None],
) -> None:
    """Train and profile as one rank; fill `result` gradually, in case of an error."""
    result.environment = msgspec.to_builtins(probe())
    if spec.memory_limit_bytes is not None:
        memory.limit(spec.memory_limit_bytes, device)
    say(f"building {spec.model}")
    config = models.model_config(spec.model, spec.layer_count)
    engine = _build(spec, config, device, result)
    result.notes += engine.notes
    batches = _batches(spec, place, device, config.vocab_size)
    memory.reset_peak(device)
    plain_count = spec.measured_count * spec.repeat_count
    plan = LoopPlan(
        warmup_count=spec.warmup_count,
        measured_count=plain_count - plain_count // 2,
        after_count=plain_count // 2,
        profiled_count=spec.profiled_count,
        profiler={**spec.profiler, "all_threads": engine.needs_all_threads},
        **spec.ranges,
        metadata={
            "stage": spec.stage,
            "engine": spec.engine,
            "opt": spec.opt_text,
            "model": models.display_name(spec.model, spec.layer_count),
            "precision": spec.precision,
            "batch_size": spec.batch_size,
            "sequence_length": spec.sequence_length,
            "seed": spec.seed,
        },
    )
    # The watch is never started, because this program marks its own steps and phases.
    watch = LoopWatch(Observer(), "reported")
    recorder = LoopRecorder(
        plan, place, folder, [engine.module], watch, LoopProfilers(), report=result, device=device
    )
    try:
        _train(spec, plan, recorder, engine, batches, device, result, say)
    finally:
        recorder.abandon()
    if result.trace is not None:
        result.trace = compress(folder / result.trace).name
    if result.light_trace is not None:
        try:
            result.light_trace = f"{LIGHT}/{compress(folder / result.light_trace).name}"
        except WorkloadError as error:
            result.light_trace = None
            result.notes.append(error.message)
    result.extra |= engine.report()
    if result.last_loss is None or not math.isfinite(result.last_loss):
        result.notes.append(f"the loss of rank {place.rank} ended as {result.last_loss}")


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _train(
    spec: TrainingSpec,
    plan: LoopPlan,
    recorder: LoopRecorder,
    engine: Engine,
    batches: Iterator[Mapping[str, torch.Tensor]],
    device: torch.device,
    result: RankResult,
    say: Callable[[str], None],
) -> None:
    ranged = plan.warmup_count + plan.measured_count
    profiled = ranged + plan.profiled_count
    measured_on = plan.step_count + recorder.light_count
    step_count = measured_on + plan.after_count
    plain = [*range(plan.warmup_count, ranged), *range(measured_on, step_count)]
    repeats = plain[:: spec.measured_count]
    lines = {0: f"warming up: {_steps(spec.warmup_count)}"}
    lines[measured_on] = "measuring on"
    for repeat, first in enumerate(repeats, 1):
        count = _steps(spec.measured_count)
        lines[first] = f"measuring: repeat {repeat} of {spec.repeat_count}, {count}"
    lines[ranged] = f"profiling: {_steps(spec.profiled_count)}"
    begins = {*repeats, ranged, profiled, plan.step_count, measured_on}
    repeat_ends = {last + 1 for last in plain[spec.measured_count - 1 :: spec.measured_count]}
    ends = {*repeat_ends, ranged, plan.step_count, measured_on}
    for number in range(step_count):
        if number in lines:
            say(lines[number])
        if number in begins:
            barrier(device)
        recorder.begin_step(number - profiled)
        loss = _step(engine, batches, recorder)
        if number == profiled + PROFILER_WARMUP_COUNT - 1:
            # Otherwise, the window would contain earlier kernels without their launches.
            accelerator.synchronize(device)
        recorder.end_step()
        if number == 0 and plan.warmup_count:
            result.first_loss = loss.item()
        if number + 1 in ends:
            recorder.pause()
            result.last_loss = loss.item()
            if number + 1 in repeat_ends:
                result.final_losses.append(result.last_loss)
            if result.first_loss is None:
                result.first_loss = result.last_loss


def _build(spec: TrainingSpec, config: Any, device: torch.device, result: RankResult) -> Engine:
    module = import_module(f".engines.{spec.engine}", __package__)
    if hasattr(module, "build"):  # an engine with its own models
        return module.build(spec, config, device, result)
    dtype = module.parameter_dtype(spec)
    compute_dtype = _COMPUTE_DTYPES[spec.precision]
    attention = "eager"
    result.attention_backend = "eager"
    if "F" in spec.opt:
        backend = flash_attention.flash(device, compute_dtype, config, spec.sequence_length)
        attention, result.attention_backend, result.attention_reason = backend
    with _construction(module, spec, config, dtype, device):
        model: Any = models.build(
            config, seed=spec.seed, dtype=dtype, attention=attention, device=device
        )
    if "R" in spec.opt:
        _recompute_activations(model)
    model = methods.prepare(model, spec, compute_dtype, device)
    model.train()
    result.model = models.describe(class_name(unwrapped(model)), model, config)
    return module.ENGINE(model, spec, device)


def _construction(
    module: Any, spec: TrainingSpec, config: Any, dtype: torch.dtype, device: torch.device
) -> AbstractContextManager[Any]:
    if not hasattr(module, "construction"):
        return contextlib.nullcontext()
    shapes = models.build(config, seed=spec.seed, dtype=dtype, device="meta")
    size_bytes = models.parameter_count(shapes)[0] * dtype.itemsize
    return module.construction(spec, size_bytes, device)


def _recompute_activations(model: Any) -> None:
    options = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):  # new name since transformers 5.20
        model.activation_checkpointing_enable(options)
    else:
        model.gradient_checkpointing_enable(options)


def _batches(
    spec: TrainingSpec, place: Place, device: torch.device, vocabulary_size: int
) -> Iterator[dict[str, torch.Tensor]]:
    """Yield an endless sequence of random batches; each data-parallel rank has its own."""
    generator = torch.Generator().manual_seed(spec.seed * 100_003 + place.rank // spec.tensor_size)
    shape = (spec.batch_size, spec.sequence_length)
    ids = None
    while True:
        if ids is None or not spec.is_batch_fixed:
            ids = torch.randint(vocabulary_size, shape, generator=generator)
        on_device = ids.to(device)
        yield {"input_ids": on_device, "labels": on_device}


def _step(
    engine: Engine, batches: Iterator[Mapping[str, torch.Tensor]], recorder: LoopRecorder
) -> torch.Tensor:
    with recorder.phase("data"):
        batch = next(batches)
    with recorder.phase("forward"):
        loss = engine.loss(batch)
    with recorder.phase("backward"):
        engine.backward(loss)
    with recorder.phase("optimizer"):
        engine.optimize()
    return loss.detach()
