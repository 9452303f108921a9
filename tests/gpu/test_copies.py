"""Copies in a trace: bytes and bandwidth, compared with CUDA events around the same copies."""

import pytest
from devices import each

import tracekit

_BYTES = 1 << 28
# Copies within a device take 0.1 ms each: of few, the gaps between them count.
_COUNTS = {"d2d": 64}
_USUAL_COUNT = 8
_TOLERANCE_PCT = 5.0
# By name: the direction; and whether source and target on the host are pinned.
_COPIES = {
    "h2d pinned": ("memcpy_h2d", True),
    "h2d pageable": ("memcpy_h2d", False),
    "d2h pinned": ("memcpy_d2h", True),
    "d2h pageable": ("memcpy_d2h", False),
    "d2d": ("memcpy_d2d", True),
}


@pytest.mark.alone
@each("name", _COPIES, on_cpu=["d2d"])
def test_bytes_and_times_of_copies(name, trial):
    """Bytes are equal, and times are within 5 % of CUDA events.

    Pageable memory is copied in parts via a staging buffer, and the trace contains the parts, so
    their times are not checked. On a CPU, there are no copies between host and device.
    """
    import torch

    from tracekit.collectors.machine import accelerator

    direction, is_pinned = _COPIES[name]
    is_cuda = trial.is_cuda
    size = _BYTES if is_cuda else 1 << 20
    on_device = torch.zeros(size, dtype=torch.uint8, device=trial.device)
    if direction == "memcpy_d2d":
        other = torch.zeros_like(on_device)
    else:
        other = torch.zeros(size, dtype=torch.uint8, pin_memory=is_pinned and is_cuda)
    source, target = (other, on_device) if direction == "memcpy_h2d" else (on_device, other)
    events = []
    count = _COUNTS.get(name, _USUAL_COUNT)

    def step():
        events[:] = [accelerator.event(trial.device)]
        for _ in range(count):
            target.copy_(source, non_blocking=is_pinned)
        events.append(accelerator.event(trial.device))
        accelerator.synchronize(trial.device)

    with tracekit.open(trial.profile(step, active=1), cache=False) as trace:
        found = [row for row in trace.query("memcpy").to_dicts() if row["direction"] == direction]
    if not is_cuda:
        trial.claim("there is no copy of a device", not found, found)
        return
    event_ns = events[0].elapsed_time(events[1]) * 1e6
    copied = sum(row["bytes"] or 0 for row in found)
    kernel_ns = sum(row["kernel_ns"] for row in found)
    trial.claim("the bytes are right", copied == count * size, copied, f"{count * size}")
    trial.figures(
        kernel_ns=kernel_ns,
        event_ns=event_ns,
        bandwidth_bytes_per_s=copied / kernel_ns * 1e9 if kernel_ns else None,
    )
    if is_pinned:
        trial.claim_close("the time is right", kernel_ns, event_ns, _TOLERANCE_PCT)
