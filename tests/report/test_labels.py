"""Labels of pictures: none is cut off, none lies over another, and there are enough of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import kernel

import tracekit
from tracekit.report import overview_page, report, several_runs

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
pytestmark = pytest.mark.nightly("needs a browser")

# Texts that leave their picture, or lie over another one of it; figures on marks are not judged.
_WRONG = """() => {
    const found = [];
    for (const svg of document.querySelectorAll('figure[data-chart] .plot > svg')) {
        const box = svg.getBoundingClientRect();
        const name = svg.closest('figure').dataset.chart;
        const texts = [...svg.querySelectorAll('text:not(.inside):not(.on)')]
            .filter((text) => text.textContent.trim())
            .map((text) => [text.textContent, text.getBoundingClientRect()]);
        texts.forEach(([text, at], i) => {
            if (at.left < box.left - 1 || at.right > box.right + 1) found.push([name, 'cut', text]);
            for (const [other, there] of texts.slice(i + 1)) {
                const wide = Math.min(at.right, there.right) - Math.max(at.left, there.left);
                const high = Math.min(at.bottom, there.bottom) - Math.max(at.top, there.top);
                if (wide > 1 && high > 3) found.push([name, text, other]);
            }
        });
    }
    return found;
}"""

# Names on the timeline that end to the right of their event, and how many names there are.
_NAMES = """() => {
    const view = document.getElementById('events-view').timeline;
    const context = view.canvas.getContext('2d');
    const bars = [];
    const names = [];
    const [rect, text] = [context.fillRect, context.fillText];
    context.fillRect = function (...a) { bars.push(a); return rect.apply(this, a); };
    context.fillText = function (...a) {
        names.push([...a, context.measureText(a[0]).width]);
        return text.apply(this, a);
    };
    view.draw();
    delete context.fillRect;
    delete context.fillText;
    const inside = names.filter(([, x]) => bars.some((bar) => bar[0] + 4 === x));
    const over = inside.filter(
        ([, x, y, width]) => !bars.some(
            (bar) => bar[0] <= x && bar[1] <= y && y <= bar[1] + bar[3]
                && x + width <= bar[0] + bar[2] + 1
        )
    );
    return [inside.length, over.map(([name]) => name)];
}"""


def _at(drawn: Any, width: int) -> Any:
    drawn.page.set_viewport_size({"width": width, "height": 900})
    drawn.page.wait_for_timeout(200)
    drawn.show_all()
    return drawn.page


@pytest.fixture(scope="module")
def of_a_sample(opened: Any) -> str:
    """Return the report of a sample, which has something to say in most pictures."""
    return report(opened(SAMPLES / "pretrain_R+Z3"), ["trace.json"])


@pytest.mark.parametrize("width", [400, 1100])
def test_no_label_is_cut_or_covered(of_a_sample: str, in_browser: Any, width: int) -> None:
    assert _at(in_browser(of_a_sample), width).evaluate(_WRONG) == []


def test_no_label_of_several_runs_is_cut(in_browser: Any) -> None:
    with tracekit.open(SAMPLES, cache=False) as runs:
        html = overview_page(runs, [str(SAMPLES)], several_runs(runs, [str(SAMPLES)]))
    for width in (400, 1100):
        assert _at(in_browser(html), width).evaluate(_WRONG) == []


def test_names_on_the_timeline_end_within_their_events(
    tiny_trace: Callable[..., Path], in_browser: Any
) -> None:
    wide = "WWWWMMMM_SENDRECV_RING_SIMPLE_SUM_INT8_T"
    events = [kernel(wide * 3, at * 100, at * 100 + 90) for at in range(8)]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        page = in_browser(trace).page
    count, over = page.evaluate(_NAMES)
    assert count == len(events)
    assert over == []


def test_a_logarithmic_axis_is_named_all_along(
    tiny_trace: Callable[..., Path], in_browser: Any
) -> None:
    """Gaps of 40 µs to 1.3 ms: an axis in milliseconds that touches three powers of ten."""
    events, at = [], 0
    for gap in (40, 90, 200, 450, 1300, 0):
        events.append(kernel("k", at, at + 10))
        at += 10 + gap
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        page = in_browser(trace).page
    svg = page.locator("[data-chart=idle_gaps] .plot > svg")
    labels = svg.locator("text[text-anchor=end]").all_text_contents()
    assert labels == ["0.05", "0.1", "0.2", "0.5", "1"]


def test_health_that_warns_is_never_behind_a_button(
    tiny_trace: Callable[..., Path], in_browser: Any
) -> None:
    text = json.dumps({"traceEvents": [kernel("k", 0, 5), kernel("k", 9, 12)]})[:-60]
    file = tiny_trace(text)
    with tracekit.open(file, cache=False) as trace:
        health = trace.health().to_dicts()
        page = in_browser(trace).page
    assert "Caution" in page.locator("#verdict").text_content()
    warned = [row["metric"] for row in health if row["severity"] == "warn"]
    assert warned
    lines = page.locator("[data-rows=health] tbody tr")
    assert lines.locator("td:nth-child(1)").all_text_contents()[: len(warned)] == warned
    assert page.locator("[data-rows=health] tr.warn").count() == len(warned)


def test_of_one_device_there_is_one_table_without_its_number_and_values_have_units(
    tiny_trace: Callable[..., Path], in_browser: Any
) -> None:
    file = tiny_trace([kernel("k", 0, 5), kernel("k", 9, 12)])
    with tracekit.open(file, cache=False) as trace:
        shares = [row for row in trace.health().to_dicts() if row["unit"] == "pct"]
        page = in_browser(trace).page
    share = next(row for row in shares if row["value"] is not None)
    assert page.locator("[data-rows=phases]").count() == 0
    heads = page.locator("[data-rows=timeline] th").all_text_contents()
    assert heads[0] == "window"
    assert "device" not in heads
    page.locator("[data-rows=health] ~ button.all, [data-rows=health] button.all").click()
    health = page.locator("[data-rows=health] tr", has_text=share["metric"]).first
    assert f"{share['value']:g} %" in health.text_content()
    assert page.locator("[data-rows=health] th", has_text="unit").count() == 0
