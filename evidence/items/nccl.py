"""Collectives of one rank: what the trace tells of them, and what tracekit makes of it.

One rank has nothing to send: NCCL may launch a copy, or nothing at all. What is told in the
arguments of each call is the same as with many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tracekit
from evidence._records import Case, Record
from evidence._setting import Setting

_COUNT = 1 << 20
_ELEMENT_BYTES = 4
# With one rank, each collective's message has as many elements as its input.
_CLASSES = {
    "all_reduce": "comm_allreduce",
    "all_gather": "comm_allgather",
    "reduce_scatter": "comm_reducescatter",
    "broadcast": "comm_broadcast",
    "all_to_all": "comm_alltoall",
}
_STEPS = 2


def run(setting: Setting, record: Record) -> None:
    """Profile each collective."""
    import torch
    import torch.distributed as dist

    from tracekit.collectors import ranges
    from tracekit.collectors.profiler.profile import Profile

    device = torch.device("cuda", 0) if setting.host.has_cuda else torch.device("cpu")
    if setting.host.has_cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if setting.host.has_cuda else "gloo",
        init_method=f"file://{setting.work_folder}/store",
        rank=0,
        world_size=1,
        device_id=device if setting.host.has_cuda else None,
    )
    given, taken = torch.ones(_COUNT, device=device), torch.empty(_COUNT, device=device)
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: dist.all_reduce(given),
        "all_gather": lambda: dist.all_gather_into_tensor(taken, given),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(taken, given),
        "broadcast": lambda: dist.broadcast(given, 0),
        "all_to_all": lambda: dist.all_to_all_single(taken, given),
    }
    for name, call in calls.items():
        with record.case(name) as case:
            path = setting.work_folder / f"{name}.json.gz"
            metadata = {"rank": 0, "world_size": 1}
            with Profile(path, metadata, warmup=1, active=_STEPS) as profile:
                for number in range(profile.step_count):
                    with ranges.step(number), ranges.phase("forward"):
                        call()
                    profile.step()
            _check(case, name, path, has_cuda=setting.host.has_cuda)
    dist.destroy_process_group()


def _check(case: Case, name: str, path: Any, *, has_cuda: bool) -> None:
    with tracekit.open(path, cache=False) as trace:
        told = trace.sql(
            "SELECT args ->> '$.\"Collective name\"' AS collective, "
            "args ->> '$.\"In msg nelems\"' AS element_count, args ->> '$.dtype' AS dtype "
            "FROM event WHERE name = 'record_param_comms' "
            # Waiting for a collective is told as one of its own, of no elements.
            "AND coalesce(args ->> '$.\"Collective name\"', '') NOT IN ('wait', 'barrier')"
        ).to_dicts()
        rows = trace.query("collectives").to_dicts()
        kernels = {row["name"]: row["kernel_count"] for row in trace.query("kernels").to_dicts()}
    case.figure(
        told_by_the_call=told[:1],
        collectives=[
            {key: row[key] for key in ("class", "collective", "message_bytes", "dur_ns", "reason")}
            for row in rows[:2]
        ],
        device_events=kernels,
    )
    if has_cuda:
        case.claim("each call tells its arguments", len(told) >= _STEPS, len(told), f"{_STEPS}")
        counts = {row["element_count"] for row in told}
        case.claim("and its size", counts == {str(_COUNT)}, counts, str(_COUNT))
    else:
        case.claim("each call is a collective", len(rows) >= _STEPS, len(rows), f"{_STEPS}")
    classes = {row["class"] for row in rows}
    case.claim("the class is right", classes <= {_CLASSES[name]}, classes, _CLASSES[name])
    sizes = {row["message_bytes"] for row in rows} - {None}
    wanted = _COUNT * _ELEMENT_BYTES
    case.claim("the message is right", sizes <= {wanted}, sizes, f"{wanted} bytes")
