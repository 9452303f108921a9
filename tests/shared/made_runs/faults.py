"""Faults of a simulated run."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Late:
    """A rank that arrives late at one collective.

    ``number`` counts the rank's collectives of that dimension from 0, over all steps.
    """

    rank: int
    dimension: str
    number: int
    by_ns: int


@dataclass(frozen=True)
class Faults:
    """All faults of a run; a factor of 1.3 means 30 % slower.

    Attributes:
        slow_ranks: factor of the work by rank.
        slow_nodes: factor of the work by node.
        late: ranks that are late once.
        slow_links: factor of transfers by process group.
        unreadable: ranks with files that are not traces.
        missing: ranks without a file.
        clock_ns: how far the clock is ahead of the true time, by rank, ns.
        end_jitter_ns: maximum difference between the ends of a collective on its ranks, ns.
        expert_shares: share of tokens of each rank in an expert group, as integer weights.
    """

    slow_ranks: Mapping[int, float] = field(default_factory=dict)
    slow_nodes: Mapping[int, float] = field(default_factory=dict)
    late: tuple[Late, ...] = ()
    slow_links: Mapping[str, float] = field(default_factory=dict)
    unreadable: frozenset[int] = frozenset()
    missing: frozenset[int] = frozenset()
    clock_ns: Mapping[int, int] = field(default_factory=dict)
    end_jitter_ns: int = 0
    expert_shares: tuple[int, ...] = ()

    def work_factor(self, rank: int, node: int) -> float:
        """Return the factor on the duration of the work of a rank."""
        return self.slow_ranks.get(rank, 1.0) * self.slow_nodes.get(node, 1.0)
