"""The command line: one command per file, named after it and found by being there.

A command module has `command`, a click command. At import it loads click and nothing heavier, so
that `tracekit --help` stays instant; everything else is imported when the command runs.
"""
