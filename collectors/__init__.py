"""Workloads that run under the profiler and leave traces and a manifest on disk.

Installed as ``tracekit.collectors``. This is the only code that imports torch; its output is
files, so that the analysis half never needs the machine that the traces came from.

The faces are modules of this folder: ``collect`` (what ``tracekit collect`` and
``python -m tracekit.collectors`` do), ``session`` (``tracekit.collect``) and ``options``. Each
room beside them is for one thing, and imports only rooms below it:

- ``sweep``, ``bench``, ``callbacks``: grids of runs, microbenchmarks, trainers that call back.
- ``training``, ``serving``, ``loop``: our own training, engines under load, loops of others.
- ``model``, ``profiler``: what is trained and served; the profiler, and step times without it.
- ``ranges``: the names in traces.
- ``calls``, ``run``: what a program calls of torch; a run's folder, manifest and environment.
- ``process``: processes that are started and ended.
- ``machine``, ``command_line``, ``progress``: hardware; options; lines on the terminal.
"""
