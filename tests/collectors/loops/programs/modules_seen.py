"""Prints whether tracekit is in `sys.modules`, before and after the program imports it."""

import sys


def look(when):
    names = {name.partition(".")[0] for name in sys.modules}
    print(when, "tracekit" in names)


look("at the start")
import tiny  # noqa: E402

look("with torch")
tiny.train(after=lambda number: number % 6 == 5 and look(number))
import tracekit.errors  # noqa: E402

look("at the end")
print(sys.modules["tracekit"] is tracekit, tracekit.errors.UsageError is tracekit.UsageError)
