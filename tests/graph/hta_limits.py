"""Traces of a few events in which a critical path without sound edges goes wrong.

Each is one of the limits that HTA 0.6's critical path has. Times are µs, and the same everywhere:
an op takes 10, its launch call is from 2 to 6 of it, and work begins on an idle stream 6 after the
call did. Queued work begins 1 after the work before it, a stream that waits 2 after the event, and
a call that waits returns 3 after what it waited for. What takes longer than that is the point.

A path begins where the first device event does and ends with the last one. Its pieces follow each
other without a gap: `(host)` is time of a thread outside of ops, which nothing recorded; the time
from the start of a launch to its work has the name of the call, that from an event to the work that
waited for it has the name of the wait, and that between queued work is `(stream)`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traces_by_hand import Event, call, kernel, span

ALL_REDUCE = "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)"


@dataclass(frozen=True)
class Piece:
    """A stretch of the path, µs; `rank` of the one that it is on."""

    name: str
    start: float
    end: float
    rank: int = 0


@dataclass(frozen=True)
class HandMade:
    """The events of each rank, and the path that a person finds in them."""

    name: str
    ranks: Sequence[Sequence[Event]]
    path: Sequence[Piece]

    @property
    def window_ns(self) -> int:
        return round(sum(piece.end - piece.start for piece in self.path) * 1000)

    def write(self, folder: Path) -> list[Path]:
        """Write the traces of all ranks into a folder; return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for rank, events in enumerate(self.ranks):
            info = {"rank": rank, "world_size": len(self.ranks), "backend": "nccl"}
            files.append(folder / f"rank{rank}.json")
            document = {"distributedInfo": info, "traceEvents": list(events)}
            files[-1].write_text(json.dumps(document), encoding="utf-8")
        return files


def op(
    name: str, at: float, work: str, start: float, end: float, number: int, **place: Any
) -> list[Event]:
    """Return an op that launches one kernel or copy."""
    copies = work.startswith("Memcpy")
    launch = place.pop("launch", "cudaMemcpyAsync" if copies else "cudaLaunchKernel")
    return [
        span("cpu_op", name, at, at + 10, **{"External id": number}),
        call(at + 2, at + 6, number, launch),
        kernel(work, start, end, number, **place),
    ]


def recorded(at: float, number: int) -> Event:
    return call(at, at + 1, number, "cudaEventRecord")


def stream_wait(at: float, number: int, stream: int, on: int, record: int) -> list[Event]:
    """Return the call by which a stream waits for another one, and Kineto's row beside it."""
    said = {
        "cuda_sync_kind": "Stream Wait Event",
        "stream": stream,
        "wait_on_stream": on,
        "wait_on_cuda_event_record_corr_id": record,
        "wait_on_cuda_event_id": record,
        "correlation": number,
        "device": 0,
    }
    row = span("cuda_sync", "Stream Wait Event", at, at + 1, stream, pid=0, **said)
    return [call(at, at + 1, number, "cudaStreamWaitEvent"), row]


def all_reduce(at: float, start: float, end: float, number: int, device: int) -> list[Event]:
    said = {
        "Collective name": "allreduce",
        "In msg nelems": 1024,
        "Out msg nelems": 1024,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
        "Seq": 1,
    }
    launch = "hipExtLaunchKernel"
    return op(
        "c10d::allreduce_", at, ALL_REDUCE, start, end, number, device=device, launch=launch, **said
    )


# 1. Python between two ops keeps the device idle. HTA gives gaps between top-level ops no weight:
#    100 µs of the window's 140 are missing.
HOST_GAP = HandMade(
    "host gap between ops",
    [[*op("aten::mm", 0, "gemm_a", 8, 18, 1), *op("aten::add", 110, "gemm_b", 118, 148, 2)]],
    [
        Piece("aten::mm", 8, 10),
        Piece("(host)", 10, 110),
        Piece("aten::add", 110, 112),
        Piece("cudaLaunchKernel", 112, 118),
        Piece("gemm_b", 118, 148),
    ],
)

