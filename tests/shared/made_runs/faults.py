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
        slow_ranks: rank to factor of its work.
        slow_nodes: node to factor of the work of its ranks.
        late: ranks that come late once.
        slow_links: name of a process group to factor of the transfers in it.
        unreadable: ranks whose files are no traces.
        missing: ranks that left no file.
        clock_ns: rank to what its clock is ahead of the true time, ns.
        end_jitter_ns: how far the ends of a collective lie apart on its ranks at most, ns.
        expert_shares: what each rank of an expert group gets of all tokens, as whole weights.
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
