"""Recorder for training loops: `tracekit.collect(…)` and `tracekit collect -- PROGRAM`."""
