"""The command line: one module per command, with the same name as the command.

A command module defines `command`, a click command. At its top, it imports only click, so that
`tracekit --help` stays fast; other modules are imported when the command runs.
"""
