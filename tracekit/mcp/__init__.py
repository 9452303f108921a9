"""Model Context Protocol (MCP) server for AI assistants: `tracekit mcp FOLDER…`.

:mod:`server` implements the protocol. Each call runs in a separate process (:mod:`call`), so that
it can be stopped, leaves no state, and cannot print into the protocol.
"""
