"""Simulated runs of many ranks, with faults and their ground truth.

    from made_runs import Faults, Layout, Step, make_run

    run = make_run(folder, Layout(data=16, tensor=4), Step(), Faults(slow_ranks={9: 1.3}))
    run.truth.waits["7", 3]     # wait of each rank in the collective with Seq 3 of group 7, ns

Every rank runs a program of work and collectives on a common true time. Ranks that arrive early at
a collective wait for the last one. The files contain this time, shifted by the clock of each rank.
All times are integer nanoseconds.
"""

from made_runs.faults import Faults, Late
from made_runs.layout import Group, Layout
from made_runs.run import MadeRun, make_run
from made_runs.simulation import Truth
from made_runs.step import Step

__all__ = ["Faults", "Group", "Late", "Layout", "MadeRun", "Step", "Truth", "make_run"]
