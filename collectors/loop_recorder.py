"""Measures and profiles the steps of a training loop that someone else wrote, as one rank.

The steps go by in this order: some that do not count; some that are timed, with nothing added to
them but one hook that counts tokens; as many as are profiled with ranges alone, which tells what
those cost; one that the profiler needs to warm up; and the profiled ones. Then every hook is gone
and the loop runs on as it was.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tracekit import __version__

from . import memory, models
from .attention_parts import AttentionRanges
from .distributed import Place
from .environment import probe
from .loop_phases import LoopPhases
from .loop_plan import PROFILER_WARMUP_COUNT, LoopPlan
from .loop_report import LoopReport
from .profiling import Profile
from .ranges import ModuleRanges, Range, class_name, step, unwrapped
from .step_clock import StepClock


class LoopRecorder:
    """Records the steps of a loop: `begin_step` and `end_step` around each, `close` at the end.

    Args:
        plan: what to do with which step.
        place: which rank this is.
        folder: takes the trace.
        models: the models that the loop calls, the one that is trained first.
        optimizer: one that is no `torch.optim.Optimizer`, or None.

    `report` is filled in as figures become known.
    """

    def __init__(
        self,
        plan: LoopPlan,
        place: Place,
        folder: Path,
        models: Sequence[nn.Module],
        optimizer: Any = None,
    ) -> None:
        self.plan = plan
        self.report = LoopReport(rank=place.rank, world_size=place.world_size)
        self.is_done = False
        self._place = place
        self._folder = folder
        self._model = models[0]
        self._device = _device()
        self._ranges = [
            ModuleRanges(model, name=class_name(unwrapped(model)) if index else None)
            for index, model in enumerate(models)
        ]
        self._parts = [AttentionRanges(model) for model in models]
        self._phases = LoopPhases(self._model, optimizer)
        self._tokens = _TokenCounter()
        self._token_hook: Any = self._model.register_forward_pre_hook(
            self._tokens.count, with_kwargs=True
        )
        self._clock: StepClock | None = None
        self._profile: Profile | None = None
        self._step: Range | None = None
        # The first steps of each part; the last is where all is done.
        measured = plan.warmup_count
        ranged = measured + plan.measured_count
        profiled = ranged + plan.profiled_count
        self._parts_begin = {
            measured: self._begin_measured,
            ranged: self._begin_ranged,
            profiled: self._begin_profiled,
            profiled + PROFILER_WARMUP_COUNT: self._begin_kept,
        }

    @property
    def is_ranged(self) -> bool:
        """Whether ranges are attached: neither before the timed steps are over nor at the end."""
        return self._ranges[0].is_attached

    def begin_step(self) -> None:
        """Begin a step."""
        if self.is_done:
            return
        begin = self._parts_begin.get(self.report.step_count)
        if begin is not None:
            begin()
        if self.is_ranged:
            self._phases.reset()
            self._step = step(self.report.step_count)
            self._step.__enter__()

    def end_step(self) -> None:
        """End a step, and everything after the last one."""
        if self.is_done:
            return
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        if self._clock is not None:
            self._clock.tick()
        if self._profile is not None:
            self._profile.step()
        self.report.step_count += 1
        if self.report.step_count == self.plan.step_count:
            self.close()

    def cancel_step(self) -> None:
        """Take back that a step was begun: the loop is over."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def close(self) -> None:
        """Take all hooks away; write the trace if at least one profiled step is whole.

        Raises:
            WorkloadError: the trace cannot be written.
        """
        if self.is_done:
            return
        kept_count = self.report.step_count - self.plan.step_count + self.plan.profiled_count
        try:
            if self._profile is not None and kept_count > 0:
                self._write_trace(self._profile, kept_count)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Take all hooks away and keep nothing; does nothing the second time."""
        if self.is_done:
            return
        self.is_done = True
        if self._step is not None:
            self._step.__exit__(None, None, None)
        if self._profile is not None:
            profile, self._profile = self._profile, None
            profile.abandon()
        self._phases.detach()
        for ranges in self._ranges:
            ranges.detach()
        for parts in self._parts:
            parts.detach()
        self._token_hook.remove()

    def _begin_measured(self) -> None:
        self._tokens.total = 0
        self._wait()
        memory.reset_peak(self._device)
        self._clock = StepClock(self._device)

    def _begin_ranged(self) -> None:
        if self._clock is not None:
            self.report.step_ns = self._clock.stop()
        self._token_hook.remove()
        self.report.token_count = self._tokens.total
        self.report.batch_size = self._tokens.batch_size
        self.report.sequence_length = self._tokens.sequence_length
        self.report.memory = memory.peak(self._device)
        self._describe()
        for parts in self._parts:
            parts.attach()
        for ranges in self._ranges:
            ranges.attach()
        self._phases.attach()
        self._wait()
        self._clock = StepClock(self._device)

    def _begin_profiled(self) -> None:
        self.report.ranges_step_ns = self._mean_step_ns()
        self._clock = None
        self._profile = Profile(
            self._folder / f"rank{self._place.rank}.json.gz",
            self._metadata(),
            warmup=PROFILER_WARMUP_COUNT,
            active=self.plan.profiled_count,
            record_shapes=self.plan.record_shapes,
            with_stack=self.plan.with_stack,
            profile_memory=self.plan.profile_memory,
            all_threads=self.plan.all_threads,
        )
        self._profile.begin()

    def _begin_kept(self) -> None:
        self._wait()
        self._clock = StepClock(self._device)

    def _write_trace(self, profile: Profile, kept_count: int) -> None:
        self.report.profiled_step_ns = self._mean_step_ns()
        self.report.profiled_count = kept_count
        self._profile = None
        profile.end()
        self.report.trace = profile.export().name
        if kept_count < self.plan.profiled_count:
            self.report.notes.append(
                f"the loop ended after {kept_count} of {self.plan.profiled_count} profiled steps"
            )

    def _mean_step_ns(self) -> int | None:
        times = self._clock.stop() if self._clock is not None else []
        return round(statistics.fmean(times)) if times else None

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _metadata(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "stage": self.plan.stage,
            "engine": self.report.engine,
            "model": self.report.model["name"],
            "batch_size": self.report.batch_size,
            "sequence_length": self.report.sequence_length,
            "precision": self.report.precision,
            "rank": self._place.rank,
            "world_size": self._place.world_size,
        }

    def _describe(self) -> None:
        """Note what runs here."""
        inner = unwrapped(self._model)
        total, trained = models.parameter_count(self._model)
        config: Any = getattr(inner, "config", None)
        self.report.model = {
            "name": self.plan.name or class_name(inner),
            "model_class": class_name(inner),
            "parameter_count": total,
            "trainable_parameter_count": trained,
            "layer_count": getattr(config, "num_hidden_layers", None),
            "config": config.to_diff_dict() if hasattr(config, "to_diff_dict") else {},
        }
        self.report.engine = _engine_of(self._model)
        self.report.precision = _precision_of(inner)
        self.report.attention_backend = getattr(config, "_attn_implementation", None)
        self.report.environment = dataclasses.asdict(probe())


class _TokenCounter:
    """Counts the tokens that a model is given to train on, where it is given tokens."""

    def __init__(self) -> None:
        self.total = 0
        self.batch_size: int | None = None
        self.sequence_length: int | None = None

    def count(
        self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> None:
        """Count those of one call for training."""
        # Without kwargs a hook before this one has removed it; torch calls it all the same.
        if kwargs is None or not (model.training and torch.is_grad_enabled()):
            return
        given: Any = (kwargs.get("input_ids"), *args)
        ids = next((one for one in given if _is_token_ids(one)), None)
        if ids is not None:
            self.total += ids.numel()
            self.batch_size, self.sequence_length = ids.shape


def _is_token_ids(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.ndim == 2
        and value.dtype in (torch.int32, torch.int64)
    )


def _device() -> torch.device:
    """Return where the steps compute; offloaded parameters do not tell."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _engine_of(model: nn.Module) -> str:
    """Return what the model is wrapped in, by the name of its class's package or its own."""
    kind = type(model)
    if hasattr(model, "backward") and hasattr(model, "step"):
        return kind.__module__.partition(".")[0]
    if kind is nn.parallel.DistributedDataParallel:
        return "ddp"
    if any(type(module).__mro__[1].__name__ == "FSDPModule" for module in model.modules()):
        return "fsdp2"
    return "fsdp1" if kind.__name__ == "FullyShardedDataParallel" else "torch"


def _precision_of(model: nn.Module) -> str | None:
    """Return the type in which the loop computes, as far as the model and autocast tell."""
    names = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
    kinds = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return names.get(kinds.pop()) if len(kinds) == 1 else None
