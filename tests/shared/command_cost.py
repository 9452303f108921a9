"""Counts the work of a command; `python -m command_cost ARGUMENT…` prints the counts as JSON.

Unlike times, counts do not depend on the machine: SQL statements, operators that DuckDB executed,
distinct functions of tracekit, calls of them, and modules of tracekit that were imported.
"""

import json
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import duckdb

PACKAGE = str(Path(__file__).resolve().parents[2] / "tracekit")


class CountedConnection:
    """A DuckDB connection that counts the operators of each statement, of all connections."""

    operator_counts = []  # noqa: RUF012 - of all connections

    def __init__(self, connection):
        self._connection = connection
        # A store that is open for SQL of users refuses: its few cursors count no operators.
        with suppress(duckdb.InvalidInputException):
            connection.execute("PRAGMA enable_profiling = 'no_output'")

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._connection.close()

    def cursor(self):
        return CountedConnection(self._connection.cursor())

    def execute(self, *given):
        self._connection.execute(*given)
        count = 0
        with suppress(duckdb.InvalidInputException):
            profile = json.loads(self._connection.get_profiling_information())
            count = sum(map(operators_in, profile.get("operator", ())))
        self.operator_counts.append(count)
        return self


def operators_in(node):
    return 1 + sum(map(operators_in, node.get("children", ())))


def main():
    calls = Counter()

    def count(frame, event, _):
        code = frame.f_code
        # Python 3.12 and later call no function for a comprehension.
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name[0] != "<":
            calls[code.co_filename, code.co_firstlineno] += 1

    connect = duckdb.connect
    duckdb.connect = lambda *given, **named: CountedConnection(connect(*given, **named))
    threading.setprofile(count)
    sys.setprofile(count)
    from tracekit.cli._main import main as run

    exit_code = run(sys.argv[1:])
    sys.setprofile(None)
    costs = {
        "statements": len(CountedConnection.operator_counts),
        "operators": sum(CountedConnection.operator_counts),
        "functions": len(calls),
        "calls": calls.total(),
        "modules": sum(name.partition(".")[0] == "tracekit" for name in sys.modules),
    }
    sys.stderr.write(json.dumps(costs) + "\n")
    raise SystemExit(exit_code)


if __name__ == "__main__":
    main()
