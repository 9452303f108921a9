"""Opens synthetic traces together as ranks of one run, so that each analysis runs once for all.

Opening one small trace takes as long as opening twenty, so analyses with a column `rank` run on all
cases together.
"""

import contextlib
import json

import pytest

import tracekit


@contextlib.contextmanager
def opened_as_ranks(folder, cases, *, peak_rates=None, **top_level):
    """Open traces as one run; each list of events becomes the rank with its index.

    `top_level` has members that each file has next to `traceEvents`; `peak_rates` is as for
    `tracekit.open`.
    """
    paths = []
    for rank, events in enumerate(cases):
        info = {"rank": rank, "world_size": len(cases)}
        whole = {**top_level, "distributedInfo": info, "traceEvents": [*events]}
        paths.append(folder / f"rank{rank}.json")
        paths[-1].write_text(json.dumps(whole), "utf-8")
    with tracekit.open(*paths, cache=False, peak_rates=peak_rates) as trace:
        yield trace


def rows_by_rank(trace, analysis, **params):
    found = {}
    for row in trace.query(analysis, **params).to_dicts():
        found.setdefault(row["rank"], []).append(row)
    return found


class Cases:
    """The traces of a test file, each defined next to its test."""

    def __init__(self):
        self._cases = []

    def add(self, events):
        self._cases.append([*events])
        return len(self._cases) - 1

    def fixture(self, **top_level):
        """Return a fixture that opens all traces once; keywords are as for `opened_as_ranks`."""

        @pytest.fixture(scope="module")
        def asked(tmp_path_factory):
            folder = tmp_path_factory.mktemp("cases")
            with opened_as_ranks(folder, self._cases, **top_level) as trace:
                yield AskedByRank(trace)

        return asked


class AskedByRank:
    """Results of a run of cases by rank; each analysis runs once for all ranks."""

    def __init__(self, trace):
        self._trace = trace
        self._found = {}

    def rows(self, rank, analysis, **params):
        key = repr((analysis, params))
        if key not in self._found:
            self._found[key] = rows_by_rank(self._trace, analysis, **params)
        return self._found[key].get(rank, [])

    def table(self, rank, table, columns, order="ALL"):
        """Return the rows of a rank in a table with a `trace_id`; columns and order as in SQL."""
        return self._trace.sql(
            f"SELECT {columns} FROM {table} "
            f"WHERE trace_id = (SELECT trace_id FROM trace WHERE rank = {rank}) ORDER BY {order}"
        ).rows
