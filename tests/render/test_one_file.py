"""A SQL file alone adds an analysis with its sections, its chart and its key in the browser."""

import shutil
import sys

import pytest
from processes import finished

import tracekit
from tracekit.analysis.catalog import QUERIES
from tracekit.analysis.result import Column, Result
from tracekit.render.sections._layout import Screen, bars_of

BUSY_NAMES = """\
-- How long did each name hold the devices?
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank          INTEGER  global rank
--   device        VARCHAR  number of the device, or cpu
--   name          VARCHAR  kernel, copy or op
--   wall_ns       BIGINT   busy time that is its own, ns
--   wall_pct      DOUBLE   of the busy time of all, 0 to 100
--   kernel_count  BIGINT   device events
-- View:
--   breakdown  after=kernels title="Busy names" note="own busy time" label=name bar=wall_pct
--              figures=wall_pct,wall_ns,kernel_count most=1 one=name
--   chart      form=bars title="Which names were busy" y=name x=wall_ns axis="busy time"
--              largest=wall_ns tip=name,wall_ns,kernel_count
--   report     section=names title="Names"
--   browse     key=b menu="busy names" title="Busy names" columns=name,wall_ns,kernel_count
SELECT
    t.rank, e.device, e.name,
    sum(e.wall_ns)::BIGINT AS wall_ns,
    100.0 * sum(e.wall_ns) / sum(sum(e.wall_ns)) OVER () AS wall_pct,
    count(*) AS kernel_count
FROM device_events AS e
INNER JOIN trace AS t USING (trace_id)
GROUP BY ALL
ORDER BY wall_ns DESC, name
"""

PROGRAM = """
import sys
from pathlib import Path

from tracekit.analysis import catalog

queries, trace, page = map(Path, sys.argv[1:])
catalog.QUERIES = queries
catalog.load_catalog(queries)

import tracekit
from tracekit.browse.views import VIEWS
from tracekit.render.table import breakdown_lines
from tracekit.report import report

assert VIEWS["b"][0] == "busy names"
with tracekit.open(trace, cache=False) as opened:
    found = opened.breakdown()
    assert opened.plot.busy_names().title == "Which names were busy"
    page.write_text(report(opened, [str(trace)]), "utf-8")
for line in breakdown_lines(found, 80, full=False):
    print(line.plain.rstrip())
"""


@pytest.mark.nightly("starts a process and draws a report")
def test_a_file_has_its_sections_its_chart_and_its_key(tmp_path, sample_trace):
    queries, page = tmp_path / "queries", tmp_path / "page.html"
    shutil.copytree(QUERIES, queries)
    (queries / "timeline" / "busy_names.sql").write_text(BUSY_NAMES)
    done = finished(sys.executable, "-c", PROGRAM, queries, sample_trace, page)
    assert (done.stderr, done.returncode) == ("", 0)
    lines = done.stdout.splitlines()
    (place,) = (at for at, line in enumerate(lines) if line.startswith("Busy names, own busy time"))
    below = [line for line in lines[place + 1 : place + 3] if line.startswith("  aten::")]
    assert len(below) == 1
    text = page.read_text("utf-8")
    assert '<h2 id="names-title">Names</h2>' in text
    assert 'data-chart="busy_names"' in text
    assert "tracekit query busy_names" in text


def test_a_file_of_the_user_has_its_chart(tmp_path, sample_trace):
    (tmp_path / "busy_names.sql").write_text(BUSY_NAMES)
    with tracekit.open(sample_trace, cache=False, queries=tmp_path) as trace:
        chart = trace.plot.busy_names()
        assert chart.title == trace.plot("busy_names").title == "Which names were busy"
        assert chart.data["busy_names"].rows == trace.query("busy_names").rows


def test_rows_of_several_devices_name_the_device():
    name = "kernel_class_totals"
    row = {"class": "gemm", "kind": "compute", "wall_pct": 50.0, "wall_ns": 5_000_000}
    figures = {**row, "kernel_count": 3, "step_wall_ns": None}
    types = {"device": "VARCHAR", "class": "VARCHAR", "kind": "VARCHAR", "wall_pct": "DOUBLE"}
    columns = tuple(Column(one, types.get(one, "BIGINT")) for one in ("rank", "device", *figures))

    def lines(*devices):
        found = Result(name, columns, [(*device, *figures.values()) for device in devices])
        return [line.plain for line in bars_of(name)(Screen({name: found}, 100))]

    assert [line[:9] for line in lines((0, "0"))[1:]] == ["  gemm  █"]
    several = lines((0, "0"), (10, "cpu"))[1:]
    assert [line[:29] for line in several] == [
        "  rank 0 · device 0  gemm  ██",
        "  rank 10 · cpu      gemm  ██",
    ]
