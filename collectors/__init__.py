"""Workloads and recorders that write traces and a manifest: `tracekit.collectors`.

Only this code imports torch. It communicates with the analyses through files, so analyses can run
on another machine.
"""
