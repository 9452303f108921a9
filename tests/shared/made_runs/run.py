"""Writes the files of a made-up run and returns the truth about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from made_runs.events import events
from made_runs.faults import Faults
from made_runs.files import Files
from made_runs.layout import Layout
from made_runs.simulation import Simulation, Truth
from made_runs.step import Step
from made_runs.template import Event, Template

_BEGIN_NS = 1_000_000


@dataclass(frozen=True)
class MadeRun:
    """Files, and the truth about them."""

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
    """Write a run whose steps are made up.

    Args:
        folder: for the files, `rank0.json` and so on.
        layout: ranks, nodes, groups.
        step: what every rank does.
        faults: what is wrong.
        is_compressed: gzip.
        has_hosts: files name the hosts.
    """
    step, faults = step or Step(), faults or Faults()

    def programs(rank: int) -> list[list]:  # type: ignore[type-arg]
        return [list(step.program(layout, rank)) for _ in range(step.steps)]

    made = Simulation(layout, faults, programs, _BEGIN_NS)
    files = Files(folder, layout, faults, is_compressed=is_compressed, has_hosts=has_hosts)

    def of_rank(rank: int) -> Iterator[str]:
        starts = made.truth.step_starts_ns[rank]
        clock_ns = faults.clock_ns.get(rank, 0)
        return events(made.done[rank], starts, clock_ns, rank % layout.ranks_per_node)

    return _written(folder, layout, faults, made, files, of_rank)


def make_run_of_trace(
    folder: Path,
    template: Path,
    layout: Layout,
    faults: Faults | None = None,
    *,
    dimension: Callable[[Event], str] | None = None,
    max_events: int | None = None,
    is_compressed: bool = False,
) -> MadeRun:
    """Write a run in which every rank does what a real trace shows.

    Args:
        folder: for the files.
        template: the trace, with collectives on its device.
        layout: ranks, nodes, groups.
        faults: what is wrong.
        dimension: which group a collective kernel of the trace is one of; data for all by default.
        max_events: take no more events of the trace than this, the first ones.
        is_compressed: gzip.
    """
    faults = faults or Faults()
    read = Template(template, dimension, max_events)
    made = Simulation(layout, faults, lambda _: read.program(), _BEGIN_NS)
    files = Files(folder, layout, faults, is_compressed=is_compressed)

    def of_rank(rank: int) -> Iterator[str]:
        return read.events(made.done[rank], faults.clock_ns.get(rank, 0))

    return _written(folder, layout, faults, made, files, of_rank)


def _written(
    folder: Path,
    layout: Layout,
    faults: Faults,
    made: Simulation,
    files: Files,
    of_rank: Callable[[int], Iterator[str]],
) -> MadeRun:
    paths = (files.write(rank, of_rank(rank)) for rank in range(layout.world_size))
    return MadeRun(folder, tuple(p for p in paths if p), layout, faults, made.truth)
