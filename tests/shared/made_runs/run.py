"""Writes the files of a simulated run, and returns its ground truth."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from made_runs.events import events
from made_runs.faults import Faults
from made_runs.files import Files
from made_runs.layout import Layout
from made_runs.simulation import Simulation, Truth
from made_runs.step import Step

_BEGIN_NS = 1_000_000


@dataclass(frozen=True)
class MadeRun:
    """The files of a run, and their ground truth."""

    folder: Path
    paths: tuple[Path, ...]
    layout: Layout
    faults: Faults
    truth: Truth


def make_run(
    folder: Path,
    layout: Layout,
    step: Step | None = None,
    faults: Faults | None = None,
    *,
    is_compressed: bool = False,
    has_hosts: bool = True,
) -> MadeRun:
    """Write a simulated run.

    Args:
        folder: receives the files, `rank0.json` and so on.
        layout: ranks, nodes, groups.
        step: the work of every rank.
        faults: deviations of single ranks.
        is_compressed: whether the files are gzipped.
        has_hosts: whether the files name their hosts.
    """
    step, faults = step or Step(), faults or Faults()

    def programs(rank: int) -> list[list]:
        return [list(step.program(layout, rank)) for _ in range(step.steps)]

    made = Simulation(layout, faults, programs, _BEGIN_NS)
    files = Files(folder, layout, faults, is_compressed=is_compressed, has_hosts=has_hosts)

    def of_rank(rank: int) -> Iterator[str]:
        starts = made.truth.step_starts_ns[rank]
        clock_ns = faults.clock_ns.get(rank, 0)
        return events(made.done[rank], starts, clock_ns, rank % layout.ranks_per_node)

    paths = (files.write(rank, of_rank(rank)) for rank in range(layout.world_size))
    return MadeRun(folder, tuple(p for p in paths if p), layout, faults, made.truth)
