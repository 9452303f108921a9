"""The command line: one module per command, with the name of the command.

A command module has `command`, a click command. It imports only click at its top, so that
`tracekit --help` stays fast; other modules are imported when the command runs.
"""
