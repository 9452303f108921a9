"""The trace files of a simulated run, with the metadata that Kineto writes."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from made_runs.faults import Faults
from made_runs.layout import Group, Layout
from made_runs.simulation import Done
from made_runs.step import Collective

BASE_NS = 1_700_000_000_000_000_000
"""Base time of the files, ns since the epoch."""

_KERNELS = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    "allgather": "ncclDevKernel_AllGather_RING_LL",
    "reducescatter": "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
    "alltoall": "ncclDevKernel_SendRecv",
}
_NAMES = {
    "allreduce": "allreduce",
    "allgather": "_allgather_base",
    "reducescatter": "_reduce_scatter_base",
    "alltoall": "all_to_allv",
}


def us(time_ns: int) -> str:
    """Return a time in µs with three decimals, as in trace files."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def collective_kernel(done: Done) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of the kernel of a collective, a send, or a receive."""
    group, op = done.group, done.op
    assert group is not None
    told: dict[str, Any] = {
        "In msg nelems": done.in_nelems,
        "Out msg nelems": done.out_nelems,
        "Group size": len(group.ranks),
        "dtype": "BFloat16",
        "Process Group Name": group.name,
        "Process Group Description": group.description,
        "Process Group Ranks": group.ranks_text,
        "Seq": done.seq,
    }
    if isinstance(op, Collective):
        return _KERNELS[op.kind], {"Collective name": _NAMES[op.kind], **told}
    is_send = getattr(op, "is_send", False)
    peer = {"Dst Rank" if is_send else "Src Rank": done.peer}
    name = "send" if is_send else "recv"
    return "ncclDevKernel_SendRecv", {"Collective name": name, **told, **peer}


class Files:
    """Writes the files of a run, one per rank.

    Args:
        folder: folder for the files.
        layout: ranks and groups.
        faults: unreadable and missing files.
        is_compressed: whether files are gzipped, with the suffix.
        has_hosts: whether files name the hosts.
    """

    def __init__(
        self,
        folder: Path,
        layout: Layout,
        faults: Faults,
        *,
        is_compressed: bool = False,
        has_hosts: bool = True,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._layout, self._faults = folder, layout, faults
        self._is_compressed, self._has_hosts = is_compressed, has_hosts
        self._group_text = {group.name: json.dumps(_described(group)) for group in layout.groups}

    def write(self, rank: int, events: Iterable[str]) -> Path | None:
        """Write the file of a rank; return its path, or None if the rank has no file."""
        if rank in self._faults.missing:
            return None
        name = f"rank{rank}.json" + (".gz" if self._is_compressed else "")
        path = self._folder / name
        if rank in self._faults.unreadable:
            path.write_bytes(b"\x00\x01 this is no trace\n" * 8)
            return path
        text = self._head(rank) + "\n" + ",\n".join(events) + "\n]}\n"
        data = text.encode()
        path.write_bytes(gzip.compress(data, 1, mtime=0) if self._is_compressed else data)
        return path

    def _head(self, rank: int) -> str:
        layout = self._layout
        own: dict[str, Group] = {g.name: g for g in layout.groups_of[rank].values()}
        groups = ", ".join(self._group_text[name] for name in own)
        host = f'"host_name": "{layout.host_name(rank)}", ' if self._has_hosts else ""
        return (
            '{"schemaVersion": 1, "deviceProperties": [{"id": '
            f"{rank % layout.ranks_per_node}"
            ', "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, '
            '"totalGlobalMem": 84942979072, "numSms": 132}], '
            f'{host}"distributedInfo": {{"backend": "nccl", "rank": {rank}, '
            f'"world_size": {layout.world_size}, "pg_count": {len(own)}, '
            f'"pg_config": [{groups}]}}, "displayTimeUnit": "ms", '
            f'"baseTimeNanoseconds": {BASE_NS}, "traceEvents": ['
        )


def _described(group: Group) -> dict[str, Any]:
    return {
        "pg_name": group.name,
        "pg_desc": group.description,
        "backend_config": "cuda:nccl",
        "pg_size": len(group.ranks),
        "ranks": list(group.ranks),
    }
