"""Runs of many ranks that are made up, with faults put in, and the truth about them.

    from made_runs import Faults, Layout, Step, make_run

    run = make_run(folder, Layout(data=16, tensor=4), Step(), Faults(slow_ranks={9: 1.3}))
    run.truth.waits["7", 3]     # what each rank waited in the collective with Seq 3 of group 7, ns

Every rank runs a program of work and collectives in one true time, in which whoever comes early
waits until the last is there; so a late rank makes the collectives of the others longer, as in
life. What the files say is that time, shifted by the clock of each rank. All times are whole
nanoseconds and exact. ``python tests/shared/made_runs FOLDER --data 64`` writes one by hand.
"""

from made_runs.faults import Faults, Late
from made_runs.layout import Group, Layout
from made_runs.run import MadeRun, make_run, make_run_of_trace
from made_runs.simulation import Truth
from made_runs.step import Step

__all__ = [
    "Faults",
    "Group",
    "Late",
    "Layout",
    "MadeRun",
    "Step",
    "Truth",
    "make_run",
    "make_run_of_trace",
]
