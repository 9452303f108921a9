"""The events of a simulated rank: ranges, calls, and kernels."""

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from made_runs.files import collective_kernel, us
from made_runs.simulation import Done
from made_runs.step import Work

# The host is ahead of the kernels that it launches by at least their duration.
_OP_NS, _CALL_NS, _CALL_END_NS, _OP_END_NS = 8_000, 6_000, 4_000, 2_000
LEAD_NS = 10_000
"""Time from the begin of a host range to its first kernel, ns."""

_KERNEL_NAMES = {
    "optimizer": "void at::native::multi_tensor_apply_kernel<Adam>",
    "late": "void at::native::elementwise_kernel<late>",
}
_GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"


def events(
    done: Sequence[Done], step_starts_ns: Sequence[int], clock_ns: int, device: int
) -> Iterator[str]:
    """Yield the events of a rank as JSON.

    Args:
        done: its ops in order.
        step_starts_ns: starts of its steps, and the end of the last one, ns.
        clock_ns: how far its clock is ahead, ns.
        device: the number of its device on its node.
    """
    for number, (start, end) in enumerate(pairwise(step_starts_ns)):
        yield _range(f"ProfilerStep#{number}", start - LEAD_NS, end - LEAD_NS, clock_ns)
    yield from _phases(done, step_starts_ns, clock_ns)
    correlation = 0
    for one in done:
        op = one.op
        if isinstance(op, Work):
            count = op.kernel_count
            dur_ns = one.end_ns - one.start_ns
            name, args = _KERNEL_NAMES.get(op.name, _GEMM), ""
            cuts = [one.start_ns + dur_ns * place // count for place in range(count + 1)]
        else:
            name, args = _kernel_text(one)
            cuts = [one.start_ns, one.end_ns]
        for start, end in pairwise(cuts):
            correlation += 1
            at = start + clock_ns
            host = "aten::mm" if isinstance(op, Work) else "c10d::collective"
            yield (
                f'{{"ph": "X", "cat": "cpu_op", "name": "{host}", "pid": 7, "tid": 7, '
                f'"ts": {us(at - _OP_NS)}, "dur": {us(_OP_NS - _OP_END_NS)}, '
                f'"args": {{"External id": {correlation}}}}}'
            )
            yield (
                '{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, '
                f'"tid": 7, "ts": {us(at - _CALL_NS)}, "dur": {us(_CALL_NS - _CALL_END_NS)}, '
                f'"args": {{"correlation": {correlation}, "External id": {correlation}}}}}'
            )
            yield (
                f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": {device}, "tid": 7, '
                f'"ts": {us(at)}, "dur": {us(end - start)}, "args": {{"device": {device}, '
                f'"stream": 7, "correlation": {correlation}, "External id": {correlation}{args}}}}}'
            )


def _kernel_text(one: Done) -> tuple[str, str]:
    name, told = collective_kernel(one)
    text = "".join(f', "{key}": {_text(value)}' for key, value in told.items())
    return name, text


@lru_cache(maxsize=100_000)
def _text(value: object) -> str:
    return json.dumps(value)


def _phases(done: Sequence[Done], step_starts_ns: Sequence[int], clock_ns: int) -> Iterator[str]:
    """Yield a range for each sequence of ops of one phase within a step."""
    bounds = iter(step_starts_ns[1:])
    step_end = next(bounds, None)
    phase, begun = None, 0
    for one in done:
        start = one.start_ns
        changed = one.op.phase != phase
        while step_end is not None and start >= step_end:
            changed, step_end = True, next(bounds, None)
        if changed:
            if phase is not None:
                yield _phase(phase, begun, start, clock_ns)
            phase, begun = one.op.phase, start
    if phase is not None:
        yield _phase(phase, begun, done[-1].end_ns, clock_ns)


def _phase(phase: str, start_ns: int, end_ns: int, clock_ns: int) -> str:
    return _range(f"tk/phase/{phase}", start_ns - LEAD_NS, end_ns - LEAD_NS, clock_ns)


def _range(name: str, start_ns: int, end_ns: int, clock_ns: int) -> str:
    return (
        f'{{"ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 7, "tid": 7, '
        f'"ts": {us(start_ns + clock_ns)}, "dur": {us(end_ns - start_ns)}}}'
    )
