"""Ranks, nodes, and process groups of a simulated run."""

from dataclasses import dataclass, field
from functools import cached_property

DESCRIPTIONS = {
    "world": "default_pg",
    "tensor": "TENSOR_MODEL_PARALLEL_GROUP",
    "data": "DATA_PARALLEL_GROUP",
    "pipeline": "PIPELINE_MODEL_PARALLEL_GROUP",
    "expert": "EXPERT_MODEL_PARALLEL_GROUP",
}
"""Descriptions of the groups by dimension, as in Megatron-LM."""

_LISTED_RANKS = 30


@dataclass(frozen=True)
class Group:
    """A process group: its name in the files, its dimension, and its global ranks."""

    name: str
    dimension: str
    ranks: tuple[int, ...]
    description: str

    @property
    def ranks_text(self) -> str:
        """The ranks as Kineto writes them, at most thirty."""
        shown = ", ".join(map(str, self.ranks[:_LISTED_RANKS]))
        return f"[{shown}, ...]" if len(self.ranks) > _LISTED_RANKS else f"[{shown}]"


@dataclass(frozen=True)
class Layout:
    """Parallel sizes. Ranks are numbered as in Megatron: tensor, then data, then pipeline.

    Experts are distributed over groups of ``expert`` data-parallel ranks; 1 for no experts.
    ``is_described``: whether the groups are named after their dimensions.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    ranks_per_node: int = 8
    is_described: bool = True
    first_name: int = field(default=0)

    @property
    def world_size(self) -> int:
        """Ranks."""
        return self.data * self.tensor * self.pipeline

    @property
    def node_count(self) -> int:
        """Number of nodes; the last one may have fewer ranks."""
        return -(-self.world_size // self.ranks_per_node)

    def place(self, rank: int) -> tuple[int, int, int]:
        """Return the data, tensor, and pipeline index of a rank."""
        tensor = rank % self.tensor
        data = rank // self.tensor % self.data
        return data, tensor, rank // (self.tensor * self.data)

    def rank(self, data: int, tensor: int, pipeline: int) -> int:
        return (pipeline * self.data + data) * self.tensor + tensor

    def node(self, rank: int) -> int:
        return rank // self.ranks_per_node

    def host_name(self, rank: int) -> str:
        return f"node{self.node(rank):03d}"

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All groups in the order in which every process creates them: world first."""
        d, t, p, e = self.data, self.tensor, self.pipeline, self.expert
        found = [("world", tuple(range(self.world_size)))]
        if t > 1:
            found += [
                ("tensor", tuple(self.rank(i, k, j) for k in range(t)))
                for j in range(p)
                for i in range(d)
            ]
        if d > 1 and (t > 1 or p > 1):
            found += [
                ("data", tuple(self.rank(i, k, j) for i in range(d)))
                for j in range(p)
                for k in range(t)
            ]
        if p > 1:
            found += [
                ("pipeline", tuple(self.rank(i, k, j) for j in range(p)))
                for i in range(d)
                for k in range(t)
            ]
        if e > 1:
            found += [
                ("expert", tuple(self.rank(i, k, j) for i in range(first, first + e)))
                for j in range(p)
                for k in range(t)
                for first in range(0, d, e)
            ]
        return tuple(
            Group(
                str(self.first_name + number),
                dimension,
                ranks,
                DESCRIPTIONS[dimension] if self.is_described else "undefined",
            )
            for number, (dimension, ranks) in enumerate(found)
        )

    @cached_property
    def groups_of(self) -> tuple[dict[str, Group], ...]:
        """The groups of each rank by dimension; without other parallelism, data is the world."""
        found: list[dict[str, Group]] = [{} for _ in range(self.world_size)]
        for group in self.groups:
            for rank in group.ranks:
                found[rank][group.dimension] = group
        if self.data > 1:
            for groups in found:
                groups.setdefault("data", groups["world"])
        return tuple(found)
