"""Simulated runs of many ranks, as large as benchmarks need.

Every rank runs a program of work and collectives on a common true time. Ranks that arrive early at
a collective wait for the last one. Times are integer nanoseconds.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

_RANKS_PER_NODE = 8
_LISTED_RANKS = 30
_BASE_NS = 1_700_000_000_000_000_000
_BEGIN_NS = 1_000_000
_LEAD_NS = 10_000
"""Time from the begin of a host range to its first kernel, ns."""

_NELEMS = 1_000_000
_FORWARD_NS, _BACKWARD_NS, _OPTIMIZER_NS = 400_000, 800_000, 200_000
_TRANSFER_NS, _PASS_NS = 40_000, 1_000
_LAYERS, _KERNELS = 2, 3
_DESCRIPTIONS = {
    "world": "default_pg",
    "tensor": "TENSOR_MODEL_PARALLEL_GROUP",
    "data": "DATA_PARALLEL_GROUP",
    "pipeline": "PIPELINE_MODEL_PARALLEL_GROUP",
}


class Group(Struct, frozen=True):
    """A process group: its name in the files, its dimension, and its global ranks."""

    name: str
    dimension: str
    ranks: tuple[int, ...]


class Layout(Struct, frozen=True):
    """Parallel sizes. Ranks are numbered as in Megatron: tensor, then data, then pipeline."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.data * self.tensor * self.pipeline

    def stage(self, rank: int) -> int:
        return rank // (self.tensor * self.data)

    def groups(self) -> list[Group]:
        """Return all groups in the order in which every process creates them: world first."""
        t, plane = self.tensor, self.tensor * self.data
        found = [("world", tuple(range(self.world_size)))]
        firsts = range(0, self.world_size, t)
        found += [("tensor", tuple(range(first, first + t))) for first in firsts if t > 1]
        if self.data > 1 and plane * self.pipeline > self.data:
            found += [
                ("data", tuple(range(stage * plane + k, (stage + 1) * plane, t)))
                for stage in range(self.pipeline)
                for k in range(t)
            ]
        if self.pipeline > 1:
            found += [("pipeline", tuple(range(k, self.world_size, plane))) for k in range(plane)]
        return [Group(str(at), *one) for at, one in enumerate(found)]


class Op(Struct, frozen=True):
    """GPU work, a collective in one of the rank's groups, or a send or receive of the pipeline."""

    kind: Literal["work", "allreduce", "send", "recv"]
    phase: str
    dur_ns: int
    dimension: str = ""
    kernels: int = 1
    peer: int = 0


class _Done(Struct):
    """An op of one rank with its times, its group, and its sequence number."""

    op: Op
    start_ns: int
    end_ns: int
    group: Group | None = None
    seq: int = 0


