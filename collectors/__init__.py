"""Workloads that run under the profiler and leave traces and a manifest on disk.

Installed as ``tracekit.collectors``. This is the only code that imports torch; its output is
files, so that the analysis half never needs the machine that the traces came from.
"""
