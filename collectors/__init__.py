"""Workloads and recorders that write traces and a manifest.

Installed as ``tracekit.collectors``. Only this code imports torch. It communicates with the
analyses through files, so analyses never need the machine that recorded the traces.

The entry points are ``collect`` (``tracekit collect`` and ``python -m tracekit.collectors``),
``session`` (``tracekit.collect``), and ``options``. Packages, each of which imports only those
below it:

- ``sweep``, ``bench``, ``callbacks``: grids of runs, microbenchmarks, trainer callbacks.
- ``training``, ``serving``, ``loop``: built-in training, engines under load, third-party training
  loops.
- ``model``, ``profiler``: models; torch.profiler and unprofiled step times.
- ``ranges``: range names in traces.
- ``calls``, ``run``: hooks into torch; run folder, manifest, and trace files.
- ``process``: ranks, child processes, signals.
- ``machine``: accelerators and memory.
"""
