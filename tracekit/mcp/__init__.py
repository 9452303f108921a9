"""Server for assistants with the Model Context Protocol: `tracekit mcp FOLDER…`.

:mod:`server` implements the protocol. Each call runs in a separate process (:mod:`call`), so that
it can be stopped, keeps no state, and cannot print into the protocol.
"""
