"""Collectives of one rank: their arguments in the trace, and tracekit's interpretation.

With one rank, NCCL may launch a copy or nothing. The arguments of each call are the same as with
many ranks.
"""

import pytest
from devices import each

import tracekit

_COUNT = 1 << 20
_ELEMENT_BYTES = 4
_STEPS = 2
# With one rank, each collective's message has as many elements as its input.
_CLASSES = {
    "all_reduce": "comm_allreduce",
    "all_gather": "comm_allgather",
    "reduce_scatter": "comm_reducescatter",
    "broadcast": "comm_broadcast",
    "all_to_all": "comm_alltoall",
}
# Waiting for a collective is recorded as a separate collective without elements.
_ARGUMENTS = """
    SELECT
        args ->> '$."Collective name"' AS collective,
        args ->> '$."In msg nelems"' AS element_count
    FROM event
    WHERE name = 'record_param_comms'
        AND coalesce(args ->> '$."Collective name"', '') NOT IN ('wait', 'barrier')
"""


@pytest.fixture
def calls(trial):
    """Return the collectives by name, in a process group of one rank."""
    import torch
    import torch.distributed as dist

    device = trial.device
    own = {"device_id": device} if trial.is_cuda else {}
    if trial.is_cuda:
        torch.cuda.set_device(device)
    store, backend = f"file://{trial.work}/store", "nccl" if trial.is_cuda else "gloo"
    dist.init_process_group(backend, init_method=store, rank=0, world_size=1, **own)
    given, taken = torch.ones(_COUNT, device=device), torch.empty(_COUNT, device=device)
    yield {
        "all_reduce": lambda: dist.all_reduce(given),
        "all_gather": lambda: dist.all_gather_into_tensor(taken, given),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(taken, given),
        "broadcast": lambda: dist.broadcast(given, 0),
        "all_to_all": lambda: dist.all_to_all_single(taken, given),
    }
    dist.destroy_process_group()


@each("name", _CLASSES, on_cpu=list(_CLASSES))
def test_a_collective_has_its_arguments(name, trial, calls):
    """Each call has a name and a size; class and message bytes are correct."""
    with tracekit.open(trial.profile(calls[name], warmup=1, active=_STEPS), cache=False) as trace:
        call_rows = trace.sql(_ARGUMENTS).to_dicts()
        rows = trace.query("collectives").to_dicts()
        kernels = {row["name"]: row["kernel_count"] for row in trace.query("kernels").to_dicts()}
    trial.figures(call_arguments=call_rows[:1], collectives=rows[:2], device_events=kernels)
    if trial.is_cuda:
        trial.claim(
            "each call tells its arguments", len(call_rows) >= _STEPS, len(call_rows), f"{_STEPS}"
        )
        counts = {row["element_count"] for row in call_rows}
        trial.claim("and its size", counts == {str(_COUNT)}, counts, str(_COUNT))
    else:
        trial.claim("each call is a collective", len(rows) >= _STEPS, len(rows), f"{_STEPS}")
    classes = {row["class"] for row in rows}
    trial.claim("the class is right", classes <= {_CLASSES[name]}, classes, _CLASSES[name])
    sizes = {row["message_bytes"] for row in rows} - {None}
    wanted = _COUNT * _ELEMENT_BYTES
    trial.claim("the message is right", sizes <= {wanted}, sizes, f"{wanted} bytes")
