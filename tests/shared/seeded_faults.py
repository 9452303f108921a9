"""Programs with one random fault each, and the same programs without it."""

import random
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Fault:
    """A fault whose cause is known.

    Attributes:
        name: description of the fault.
        rule: the rule that must name it first; None without a fault.
        faulty: settings with the fault: knobs of a simulated machine, or `loops.Options`.
        healthy: settings without the fault.
        ranks: number of processes of a real loop.
        script: the loop, in `evaluations/predictions`; scripts other than loops.py have their own
            options.
        place: required end of the advice's location, if several causes have the same rule.
        is_asked: whether `healthy` also applies the change of the first advice.
    """

    name: str
    rule: str | None
    faulty: dict[str, Any] = field(default_factory=dict)
    healthy: dict[str, Any] = field(default_factory=dict)
    ranks: int = 1
    script: str = "loops.py"
    place: str = ""
    is_asked: bool = False


def simulated_faults(seed):
    """Return faults of the simulated machine, which has a device."""
    draw = random.Random(seed)
    near = draw.uniform

    def base(**knobs):
        return {
            "seed": draw.randrange(1_000),
            "steps": 5,
            "synchronise": "none",
            "gemm_ns": round(near(90_000, 160_000)),
            "python_ns": round(near(2_000, 5_000)),
            "load_ns": 5_000,
            "has_elementwise": False,
        } | knobs

    def fault(name, rule, shared, **wrong):
        return Fault(name, rule, shared | wrong, shared)

    four = {"ranks": 4}
    quick = {"gemm_ns": 20_000, "copy_ns": 2_000, "python_ns": round(near(1_000, 3_000))}
    slow = base(load_ns=round(near(4e6, 8e6)))
    short = base(gemm_ns=9_000)
    return [
        fault("item in each step", "advice_sync", base(**quick), item_every=1),
        fault("stream synchronised", "advice_sync", base(**quick), synchronise="stream"),
        fault("device synchronised", "advice_sync", base(**quick), synchronise="device"),
        fault("pageable batches", "advice_copies", base(batch_copy="pinned", copy_ns=30_000),
              batch_copy="pageable", copy_ns=round(near(3e5, 6e5))),
        Fault("loader without workers", "advice_loading", slow, slow | {"load_workers": 3}),
        Fault("slow launches", "advice_launch_bound", short | {"python_ns": 6_000},
              short | {"python_ns": 600, "op_ns": 300, "launch_call_ns": 300}),
        fault("no overlap", "advice_exposed_comm", base(**four, bandwidth_gb_per_s=30),
              overlaps=False),
        fault("one slow rank", "advice_slow_rank", base(**four), slow_rank=draw.randrange(4),
              slow_rank_factor=near(1.3, 2)),
        fault("one slow rank, clock offset", "advice_slow_rank",
              base(**four, clock_offset_ns=3_000_000), slow_rank=draw.randrange(4)),
    ]  # fmt: skip


def simulated_healthy(seed):
    """Return machines without a fault."""
    draw = random.Random(seed)
    base = {"synchronise": "none", "load_ns": 5_000, "steps": 5, "has_elementwise": False}
    return [
        Fault("device bound", None, base | {"seed": draw.randrange(1_000)}),
        Fault("long kernels", None, base | {"gemm_ns": round(draw.uniform(2e5, 4e5))}),
        Fault("graphs", None, base | {"has_graph": True, "seed": draw.randrange(1_000)}),
        Fault("workers", None, base | {"load_ns": 800_000, "load_workers": 2}),
        Fault("four ranks", None, base | {"ranks": 4, "seed": draw.randrange(1_000)}),
    ]
