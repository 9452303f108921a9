"""Runs the same analyses in HTA: load, temporal, kernel breakdown, overlap; without plots.

Run with the interpreter of an environment that has the `hta` extra: python _hta.py TRACE
"""

from __future__ import annotations

import os
import sys

# Otherwise, HTA rounds to microseconds, which fails an assertion on some traces. Read at import.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
analysis.get_temporal_breakdown(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
