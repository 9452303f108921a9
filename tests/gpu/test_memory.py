"""Peaks of memory and the allocator's events, compared with torch.cuda.memory_stats."""

import itertools

from devices import on_each_device

import tracekit

_CUDA_TYPE = 1


@on_each_device
def test_peaks_are_those_of_torch(trial):
    """The peaks are torch's to the byte; the allocator's events reach the same within 1 %."""
    import torch

    from tracekit.collectors.machine import memory

    is_cuda = trial.is_cuda
    train = trial.training_step()
    peak, stats = {}, {}
    numbers = itertools.count()

    def step():
        nonlocal peak, stats
        if next(numbers) == 1:  # the first that is recorded
            memory.reset_peak(trial.device)
        train()
        peak = memory.peak(trial.device)
        stats = torch.cuda.memory_stats() if is_cuda else {}

    path = trial.profile(step, warmup=1, active=2, profile_memory=True)
    with tracekit.open(path, cache=False) as trace:
        rows = trace.sql(
            "SELECT device_type, count(*) AS event_count, "
            "max(total_allocated_bytes) AS allocated_bytes FROM memory GROUP BY device_type"
        ).to_dicts()
    trial.figures(peak=peak, events=rows)
    trial.claim("the allocator's events are there", bool(rows), len(rows))
    if is_cuda:
        for kind in ("allocated", "reserved"):
            wanted, found = stats[f"{kind}_bytes.all.peak"], peak.get(f"device_{kind}_bytes")
            trial.claim(f"the {kind} peak is torch's", found == wanted, found, f"{wanted} bytes")
        (seen,) = (row["allocated_bytes"] for row in rows if row["device_type"] == _CUDA_TYPE)
        trial.claim_close("the events reach the same", seen, stats["allocated_bytes.all.peak"], 1.0)
