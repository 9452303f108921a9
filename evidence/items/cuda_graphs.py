"""Replays of a CUDA graph: every kernel is there, linked, and in the phase of its launch."""

from __future__ import annotations

import tracekit
from evidence._records import Record
from evidence._setting import Setting
from evidence._trace_checks import check
from evidence.loops import small

_REPLAYS = 4


def run(setting: Setting, record: Record) -> None:
    """Capture forward and backward of a small decoder, replay it, and step its optimizer."""
    import torch

    from tracekit.collectors import ranges
    from tracekit.collectors.profiler.profile import Profile

    with record.case("replays") as case:
        model = small.decoder()
        optimizer = small.optimizer_of(model)
        ids = next(small.batches())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                optimizer.zero_grad(set_to_none=True)
                small.loss_of(model(ids), ids).backward()
                optimizer.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            small.loss_of(model(ids), ids).backward()
        path = setting.work_folder / "rank0.json.gz"
        with Profile(path, {"rank": 0, "world_size": 1}, active=_REPLAYS) as profile:
            for number in range(profile.step_count):
                with ranges.step(number):
                    with ranges.phase("forward"):
                        graph.replay()
                    with ranges.phase("optimizer"):
                        optimizer.step()
                profile.step()
        check(case, path, phases={"forward", "optimizer"}, has_cuda=True)
        with tracekit.open(path) as trace:
            launches = trace.sql(
                "SELECT count(*) AS n FROM runtime_calls WHERE name LIKE '%GraphLaunch%'"
            ).to_dicts()[0]["n"]
            counts = trace.sql(
                "SELECT count(*) AS n FROM device_events AS d JOIN runtime_calls AS l "
                "ON d.trace_id = l.trace_id AND d.correlation = l.correlation "
                "WHERE l.name LIKE '%GraphLaunch%' GROUP BY l.correlation"
            ).column("n")
            gaps = trace.query("idle_causes").to_dicts()
        case.claim("each replay is a launch", launches == _REPLAYS, launches, str(_REPLAYS))
        case.claim("each has the same kernels", len(set(counts)) == 1, sorted(set(counts)))
        case.figure(
            kernels_per_replay=counts[0] if counts else 0,
            idle_ns_by_cause={row["cause"]: row["idle_ns"] for row in gaps},
        )
