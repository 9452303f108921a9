"""Narrow pages and print: names and labels do not overlap, and figures are aligned."""

import json

import pytest
from every_trace import REPO
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.report import overview_page, report, several_runs, write

SAMPLES = REPO / "sample_traces"

pytestmark = pytest.mark.nightly("needs a browser")

BEGIN = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
NAMES = [f"{BEGIN}{which}Functor<float>, std::array<char*, 3ul> >" for which in ("Add", "Mul")]
OUTER = "Model/encoder_with_a_long_name/layers_with_a_long_name"
INNER = f"{OUTER}/attention_with_a_name_too"


@pytest.fixture(scope="module")
def shown(tmp_path_factory, in_browser):
    """Return the page of a trace with long names, and of times with and without decimals."""
    events = [
        span("user_annotation", f"tk/module/forward/{OUTER}#Layers", 0, 9_000),
        span("user_annotation", f"tk/module/forward/{INNER}#Attention", 0, 400),
        call(1, 2, 1),
        call(3, 4, 2),
        call(500, 501, 3),
        kernel(NAMES[0], 1_000, 3_500, 1),
        kernel(NAMES[1], 4_000, 5_000, 2),
        kernel("gemm", 6_000, 7_234.567, 3),
    ]
    file = tmp_path_factory.mktemp("names") / "trace.json"
    file.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    with tracekit.open(file, cache=False) as trace:
        return in_browser(trace)


def _cells(page, table, column):
    names = page.locator(f"[data-rows={table}] th").all_text_contents()
    at = names.index(column) + 1
    return list(page.locator(f"[data-rows={table}] tbody td:nth-child({at})").all())


def test_kernels_that_begin_alike_have_labels_that_differ(shown):
    labels = shown.page.locator("[data-chart=kernels] svg text[text-anchor=end]")
    found = [text for text in labels.all_text_contents() if "elementwise" in text]
    assert len(set(found)) == 2
    assert {which for which in ("AddFunctor", "MulFunctor") for text in found if which in text}
    assert all("…" in text for text in found)


def test_cells_of_names_that_begin_alike_show_what_is_their_own(shown):
    cells = [cell for cell in _cells(shown.page, "kernels", "name") if cell.locator(".own").count()]
    short = {name.removeprefix("void ").replace("at::native::", "") for name in NAMES}
    assert {cell.text_content() for cell in cells} == short
    own = sorted(cell.locator(".own").text_content() for cell in cells)
    assert [text[:3] for text in own] == ["Add", "Mul"]
    for cell in cells:
        place = cell.locator(".own").bounding_box()
        box = cell.bounding_box()
        assert place["x"] + place["width"] <= box["x"] + box["width"] + 1


def test_the_end_of_a_path_that_is_a_prefix_is_shown(shown):
    column = _cells(shown.page, "module_totals", "module path")
    cells = {cell.text_content(): cell for cell in column}
    for path in (OUTER, INNER):
        own = cells[path].locator(".own").text_content()
        assert path.endswith(own)
        assert len(own) >= 10
        wide = "(span) => span.scrollWidth <= span.clientWidth"
        assert cells[path].locator(".own").evaluate(wide)


def test_figures_of_a_column_have_one_unit_and_equal_decimals(shown):
    cells = _cells(shown.page, "kernels", "kernel ms")
    assert [cell.text_content() for cell in cells] == ["2.500", "1.235", "1.000"]


def test_a_group_of_one_rank_is_no_ranks(tmp_path, in_browser):
    for rank, ends in enumerate((100, 100, 50)):
        content = {
            "distributedInfo": {"rank": rank, "world_size": 3},
            "traceEvents": [kernel("k", 0, ends), kernel("k", 190, 200)],
        }
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(content), encoding="utf-8")
    with tracekit.open(tmp_path, cache=False) as trace:
        groups = trace.query("rank_groups").to_dicts()
        page = in_browser(trace).page
    labels = page.locator("[data-chart=rank_groups] svg text[text-anchor=end]")
    assert labels.all_text_contents() == [
        f"group 1 · 2 ranks · {groups[0]['alike']}",
        f"group 2 · 1 rank · {groups[1]['alike']}",
    ]


def test_paper_has_the_heads_of_tables_and_all_of_them_within_its_width(shown):
    page = shown.page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    heads = page.locator("[data-rows=kernels] th button")
    assert heads.count() > 5
    assert all(head.is_visible() for head in heads.all())
    assert not page.locator("[data-rows=kernels] input").is_visible()
    wider = page.evaluate(
        """() => [...document.querySelectorAll('.scroll > table')].filter((table) =>
            table.getBoundingClientRect().width > table.parentElement.clientWidth + 1
        ).map((table) => table.dataset.table)"""
    )
    assert wider == []
    widths = page.locator("[role=tabpanel] .plot > svg").evaluate_all(
        "all => all.map((svg) => svg.getBoundingClientRect().width)"
    )
    assert len(widths) == 3
    assert len(set(widths)) == 1
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("html.printing").count() == 0
    assert page.locator("[role=tabpanel][hidden]").count() == 2
    assert page.locator("[data-rows=kernels] input").is_visible()


