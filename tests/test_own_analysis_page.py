"""The page "Write your own analysis": its files, commands, and outputs.

`make docs-update` writes the outputs; review the difference before you commit it.
"""

import sys
from pathlib import Path

import pytest

import tracekit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))

from generate.own_page import make_files, own_page
from generate.places import OWN_PAGE


@pytest.mark.nightly("a page of the manual")
def test_commands_of_the_page_print_the_shown_output(tmp_path):
    make_files(tmp_path)
    assert own_page(tmp_path) == OWN_PAGE.read_text("utf-8"), "run: make docs-update"


def test_its_analysis_matches_plain_sql(tmp_path, sample_trace):
    make_files(tmp_path)
    with tracekit.open(sample_trace, cache=False, queries=tmp_path / "my-queries") as trace:
        got = trace.query("slow_ops", limit=0).to_dicts()
        right = trace.sql(
            "SELECT name, count(*), sum(dur_ns)::BIGINT FROM event "
            "WHERE category = 'cpu_op' GROUP BY name ORDER BY 3 DESC, 1"
        ).rows
    assert [(row["op"], row["op_count"], row["total_ns"]) for row in got] == right
    assert abs(sum(row["op_pct"] for row in got) - 100) < 1e-6