# 2. A copy from pinned memory and a query for an event hold nobody: while the copy runs, the host
#    has launched all else. In HTA both calls wait for the device.
ASYNCHRONOUS_COPY = HandMade(
    "copy and query that do not wait",
    [
        [
            *op("aten::copy_", 0, "Memcpy HtoD (Pinned -> Device)", 8, 108, 1, stream=9),
            *op("aten::mm", 10, "gemm_a", 18, 68, 2),
            call(20, 22, 3, "cudaEventQuery"),
            *op("aten::mm", 22, "gemm_b", 69, 169, 4),
        ]
    ],
    [
        Piece("aten::copy_", 8, 10),
        Piece("aten::mm", 10, 12),
        Piece("cudaLaunchKernel", 12, 18),
        Piece("gemm_a", 18, 68),
        Piece("(stream)", 68, 69),
        Piece("gemm_b", 69, 169),
    ],
)

#    A copy to pageable memory does hold its call, behind all work of its stream; in HTA the wait
#    weighs nothing.
BLOCKING_COPY = HandMade(
    "copy that waits",
    [
        [
            *op("aten::mm", 0, "gemm_a", 8, 108, 1),
            span("cpu_op", "aten::item", 10, 118, **{"External id": 2}),
            call(12, 115, 2, "cudaMemcpyAsync"),
            kernel("Memcpy DtoH (Device -> Pageable)", 109, 112, 2),
            *op("aten::mm", 120, "gemm_b", 128, 138, 3),
        ]
    ],
    [
        Piece("gemm_a", 8, 108),
        Piece("(stream)", 108, 109),
        Piece("Memcpy DtoH (Device -> Pageable)", 109, 112),
        Piece("cudaMemcpyAsync", 112, 115),
        Piece("aten::item", 115, 118),
        Piece("(host)", 118, 120),
        Piece("aten::mm", 120, 122),
        Piece("cudaLaunchKernel", 122, 128),
        Piece("gemm_b", 128, 138),
    ],
)

# 3. A stream waits for two others. The wait that was called last is for the short kernel, and the
#    only one that HTA keeps; the long one decides.
SEVERAL_WAITS = HandMade(
    "two waits before one kernel",
    [
        [
            *op("aten::mm", 0, "gemm_long", 8, 108, 1, stream=9),
            *op("aten::mm", 10, "gemm_short", 18, 38, 2, stream=11),
            recorded(20, 3),
            recorded(21, 4),
            *stream_wait(22, 5, stream=7, on=9, record=3),
            *stream_wait(23, 6, stream=7, on=11, record=4),
            *op("aten::add", 24, "gemm_joined", 110, 130, 7),
        ]
    ],
    [
        Piece("gemm_long", 8, 108),
        Piece("cudaStreamWaitEvent", 108, 110),
        Piece("gemm_joined", 110, 130),
    ],
)

# 4. Work that was queued in time begins 2 ms after the work before it, and nothing says why. It is
#    still behind it: HTA keeps the order of a stream over 1.5 ms at most.
LONG_GAP = HandMade(
    "stream order over a long gap",
    [[*op("aten::mm", 0, "gemm_a", 8, 1008, 1), *op("aten::mm", 10, "gemm_b", 3008, 3108, 2)]],
    [Piece("gemm_a", 8, 1008), Piece("(stream)", 1008, 3008), Piece("gemm_b", 3008, 3108)],
)

#    Stream 7 of one device is not stream 7 of another: in HTA they are one.
TWO_DEVICES = HandMade(
    "one stream number on two devices",
    [
        [
            *op("aten::mm", 0, "gemm_a", 8, 108, 1, device=0),
            *op("aten::mm", 10, "gemm_b", 18, 38, 2, device=1),
            *op("aten::mm", 20, "gemm_c", 109, 159, 3, device=0),
            *op("aten::mm", 30, "gemm_d", 39, 239, 4, device=1),
        ]
    ],
    [
        Piece("aten::mm", 8, 10),
        Piece("aten::mm", 10, 12),
        Piece("cudaLaunchKernel", 12, 18),
        Piece("gemm_b", 18, 38),
        Piece("(stream)", 38, 39),
        Piece("gemm_d", 39, 239),
    ],
)