def program(layout: Layout, rank: int, microbatches: int) -> Iterator[Op]:
    """Yield the ops of a rank in one step, with the schedule 1F1B."""
    plane, stage = layout.tensor * layout.data, layout.stage(rank)
    ahead = min(microbatches, layout.pipeline - stage)
    order = [True] * ahead
    for number in range(microbatches):
        order += [False, True] if ahead + number < microbatches else [False]
    for is_forward in order:
        phase, total_ns = ("forward", _FORWARD_NS) if is_forward else ("backward", _BACKWARD_NS)
        before, after = (-1, 1) if is_forward else (1, -1)
        if 0 <= stage + before < layout.pipeline:
            yield Op("recv", phase, _PASS_NS, "pipeline", peer=rank + before * plane)
        for _ in range(_LAYERS):
            yield Op("work", phase, total_ns // _LAYERS, kernels=_KERNELS)
            if layout.tensor > 1:
                yield Op("allreduce", phase, _TRANSFER_NS, "tensor")
        if 0 <= stage + after < layout.pipeline:
            yield Op("send", phase, _PASS_NS, "pipeline", peer=rank + after * plane)
    if layout.data > 1:
        yield Op("allreduce", "backward", 2 * _TRANSFER_NS, "data")
    if layout.world_size > 1:
        # The gradient norm, in which all ranks take part.
        yield Op("allreduce", "optimizer", _TRANSFER_NS // 4, "world")
    yield Op("work", "optimizer", _OPTIMIZER_NS)


class _Simulation:
    """All ranks of a run; `done` has the ops of each rank with their times."""

    def __init__(
        self, layout: Layout, microbatches: int, steps: int, slow_ranks: Mapping[int, float]
    ) -> None:
        count = layout.world_size
        self.groups = layout.groups()
        self.groups_of: list[dict[str, Group]] = [{} for _ in range(count)]
        for group in self.groups:
            for rank in group.ranks:
                self.groups_of[rank][group.dimension] = group
        for groups in self.groups_of:
            groups.setdefault("data", groups["world"])
        self.done: list[list[_Done]] = [[] for _ in range(count)]
        self.step_starts_ns = [[_BEGIN_NS] for _ in range(count)]
        self._slow_ranks = slow_ranks
        self._programs = [
            [op for _ in range(steps) for op in (*program(layout, rank, microbatches), None)]
            for rank in range(count)
        ]
        self._next = [0] * count
        self._now = [_BEGIN_NS] * count
        self._sequence: dict[tuple[int, str], int] = defaultdict(int)
        self._arrived: dict[tuple[str, int], dict[int, _Done]] = defaultdict(dict)
        self._sent: dict[tuple[int, int, int], _Done] = {}
        self._waiting: dict[tuple[int, int, int], _Done] = {}
        ready = list(range(count))
        while ready:
            ready += self._advance(ready.pop())

    def _advance(self, rank: int) -> list[int]:
        """Run a rank until it has to wait; return the ranks that can continue."""
        freed: list[int] = []
        while self._next[rank] < len(self._programs[rank]):
            op = self._programs[rank][self._next[rank]]
            self._next[rank] += 1
            now = self._now[rank]
            if op is None:
                self.step_starts_ns[rank].append(now)
            elif op.kind == "work":
                dur_ns = round(op.dur_ns * self._slow_ranks.get(rank, 1))
                self._end(rank, _Done(op, now, now + dur_ns))
            elif op.kind == "allreduce":
                met = self._meet(rank, op)
                if rank not in met:
                    return freed
                freed += [other for other in met if other != rank]
            elif not self._pass(rank, op, freed):
                return freed
        return freed

    def _end(self, rank: int, done: _Done) -> None:
        self.done[rank].append(done)
        self._now[rank] = done.end_ns

    def _numbered(self, rank: int, name: str) -> int:
        self._sequence[rank, name] += 1
        return self._sequence[rank, name]

    def _meet(self, rank: int, op: Op) -> list[int]:
        """Let a rank arrive at a collective; return its ranks after the last arrival."""
        group, now = self.groups_of[rank][op.dimension], self._now[rank]
        seq = self._numbered(rank, group.name)
        arrived = self._arrived[group.name, seq]
        arrived[rank] = _Done(op, now, now, group, seq)
        if len(arrived) < len(group.ranks):
            return []
        end_ns = max(done.start_ns for done in arrived.values()) + op.dur_ns
        for other, done in self._arrived.pop((group.name, seq)).items():
            done.end_ns = end_ns
            self._end(other, done)
        return list(arrived)

    def _pass(self, rank: int, op: Op, freed: list[int]) -> bool:
        """Let a rank send or receive; return whether it can continue.

        A send ends when its bytes have left, a receive when they have arrived.
        """
        is_send, now = op.kind == "send", self._now[rank]
        pair = (rank, op.peer) if is_send else (op.peer, rank)
        number = self._numbered(rank, f"{pair[0]}>{pair[1]}")
        group = self.groups_of[rank]["pipeline"]
        done = _Done(op, now, now + op.dur_ns, group, number)
        own, others = (self._sent, self._waiting) if is_send else (self._waiting, self._sent)
        other = others.pop((*pair, number), None)
        if other is None:
            own[(*pair, number)] = done
        send, receive = (done, other) if is_send else (other, done)
        if send is not None and receive is not None:
            receive.end_ns = max(send.start_ns, receive.start_ns) + op.dur_ns
            self._end(pair[1], receive)
        if is_send:
            self._end(rank, done)
            freed += [op.peer] if other is not None else []
        return is_send or other is not None


def _us(time_ns: int) -> str:
    """Return a time in µs with three decimals, as in trace files."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def _kernel(done: _Done) -> tuple[str, str]:
    """Return the name and the arguments of the kernels of an op."""
    op, group = done.op, done.group
    if group is None:
        is_optimizer = op.phase == "optimizer"
        gemm = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
        return ("multi_tensor_apply_kernel<Adam>" if is_optimizer else gemm), ""
    listed = ", ".join(map(str, group.ranks[:_LISTED_RANKS]))
    args: dict[str, Any] = {
        "Collective name": op.kind,
        "In msg nelems": _NELEMS,
        "Out msg nelems": _NELEMS,
        "Group size": len(group.ranks),
        "dtype": "BFloat16",
        "Process Group Name": group.name,
        "Process Group Description": _DESCRIPTIONS[group.dimension],
        "Process Group Ranks": f"[{listed}{', ...' * (len(group.ranks) > _LISTED_RANKS)}]",
        "Seq": done.seq,
    }
    if op.kind != "allreduce":
        args["Dst Rank" if op.kind == "send" else "Src Rank"] = op.peer
    name = "AllReduce_Sum_bf16_RING_LL" if op.kind == "allreduce" else "SendRecv"
    return f"ncclDevKernel_{name}", "".join(f', "{k}": {json.dumps(v)}' for k, v in args.items())


def _range(name: str, start_ns: int, end_ns: int) -> str:
    return (
        f'{{"ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 7, "tid": 7, '
        f'"ts": {_us(start_ns - _LEAD_NS)}, "dur": {_us(end_ns - start_ns)}}}'
    )


def _events(done: list[_Done], step_starts_ns: list[int], device: int) -> Iterator[str]:
    """Yield the events of a rank as JSON: steps, phases, and launched kernels."""
    for number, (start, end) in enumerate(pairwise(step_starts_ns)):
        yield _range(f"ProfilerStep#{number}", start, end)
        inside = [one for one in done if start <= one.start_ns < end]
        first = inside[0]
        for one, following in pairwise([*inside, None]):
            if one is not None and (following is None or following.op.phase != one.op.phase):
                until = end if following is None else following.start_ns
                yield _range(f"tk/phase/{one.op.phase}", first.start_ns, until)
                first = following or one
    correlation = 0
    for one in done:
        name, args = _kernel(one)
        host = "aten::mm" if one.group is None else "c10d::collective"
        count, dur_ns = one.op.kernels, one.end_ns - one.start_ns
        cuts = [one.start_ns + dur_ns * place // count for place in range(count + 1)]
        for at, end in pairwise(cuts):
            correlation += 1
            link = f'"correlation": {correlation}, "External id": {correlation}'
            yield (
                f'{{"ph": "X", "cat": "cpu_op", "name": "{host}", "pid": 7, "tid": 7, '
                f'"ts": {_us(at - 8_000)}, "dur": 6, "args": {{"External id": {correlation}}}}}'
            )
            yield (
                '{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, '
                f'"tid": 7, "ts": {_us(at - 6_000)}, "dur": 2, "args": {{{link}}}}}'
            )
            yield (
                f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": {device}, "tid": 7, '
                f'"ts": {_us(at)}, "dur": {_us(end - at)}, "args": {{"device": {device}, '
                f'"stream": 7, {link}{args}}}}}'
            )


def make_run(
    folder: Path,
    layout: Layout,
    *,
    microbatches: int = 1,
    steps: int = 2,
    slow_ranks: Mapping[int, float] | None = None,
    is_compressed: bool = False,
) -> list[Path]:
    """Write the traces of a simulated run; return their paths.

    Args:
        folder: receives the files, `rank0.json` and so on.
        layout: ranks and groups.
        microbatches: micro-batches per step.
        steps: number of steps.
        slow_ranks: factor on the work by rank.
        is_compressed: whether the files are gzipped.
    """
    made = _Simulation(layout, microbatches, steps, slow_ranks or {})
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank, done in enumerate(made.done):
        device = rank % _RANKS_PER_NODE
        groups = [
            {"pg_name": one.name, "pg_desc": _DESCRIPTIONS[one.dimension], "ranks": one.ranks}
            for one in made.groups_of[rank].values()
        ]
        info = {"rank": rank, "world_size": layout.world_size, "pg_config": groups}
        head = json.dumps(
            {
                "deviceProperties": [{"id": device, "name": "NVIDIA H100 80GB HBM3"}],
                "host_name": f"node{rank // _RANKS_PER_NODE:03d}",
                "distributedInfo": {"backend": "nccl", **info},
                "baseTimeNanoseconds": _BASE_NS,
            }
        )
        events = ",\n".join(_events(done, made.step_starts_ns[rank], device))
        data = f'{head[:-1]}, "traceEvents": [\n{events}\n]}}\n'.encode()
        path = folder / f"rank{rank}.json{'.gz' * is_compressed}"
        path.write_bytes(gzip.compress(data, 1, mtime=0) if is_compressed else data)
        paths.append(path)
    return paths
