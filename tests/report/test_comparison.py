"""The report of a comparison: its pictures and tables are those of compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tracekit.comparison.comparing import compare
from tracekit.report import comparison_page
from tracekit.report.comparison_charts import charts
from tracekit.report.comparison_page import comparison_sentences

REPO = Path(__file__).resolve().parents[2]
BASE, NEW = (REPO / "sample_traces" / name for name in ("pretrain_Naive", "pretrain_R+Z3"))
Opened = Callable[[Path], tracekit.Trace]


@pytest.fixture(scope="module")
def compared(opened: Opened) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tables of a comparison, and the picture of the modules of both sides."""
    base, new = opened(BASE), opened(NEW)
    results = compare(base, new).results()
    return results, {"base": base.query("module_icicle"), "new": new.query("module_icicle")}


def test_the_sentences_are_figures_of_the_tables(compared: Any) -> None:
    results, _ = compared
    (whole,) = results["comparison"].to_dicts()
    first, cause, matched = comparison_sentences(results)
    assert f"{whole['delta_ns'] / 1e6:,.3f} ms longer" in first
    assert f"({whole['delta_pct']:+.1f} %)" in first
    assert whole["verdict"] in first
    effects = results["comparison_effects"].to_dicts()
    assert sum(row["share_pct"] for row in effects) == pytest.approx(100)
    assert all(
        row["share_pct"] == pytest.approx(100 * row["delta_ns"] / whole["delta_ns"])
        for row in effects
    )
    largest = max(effects, key=lambda row: abs(row["delta_ns"]))
    assert f"The largest cause is {largest['effect']}" in cause
    assert matched.startswith(f"{whole['matched_pct']:.1f} %")


def test_modules_of_both_sides_have_one_scale(compared: Any) -> None:
    results, sides = compared
    drawn = {chart.name: chart.spec for chart in charts(results, sides)}
    axes = [drawn[f"{side}_module_icicle"]["encoding"]["x"] for side in sides]
    assert axes[0] == axes[1]
    longest = max(end for side in sides.values() for end in side.column("to_ns"))
    assert axes[0]["scale"]["domain"] == [0, longest]


@pytest.mark.slow
def test_the_waterfall_ends_at_the_difference(compared: Any, in_browser: Any) -> None:
    results, sides = compared
    report = in_browser(comparison_page(results, sides, "a</script>", "b c"))
    page = report.page
    assert report.messages == []
    assert report.requests == [report.file.as_uri()]
    assert "tracekit compare 'a</script>' 'b c'" in page.locator("#command").text_content()
    names = [f.get_attribute("data-chart") for f in page.locator("figure[data-chart]").all()]
    assert names == [
        *("comparison_parts", "comparison_places", "comparison_noise"),
        *("base_module_icicle", "new_module_icicle"),
    ]
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


def test_the_command_takes_two_sides(cli: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "difference.html"
    done = cli("report", NEW, "--base", BASE, "-o", out)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    text = out.read_text("utf-8")
    assert "pretrain_Naive" in text
    assert "comparison_parts" in text
    done = cli("report", NEW, BASE, "--base", BASE, "-o", out)
    assert done.exit_code == 2
    assert "with --base there is one TRACE" in done.stderr