# 5. The clocks of host and device are 7 µs apart: work seems to begin 1 µs before the call that
#    launches it. The call still comes first. The path leaves the host when the work begins, so that
#    its pieces add up to the window; a weight of 0 would add 1 µs that never passed.
EARLY_START = HandMade(
    "work that begins before its launch",
    [[*op("aten::mm", 0, "gemm_a", 8, 18, 1), *op("aten::mm", 40, "gemm_b", 41, 51, 2)]],
    [
        Piece("aten::mm", 8, 10),
        Piece("(host)", 10, 40),
        Piece("aten::mm", 40, 41),
        Piece("gemm_b", 41, 51),
    ],
)

# 6. Two ranks on AMD: rank 1 comes late to the all-reduce, and rank 0 is the last to end behind it.
#    Neither trace alone has the path.
RENDEZVOUS = HandMade(
    "ranks that meet, hip names",
    [
        [
            *op("aten::mm", 0, "gemm_a", 8, first_end, 1, device=rank, launch="hipLaunchKernel"),
            *all_reduce(10, first_end + 1, 159, 2, rank),
            *op("aten::mm", 20, "gemm_b", 160, end, 3, device=rank, launch="hipLaunchKernel"),
        ]
        for rank, first_end, end in ((0, 28, 260), (1, 108, 170))
    ],
    [
        Piece("gemm_a", 8, 108, rank=1),
        Piece("(stream)", 108, 109, rank=1),
        Piece(ALL_REDUCE, 109, 159, rank=1),
        Piece("(stream)", 159, 160),
        Piece("gemm_b", 160, 260),
    ],
)

# 7. Work is launched while other work of its stream runs, and yet it is the launch that it waits
#    for: the other work ends at 35, and it could begin at 36. HTA has no edge from a launch where
#    the queue was not empty, and shows none at all unless a variable asks for it.
LATE_LAUNCH = HandMade(
    "launch that decides behind running work",
    [[*op("aten::mm", 0, "gemm_a", 8, 35, 1), *op("aten::mm", 30, "gemm_b", 38, 58, 2)]],
    [
        Piece("aten::mm", 8, 10),
        Piece("(host)", 10, 30),
        Piece("aten::mm", 30, 32),
        Piece("cudaLaunchKernel", 32, 38),
        Piece("gemm_b", 38, 58),
    ],
)

# HTA #290: the kernels of a graph replay are not in the graph. The host waits for the last of them.
GRAPH_REPLAY = HandMade(
    "kernels of one graph launch",
    [
        [
            span("cpu_op", "Graphed", 0, 10, **{"External id": 1}),
            call(2, 6, 1, "cudaGraphLaunch"),
            kernel("gemm_a", 8, 18, 1),
            kernel("gemm_b", 19, 39, 1),
            kernel("gemm_c", 40, 50, 1),
            call(12, 53, 2, "cudaDeviceSynchronize"),
            *op("aten::mm", 55, "gemm_d", 63, 73, 3),
        ]
    ],
    [
        Piece("gemm_a", 8, 18),
        Piece("(stream)", 18, 19),
        Piece("gemm_b", 19, 39),
        Piece("(stream)", 39, 40),
        Piece("gemm_c", 40, 50),
        Piece("cudaDeviceSynchronize", 50, 53),
        Piece("(host)", 53, 55),
        Piece("aten::mm", 55, 57),
        Piece("cudaLaunchKernel", 57, 63),
        Piece("gemm_d", 63, 73),
    ],
)

HAND_MADE = (
    HOST_GAP,
    ASYNCHRONOUS_COPY,
    BLOCKING_COPY,
    SEVERAL_WAITS,
    LONG_GAP,
    TWO_DEVICES,
    EARLY_START,
    RENDEZVOUS,
    LATE_LAUNCH,
    GRAPH_REPLAY,
)
"""All of them, in the order of the limits."""
