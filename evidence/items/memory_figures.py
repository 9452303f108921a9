"""Peaks of memory and the allocator's events, held against torch.cuda.memory_stats."""

from __future__ import annotations

import tracekit
from evidence._records import Record, SkippedError
from evidence._setting import Setting
from evidence.loops import small

_CUDA_TYPE = 1


def run(setting: Setting, record: Record) -> None:
    """Train a small decoder with the allocator's events on."""
    import torch

    from tracekit.collectors import ranges
    from tracekit.collectors.machine import memory
    from tracekit.collectors.profiler.profile import Profile

    device = torch.device("cuda", 0) if setting.host.has_cuda else torch.device("cpu")
    with record.case("peak and events") as case:
        model = small.decoder()
        optimizer = small.optimizer_of(model)
        path = setting.work_folder / "rank0.json.gz"
        with Profile(
            path, {"rank": 0, "world_size": 1}, warmup=1, active=2, profile_memory=True
        ) as profile:
            for number, ids in zip(range(profile.step_count), small.batches(), strict=False):
                if number == 1:
                    memory.reset_peak(device)
                with ranges.step(number):
                    small.loss_of(model(ids), ids).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                if number == profile.step_count - 1:
                    peak = memory.peak(device)
                    stats = torch.cuda.memory_stats() if setting.host.has_cuda else {}
                profile.step()
        with tracekit.open(path, cache=False) as trace:
            rows = trace.sql(
                "SELECT device_type, count(*) AS event_count, "
                "max(total_allocated_bytes) AS allocated_bytes, "
                "max(total_reserved_bytes) AS reserved_bytes FROM memory GROUP BY device_type"
            ).to_dicts()
        by_type = {row["device_type"]: row for row in rows}
        case.figure(peak=peak, events={str(key): row for key, row in by_type.items()})
        case.claim("the allocator's events are there", bool(rows), len(rows))
        if not setting.host.has_cuda:
            raise SkippedError("torch.cuda.memory_stats needs a CUDA device")
        allocated = stats["allocated_bytes.all.peak"]
        reserved = stats["reserved_bytes.all.peak"]
        is_same = peak.get("device_allocated_bytes") == allocated
        case.claim("the peak is torch's", is_same, peak, f"{allocated} bytes")
        is_same = peak.get("device_reserved_bytes") == reserved
        case.claim("the reserved peak is torch's", is_same, peak, f"{reserved} bytes")
        seen = by_type[_CUDA_TYPE]["allocated_bytes"]
        case.claim_close("the events reach the same peak", seen, allocated, 1.0)
