"""The report of a comparison: its charts and tables match `compare`."""

import json
from html import escape
from itertools import pairwise

import pytest
from every_trace import REPO

from tracekit.comparison.comparing import compare
from tracekit.plot import find_chart
from tracekit.report import comparison_page, modules_of
from tracekit.report.comparison_page import TABLES, VIEWS, modules_charts

BASE, NEW = (REPO / "sample_traces" / name for name in ("pretrain_Naive", "pretrain_R+Z3"))
pytestmark = pytest.mark.nightly("compares complete runs; a page of tiny ones is in the gate")


@pytest.fixture(scope="module")
def compared(opened):
    """Return the tables of a comparison, and the picture of the modules of both sides."""
    base, new = opened(BASE), opened(NEW)
    results = compare(base, new).results()
    return results, {"base": modules_of(base), "new": modules_of(new)}


def test_modules_of_both_sides_have_one_scale(compared):
    _, sides = compared
    for view in VIEWS:
        drawn = [*modules_charts(view, sides)]
        assert [chart.name for chart in drawn] == [f"{side}_{view.chart}" for side in sides]
        first, second = (chart.spec["encoding"] for chart in drawn)
        assert (first["x"], first["color"]) == (second["x"], second["color"])
        needs = find_chart(view.chart).needs
        picture = "phases" if view.chart == "phase_modules" else "modules"
        rows = [row for of in sides.values() for need in needs for row in of[need].to_dicts()]
        ends = [row["to_ns"] for row in rows if row.get("view", picture) == picture]
        assert first["x"]["scale"]["domain"] == [0, max(ends)]
        for chart, of in zip(drawn, sides.values(), strict=True):
            assert [*chart.data.values()] == [of[need] for need in needs]


def test_names_of_one_side_have_colours_on_both(compared):
    _, sides = compared
    by_class = next(view for view in VIEWS if view.colour == "class")
    chart = next(modules_charts(by_class, sides))
    classes = {of["class_icicle"].column("class")[0] for of in sides.values()}
    domain = chart.spec["encoding"]["color"]["scale"]["domain"]
    assert classes <= set(domain)
    assert {"comm_reducescatter", "comm_allreduce"} <= set(domain)


def test_every_table_of_a_comparison_has_a_definition(compared):
    results, sides = compared
    assert set(results) <= set(TABLES)
    html = comparison_page(results, sides, "a", "b")
    for name, result in results.items():
        if result.rows:
            assert escape(TABLES[name][1]) in html


def test_the_waterfall_ends_at_the_difference(compared, in_browser):
    results, sides = compared
    report = in_browser(comparison_page(results, sides, "a</script>", "b c"))
    page = report.page
    assert report.messages == []
    assert report.requests == [report.file.as_uri()]
    assert "tracekit compare 'a</script>' 'b c'" in page.locator("#command").text_content()
    names = [f.get_attribute("data-chart") for f in page.locator("figure[data-chart]").all()]
    assert names == [
        *("comparison_parts", "comparison_places", "comparison_noise"),
        *(f"{side}_{view.chart}" for view in VIEWS for side in ("base", "new")),
    ]
    for tab in page.locator("[role=tab]").all():
        tab.click()
        panel = page.locator(f"#{tab.get_attribute('aria-controls')}")
        assert panel.locator("figure").count() == 2
        panel.locator("figure svg svg rect").first.wait_for()
    assert report.messages == []
    parts = [r for r in results["comparison_split"].to_dicts() if r["depth"] == 1]
    boxes = page.locator("[data-chart=comparison_parts] svg svg rect").evaluate_all(
        "bars => bars.map((bar) => [bar.x.baseVal.value, bar.width.baseVal.value])"
    )
    boxes.sort()
    widths = [width for _, width in boxes]
    sizes = [abs(part["delta_ns"]) for part in parts if part["delta_ns"]]
    assert all(part["delta_ns"] >= 0 for part in parts), "then bars do not go one way"
    assert [w / sum(widths) for w in widths] == pytest.approx(
        [size / sum(sizes) for size in sizes], abs=0.002
    )
    for (x, width), (following, _) in pairwise(boxes):
        assert x + width == pytest.approx(following, abs=0.01)
    (whole,) = results["comparison"].to_dicts()
    assert sum(part["delta_ns"] for part in parts) == whole["delta_ns"]
    data = page.evaluate("JSON.parse(document.getElementById('page-data').textContent)")["data"]
    for name, result in results.items():
        rows = [list(row) for row in result.rows[: len(data[name]["rows"])]]
        assert data[name]["rows"] == json.loads(json.dumps(rows)), name
