"""Changes of six simulated machines. The ground truth is a simulation with other knobs.

Changes use the syntax of `tracekit predict --change`. `class=… x0.5` scales device work without
waits; for a collective, the transfer. `host` is the time of host threads, including calls; `python`
is its part outside ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from simulated_machine import simulate
from simulated_program import Machine

_SHORT = {"gemm_ns": 9_000, "elementwise_ns": 2_000, "optimizer_ns": 3_000}
_FOUR = {"ranks": 4}
BASES = {
    "device bound": {},
    "host bound": {**_SHORT, "copy_ns": 4_000, "load_ns": 50_000},
    "side stream": {"has_side_stream": True, "has_event_rows": False},
    "slow loader": {"load_ns": 3_000_000, "steps": 6},
    "four ranks, one slow": {**_FOUR, "slow_rank": 2, "clock_offset_ns": 5_000_000},
    "four ranks, contention": {**_FOUR, "contention_pct": 30, "bandwidth_gb_per_s": 40},
}
"""The machines, by name."""

_HOST = ("python_ns", "op_ns", "launch_call_ns", "event_call_ns", "sync_call_ns", "handover_ns")
_COMPUTE = ("gemm_ns", "elementwise_ns", "optimizer_ns")


@dataclass(frozen=True)
class Scenario:
    """One change of one machine, and the knobs that it sets."""

    base: str
    change: str
    changed: Mapping

    @property
    def name(self):
        return f"{self.base}: {self.change}"

    @property
    def true_ratio(self):
        """The window after the change over that before it."""
        machine = Machine(**BASES[self.base])
        return simulated(machine.changed(**self.changed)).window_ns / simulated(machine).window_ns


@cache
def simulated(machine):
    return simulate(machine)


def _scenario(base, change, *scaled, factor=0.5, **knobs):
    machine = Machine(**BASES[base])
    times = {knob: getattr(machine, knob) for knob in scaled}
    return Scenario(base, change, knobs | {k: type(v)(v * factor) for k, v in times.items()})


SCENARIOS = (
    _scenario("device bound", "class=gemm x0.5", "gemm_ns"),
    _scenario("device bound", "host x3", *_HOST, factor=3),
    _scenario("device bound", "class=elementwise remove", has_elementwise=False),
    _scenario("device bound", "sync remove", host_waits=False),
    _scenario("device bound", "class=memcpy_h2d remove", batch_copy="none"),
    _scenario("device bound", "op=aten::_fused_adamw_ kind=compute x0.5", "optimizer_ns"),
    _scenario("host bound", "class=gemm x0.5", "gemm_ns"),
    _scenario("host bound", "python remove", "python_ns", factor=0),
    _scenario("host bound", "launches x0.5", "launch_call_ns"),
    _scenario("host bound", "kind=compute x3", *_COMPUTE, factor=3),
    _scenario("side stream", "class=gemm x0.5", "gemm_ns"),
    _scenario("slow loader", "loading remove", "load_ns", "batch_take_ns", factor=0),
    _scenario("slow loader", "loading workers=2", load_workers=2),
    _scenario("four ranks, one slow", "ranks=median", slow_rank=-1),
    _scenario("four ranks, one slow", "rank=2 kind=compute x0.5", "slow_rank_factor"),
    _scenario("four ranks, one slow", "kind=compute x0.5", *_COMPUTE),
    _scenario("four ranks, contention", "class=gemm x0.5", "gemm_ns"),
    _scenario("four ranks, contention", "bandwidth x2", "bandwidth_gb_per_s", factor=2),
    _scenario("four ranks, contention", "latency x0.5", "collective_latency_ns"),
)
"""All of them."""
