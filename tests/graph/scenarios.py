"""Changes of simulated machines whose truth is known: the same machine with other knobs, run again.

A change is written in the language of `tracekit predict --change`. What the words mean here:

- `class=… x0.5` and the like scale the time that the device needs for work; what waits for it is
  not scaled. Of a collective it is the transfer. `remove` takes the work and its launch away, and
  leaves the rest of the op: without its copy, `.item()` still synchronises.
- `op=… remove` takes the op away with all that it calls and launches, and leaves Python around it.
- `host` is all that threads of the host do themselves, the cost of calls too; it is neither loading
  nor a latency of the device. `python` is what of it lies outside of ops.
- `launches` is the cost of calls that put work on the device; the latency behind them stays.
- `sync remove`: calls that wait for the device return as if there was nothing to wait for; a full
  queue still holds the host back.
- `loading workers=n`: n workers make batches, each as long as the main thread needed for one; all
  begin with the program, and each is at most two batches ahead.
- `overlap`: the compute stream waits for communication only in front of the optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from simulated_machine import Simulation, simulate
from simulated_program import Machine

Knobs = Mapping[str, Any]


@dataclass(frozen=True)
class Scenario:
    """One change of one machine: knobs of the base and those that the change sets."""

    name: str
    base: str
    changed: Knobs
    changes: tuple[str, ...]

    @property
    def machine(self) -> Machine:
        return Machine(**BASES[self.base])

    def before(self) -> Simulation:
        return _simulated(self.machine)

    def after(self) -> Simulation:
        return _simulated(self.machine.changed(**self.changed))

    @property
    def true_ratio(self) -> float:
        """The window behind the change over that before it."""
        return self.after().window_ns / self.before().window_ns


@cache
def _simulated(machine: Machine) -> Simulation:
    return simulate(machine)


_SHORT_KERNELS: Knobs = {
    "gemm_ns": 9_000,
    "elementwise_ns": 2_000,
    "optimizer_ns": 3_000,
    "copy_ns": 4_000,
    "load_ns": 50_000,
}
_FREE_RUNNING: Knobs = {"synchronise": "none", "load_ns": 50_000}
_FOUR: Knobs = {"ranks": 4}

BASES: Mapping[str, Knobs] = {
    "device bound": {},
    "host bound": _SHORT_KERNELS,
    "one heavy step": {"heavy_step": 2},
    "free running": _FREE_RUNNING,
    "item in each step": {**_SHORT_KERNELS, "gemm_ns": 25_000, "item_every": 1},
    "item in every second step": {"gemm_ns": 60_000, "item_every": 2, "synchronise": "none"},
    "stream synchronised": {"synchronise": "stream", "python_ns": 8_000, "gemm_ns": 40_000},
    "event synchronised": {"synchronise": "event", "python_ns": 8_000, "gemm_ns": 40_000},
    "queue of 16": {**_FREE_RUNNING, "queue_depth": 16, "load_ns": 1_500_000, "steps": 6},
    "side stream": {"has_side_stream": True},
    "side stream without rows": {"has_side_stream": True, "has_event_rows": False},
    "side stream, host bound": {**_SHORT_KERNELS, "gemm_ns": 14_000, "has_side_stream": True},
    "graphs": {**_SHORT_KERNELS, "has_graph": True},
    "slow loader": {"load_ns": 3_000_000, "steps": 6},
    "two workers": {"load_ns": 9_000_000, "load_workers": 2, "steps": 8},
    "pageable batches": {"batch_copy": "pageable", "copy_ns": 300_000, "gemm_ns": 60_000},
    "Python rows": {"has_python_rows": True, "python_ns": 9_000, "gemm_ns": 50_000},
    "four ranks": _FOUR,
    "four ranks, slow links": {**_FOUR, "bandwidth_gb_per_s": 16},
    "four ranks, high latency": {**_FOUR, "collective_latency_ns": 400_000, "bucket_bytes": 4_000},
    "four ranks, nothing hidden": {**_FOUR, "overlaps": False, "bandwidth_gb_per_s": 40},
    "four ranks without rows": {**_FOUR, "has_event_rows": False, "bandwidth_gb_per_s": 25},
    "four ranks without event calls": {
        **_FOUR,
        "has_event_rows": False,
        "has_event_calls": False,
        "bandwidth_gb_per_s": 25,
    },
    "four ranks, one slow": {**_FOUR, "slow_rank": 2},
    "four ranks, contention": {**_FOUR, "contention_pct": 30, "bandwidth_gb_per_s": 40},
    "four ranks, graphs": {**_FOUR, "has_graph": True, "bandwidth_gb_per_s": 40},
    "four ranks, clocks apart": {**_FOUR, "clock_offset_ns": 5_000_000, "slow_rank": 3},
}
"""The machines, by name."""

_HOST_KNOBS = ("python_ns", "op_ns", "launch_call_ns", "event_call_ns", "sync_call_ns")


def _scaled(base: str, factor: float, *knobs: str) -> Knobs:
    machine = Machine(**BASES[base])
    return {knob: type(getattr(machine, knob))(getattr(machine, knob) * factor) for knob in knobs}


def _times(name: str, base: str, factor: float) -> Knobs:
    """Return the knobs that a change by a factor sets."""
    match name:
        case "step=2 class=gemm":
            return {"heavy_step": 0}
        case "class=gemm" | "class=elementwise":
            return _scaled(base, factor, f"{name.removeprefix('class=')}_ns")
        case "name=*CUDAFunctor_add*":
            return _scaled(base, factor, "elementwise_ns")
        case (
            "phase=optimizer kind=compute"
            | "op=aten::_fused_adamw_ kind=compute"
            | "class=optimizer"
        ):
            return _scaled(base, factor, "optimizer_ns")
        case "module=*.mlp class=gemm":
            return {"mlp_gemm_factor": factor}
        case "stream=24 class=gemm":
            return {"side_gemm_factor": factor}
        case "kind=compute":
            return _scaled(base, factor, "gemm_ns", "elementwise_ns", "optimizer_ns")
        case "class=memcpy_h2d":
            return _scaled(base, factor, "copy_ns")
        case "rank=2 kind=compute" | "device=2 kind=compute":
            return _scaled(base, factor, "slow_rank_factor")
        case "kind=comm" | "class=comm_allreduce" | "stream=20 kind=comm":
            return {**_times("bandwidth", base, 1 / factor), **_times("latency", base, factor)}
        case "bandwidth":
            return _scaled(base, factor, "bandwidth_gb_per_s")
        case "latency":
            return _scaled(base, factor, "collective_latency_ns")
        case "host":
            return _scaled(base, factor, *_HOST_KNOBS, "handover_ns")
        case "python":
            return _scaled(base, factor, "python_ns")
        case "launches":
            return _scaled(base, factor, "launch_call_ns")
        case "loading":
            return _scaled(base, factor, "load_ns", "batch_take_ns")
    raise ValueError(name)


def _changed(base: str, change: str) -> Knobs:
    """Return the knobs that a change sets."""
    match change:
        case "class=elementwise remove":
            return {"has_elementwise": False}
        case "class=memcpy_h2d remove":
            return {"batch_copy": "none"}
        case "op=aten::item remove":
            return {"has_item": False}
        case "class=memcpy_d2h remove":
            return {"has_item_copy": False}
        case "sync remove":
            return {"host_waits": False}
        case "overlap":
            return {"overlaps": True}
        case "recompute on module=layers.*":
            return {"recomputes": True}
        case "ranks=median":
            return {"slow_rank": -1}
        case "launches remove" | "loading remove" | "python remove":
            return _times(change.removesuffix(" remove"), base, 0)
    what, _, action = change.rpartition(" ")
    if action.startswith("workers="):
        return {"load_workers": int(action.removeprefix("workers="))}
    return _times(what, base, float(action.removeprefix("x")))


# Each change on one machine, and each machine with a change at least.
_CHANGES: Mapping[str, tuple[str, ...]] = {
    "device bound": (
        "class=gemm x0.5", "class=gemm x2", "class=elementwise remove", "host x0.5", "host x3",
        "loading remove", "sync remove", "name=*CUDAFunctor_add* x3",
        "phase=optimizer kind=compute x0.5", "module=*.mlp class=gemm x0.5",
        "op=aten::_fused_adamw_ kind=compute x0.5", "class=memcpy_h2d remove",
        "class=gemm x0.5; host x0.5", "recompute on module=layers.*",
    ),
    "host bound": (
        "class=gemm x0.5", "host x2", "python remove", "python x0.5", "launches remove",
        "launches x0.5", "kind=compute x3",
    ),
    "one heavy step": ("step=2 class=gemm x0.5",),
    "free running": ("class=gemm x0.5", "host x4", "class=optimizer x4"),
    "item in each step": (
        "op=aten::item remove", "class=memcpy_d2h remove", "op=aten::item remove; sync remove",
    ),
    "item in every second step": ("op=aten::item remove", "python x3"),
    "stream synchronised": ("sync remove",),
    "event synchronised": ("sync remove",),
    "queue of 16": ("loading remove", "loading x0.5"),
    "side stream": ("class=gemm x0.5", "stream=24 class=gemm x3", "stream=24 class=gemm x0.5"),
    "side stream without rows": ("class=gemm x0.5",),
    "side stream, host bound": ("class=gemm x0.5", "class=gemm x3"),
    "graphs": ("class=gemm x0.5",),
    "slow loader": (
        "loading remove", "loading workers=1", "loading workers=2",
        "loading workers=4; class=gemm x0.5",
    ),
    "two workers": ("loading remove",),
    "pageable batches": ("class=memcpy_h2d remove", "class=memcpy_h2d x0.5"),
    "Python rows": ("python x0.5",),
    "four ranks": ("class=gemm x0.5", "bandwidth x0.25", "kind=comm x0.5"),
    "four ranks, slow links": (
        "bandwidth x2", "bandwidth x4", "latency x0.5", "kind=comm x2", "stream=20 kind=comm x0.5",
    ),
    "four ranks, high latency": ("latency x0.5", "class=comm_allreduce x0.5"),
    "four ranks, nothing hidden": ("overlap", "overlap; bandwidth x0.5"),
    "four ranks without rows": ("bandwidth x2",),
    "four ranks without event calls": ("bandwidth x2",),
    "four ranks, one slow": (
        "ranks=median", "rank=2 kind=compute x0.5", "device=2 kind=compute x0.5",
        "kind=compute x0.5",
    ),
    "four ranks, contention": ("bandwidth x2", "class=gemm x0.5", "kind=comm x2"),
    "four ranks, clocks apart": ("ranks=median",),
}  # fmt: skip


def _scenario(base: str, change: str) -> Scenario:
    changes = tuple(change.split("; "))
    changed: dict[str, Any] = {}
    for single in changes:
        changed |= _changed(base, single)
    return Scenario(f"{base}: {change}", base, changed, changes)


SCENARIOS = tuple(
    _scenario(base, change) for base, changes in _CHANGES.items() for change in changes
)
"""All of them."""
