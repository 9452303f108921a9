"""Copies in a trace: bytes and bandwidth, held against CUDA events around the same copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tracekit
from evidence._records import Record, SkippedError
from evidence._setting import Setting

_BYTES = 1 << 28
_COUNT = 8
_TOLERANCE_PCT = 5.0
# Pageable memory is copied by way of a staging buffer, piece by piece: the trace has the pieces.
_CLAIMED = ("h2d pinned", "d2h pinned", "d2d")


def run(setting: Setting, record: Record) -> None:
    """Profile copies in every direction."""
    import torch

    from tracekit.collectors import ranges
    from tracekit.collectors.machine import accelerator
    from tracekit.collectors.profiler.profile import Profile

    has_cuda = setting.host.has_cuda
    device = torch.device("cuda", 0) if has_cuda else torch.device("cpu")
    size = _BYTES if has_cuda else 1 << 20
    on_device = torch.zeros(size, dtype=torch.uint8, device=device)
    other = torch.zeros(size, dtype=torch.uint8, device=device)
    pageable = torch.zeros(size, dtype=torch.uint8)
    pinned = pageable.pin_memory() if has_cuda else pageable
    copies: dict[str, tuple[str, Callable[[], Any]]] = {
        "h2d pinned": ("memcpy_h2d", lambda: on_device.copy_(pinned, non_blocking=True)),
        "h2d pageable": ("memcpy_h2d", lambda: on_device.copy_(pageable)),
        "d2h pinned": ("memcpy_d2h", lambda: pinned.copy_(on_device, non_blocking=True)),
        "d2h pageable": ("memcpy_d2h", lambda: pageable.copy_(on_device)),
        "d2d": ("memcpy_d2d", lambda: other.copy_(on_device)),
    }
    for name, (direction, copy) in copies.items():
        with record.case(name) as case:
            path = setting.work_folder / f"{name.replace(' ', '_')}.json.gz"
            with Profile(path, {"rank": 0, "world_size": 1}, active=1) as profile:
                for number in range(profile.step_count):
                    with ranges.step(number):
                        begin = accelerator.event(device)
                        for _ in range(_COUNT):
                            copy()
                        end = accelerator.event(device)
                        accelerator.synchronize(device)
                    profile.step()
            if not has_cuda:
                raise SkippedError("copies between host and device need a CUDA device")
            with tracekit.open(path, cache=False) as trace:
                rows = [
                    row for row in trace.query("memcpy").to_dicts() if row["direction"] == direction
                ]
            event_ns = begin.elapsed_time(end) * 1e6
            found = sum(row["bytes"] or 0 for row in rows)
            kernel_ns = sum(row["kernel_ns"] for row in rows)
            case.claim("the bytes are right", found == _COUNT * size, found, f"{_COUNT * size}")
            case.figure(
                kernel_ns=kernel_ns,
                event_ns=event_ns,
                bandwidth_bytes_per_s=found / kernel_ns * 1e9 if kernel_ns else None,
            )
            if name in _CLAIMED:
                case.claim_close("the time is right", kernel_ns, event_ns, _TOLERANCE_PCT)
