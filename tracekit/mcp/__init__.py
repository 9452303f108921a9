"""Traces for assistants, by the Model Context Protocol: `tracekit mcp FOLDER…`.

:mod:`server` speaks the protocol. Each call is a process of its own, :mod:`call`, so that a long or
endless one can be stopped, nothing is held between two, and whatever it prints is not protocol.
"""
