"""Replays of a CUDA graph: every kernel is recorded, linked, and in the phase of its launch."""

from devices import on_gpu
from trace_claims import claim_trace

import tracekit

_REPLAYS = 4
_LAUNCHES = "SELECT count(*) AS n FROM runtime_calls WHERE name LIKE '%GraphLaunch%'"
_KERNELS = """
    SELECT count(*) AS n
    FROM device_events AS d
    INNER JOIN runtime_calls AS l ON d.trace_id = l.trace_id AND d.correlation = l.correlation
    WHERE l.name LIKE '%GraphLaunch%'
    GROUP BY l.correlation
"""


@on_gpu
def test_each_replay_is_one_launch(trial):
    """Forward and backward of a decoder are captured: a replay is a launch of the same kernels."""
    import tiny
    import torch

    from tracekit.collectors import ranges

    model = tiny.decoder(512).to(trial.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = next(tiny.batches()).to(trial.device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            tiny.loss_of(model(ids), ids).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        tiny.loss_of(model(ids), ids).backward()

    def step():
        with ranges.phase("forward"):
            graph.replay()
        with ranges.phase("optimizer"):
            optimizer.step()

    path = trial.profile(step, active=_REPLAYS)
    # Without annotations, the module of a replayed kernel is unknown.
    phases = {"forward", "optimizer"}
    claim_trace(trial, path, phases=phases, unattributed_at_most_pct=100.0)
    with tracekit.open(path, cache=False) as trace:
        launches = trace.sql(_LAUNCHES).to_dicts()[0]["n"]
        counts = trace.sql(_KERNELS).column("n")
        causes = {row["cause"]: row["idle_ns"] for row in trace.query("idle_causes").to_dicts()}
    trial.claim("each replay is a launch", launches == _REPLAYS, launches, str(_REPLAYS))
    trial.claim("each has the same kernels", len(set(counts)) == 1, sorted(set(counts)))
    trial.figures(kernels_per_replay=counts[0] if counts else 0, idle_ns_by_cause=causes)