def test_everything_is_drawn_without_scrolling_and_a_wide_row_is_a_list(browser, tmp_path):
    file = tmp_path / "report.html"
    with tracekit.open(SAMPLES / "finetune_QL") as trace:
        write(report(trace, ["finetune_QL"]), file)
    page = browser.new_page(viewport={"width": 1350, "height": 900})
    page.goto(file.as_uri())
    for drawn_last in ("[data-rows=health] table", "#events-view canvas"):
        page.locator(drawn_last).wait_for()
    assert page.locator("[data-rows]:not([data-filled])").count() == 0
    assert page.locator("[data-rows=run] table.list").count() == 1
    fits = "(table) => table.offsetWidth <= table.parentElement.clientWidth"
    assert page.locator("table.single").evaluate_all(f"all => all.every({fits})")


def test_paper_counts_omitted_rows(tiny_trace, in_browser):
    events = [kernel(f"k{at}", at * 10, at * 10 + 5) for at in range(15)]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        page = in_browser(trace).page
    printed = page.locator("[data-rows=kernels] .printed")
    assert not printed.is_visible()
    page.emulate_media(media="print")
    assert printed.is_visible()
    assert printed.text_content() == "the first 12 of 15 rows"


def test_a_sentence_that_rows_have_in_common_is_written_out_once(tiny_trace, in_browser):
    events = [
        span("cpu_op", "aten::mm", 0, 10),
        span("cpu_op", "aten::add", 20, 30),
        span("cuda_runtime", "cudaLaunchKernel", 2, 3, correlation=5),
        span("cuda_runtime", "cudaLaunchKernel", 22, 23, correlation=6),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        reasons = trace.query("unrecorded").column("reason")
        page = in_browser(trace).page
    assert len(reasons) > 1
    assert len(set(reasons)) == 1
    cells = _cells(page, "unrecorded", "reason")
    assert [cell.text_content() for cell in cells] == reasons
    assert page.locator("[data-rows=unrecorded] td.long").count() == 1
    # Also in the verdict, as the reason for a missing breakdown.
    verdict_text = page.locator("#verdict").text_content()
    assert reasons[0][1:] in verdict_text


def test_accents_upon_accents_stay_in_their_line(tiny_trace, in_browser):
    with tracekit.open(tiny_trace([kernel("e" + "\u0301" * 300, 0, 9)]), cache=False) as trace:
        page = in_browser(trace).page
    (cell,) = _cells(page, "kernels", "name")
    assert cell.text_content() == "e" + "\u0301" * 4 + "\\u0301" * 296
    assert "\u0301" * 5 not in page.locator("[data-chart=kernels]").text_content()


# Texts that leave their chart or overlap another text; numbers on marks are not checked.
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


def _at(drawn, width):
    drawn.page.set_viewport_size({"width": width, "height": 900})
    drawn.page.wait_for_timeout(200)
    drawn.show_all()
    return drawn.page


@pytest.fixture(scope="module")
def of_a_sample(opened):
    """Return the report of a sample with data for most charts."""
    return report(opened(SAMPLES / "pretrain_R+Z3"), ["trace.json"])


@pytest.mark.parametrize("width", [400, 1100])
def test_no_label_is_cut_or_covered(of_a_sample, in_browser, width):
    assert _at(in_browser(of_a_sample), width).evaluate(_WRONG) == []


def test_no_label_of_several_runs_is_cut(in_browser):
    with tracekit.open(SAMPLES, cache=False) as runs:
        html = overview_page(runs, [str(SAMPLES)], several_runs(runs, [str(SAMPLES)]))
    for width in (400, 1100):
        assert _at(in_browser(html), width).evaluate(_WRONG) == []


def test_names_on_the_timeline_end_within_their_events(tiny_trace, in_browser):
    wide = "WWWWMMMM_SENDRECV_RING_SIMPLE_SUM_INT8_T"
    events = [kernel(wide * 3, at * 100, at * 100 + 90) for at in range(8)]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        page = in_browser(trace).page
    count, over = page.evaluate(_NAMES)
    assert count == len(events)
    assert over == []


def test_a_logarithmic_axis_is_named_all_along(tiny_trace, in_browser):
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


def test_health_warnings_are_never_hidden(tiny_trace, in_browser):
    text = json.dumps({"traceEvents": [kernel("k", 0, 5), kernel("k", 9, 12)]})[:-60]
    file = tiny_trace(text)
    with tracekit.open(file, cache=False) as trace:
        health = trace.health().to_dicts()
        page = in_browser(trace).page
    assert "warning" in page.locator(".badge").text_content()
    warned = [row["metric"] for row in health if row["severity"] == "warn"]
    assert warned
    lines = page.locator("[data-rows=health] tbody tr")
    assert lines.locator("td:nth-child(1)").all_text_contents()[: len(warned)] == warned
    assert page.locator("[data-rows=health] tr.warn").count() == len(warned)


def test_a_single_device_has_one_table_without_its_number(tiny_trace, in_browser):
    file = tiny_trace([kernel("k", 0, 5), kernel("k", 9, 12)])
    with tracekit.open(file, cache=False) as trace:
        shares = [row for row in trace.health().to_dicts() if row["unit"] == "pct"]
        page = in_browser(trace).page
    share = next(row for row in shares if row["value"] is not None)
    assert page.locator("[data-rows=phases]").count() == 0
    heads = page.locator("[data-rows=timeline] th").all_text_contents()
    assert heads[0] == "window µs"
    assert "device" not in heads
    page.locator("[data-rows=health] ~ button.all, [data-rows=health] button.all").click()
    health = page.locator("[data-rows=health] tr", has_text=share["metric"]).first
    assert f"{share['value']:g} %" in health.text_content()
    assert page.locator("[data-rows=health] th", has_text="unit").count() == 0
