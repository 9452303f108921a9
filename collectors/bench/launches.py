"""Launch overhead of an empty kernel, a graph replay, a stream synchronization, and a small op."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .clock import Call
from .point import Point, UnsupportedError

if TYPE_CHECKING:
    import torch

IDLE = "idle"
AFTER_KERNEL = "after_kernel"
KERNELS = "kernels_"


@contextlib.contextmanager
def prepared(point: Point, device: torch.device) -> Iterator[Call]:
    if point.op == "op_call":
        yield _op_call(device)
    elif point.op == "empty_kernel":
        yield _empty_kernel()
    elif point.op == "graph_replay":
        yield _graph_replay(int((point.series or "").removeprefix(KERNELS)))
    else:
        yield _stream_sync(point, device)


def _op_call(device: torch.device) -> Call:
    import torch

    left, right, out = (torch.ones(1, device=device) for _ in range(3))
    return lambda: torch.add(left, right, out=out)


def _empty_kernel() -> Call:
    import torch

    sleep = getattr(torch.cuda, "_sleep", None)
    if sleep is None:
        raise UnsupportedError("this torch version has no empty kernel (torch.cuda._sleep)")
    return lambda: sleep(0)


def _graph_replay(kernel_count: int) -> Call:
    import torch

    launch = _empty_kernel()
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(kernel_count):
            launch()
    return graph.replay


def _stream_sync(point: Point, device: torch.device) -> Call:
    import torch

    stream = torch.cuda.current_stream(device)
    if point.series == IDLE:
        return stream.synchronize
    launch = _empty_kernel()

    def call() -> None:
        launch()
        stream.synchronize()

    return call
