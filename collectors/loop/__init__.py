"""The training loops of others: `tracekit.collect(…)` and `tracekit collect -- PROGRAM`."""
