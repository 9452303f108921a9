"""Reports in a browser: complete, without network requests, and with the same figures."""

import csv
import io
import json

import pytest
from every_trace import REPO
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.units import unit_of

pytestmark = pytest.mark.nightly("needs a browser")

TRAINING = "pretrain_R+Z3"

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028<b>&amp;\u202etxt.exe"


@pytest.fixture(scope="module", params=[TRAINING])
def shown(request, opened, in_browser):
    trace = opened(REPO / "sample_traces" / request.param)
    return trace, in_browser(trace, request.param)


of_training_and_serving = pytest.mark.parametrize("shown", [TRAINING, "serve_vllm"], indirect=True)


def rows_in(page, name):
    data = page.evaluate("JSON.parse(document.getElementById('page-data').textContent)")["data"]
    return [dict(zip(data[name]["columns"], row, strict=True)) for row in data[name]["rows"]]


@of_training_and_serving
def test_every_section_is_drawn_without_a_word(shown):
    _, report = shown
    page = report.page
    assert report.messages == []
    assert report.requests == [report.file.as_uri()]
    figures = page.locator("figure[data-chart]")
    assert figures.count() >= 10
    for at in range(figures.count()):
        figure = figures.nth(at)
        marks = figure.locator("svg svg > *").count()
        is_hidden = not figure.is_visible()
        assert marks or is_hidden, figure.get_attribute("data-chart")
    tables = page.locator("[data-rows] table")
    assert tables.count() == page.locator("[data-rows]").count()
    for at in range(tables.count()):
        assert tables.nth(at).locator("tbody tr").count(), tables.nth(at).get_attribute(
            "data-table"
        )


@of_training_and_serving
def test_axes_have_names_and_charts_texts_for_readers(shown):
    _, report = shown
    for svg in report.page.locator("figure[data-chart] .plot > svg").all():
        label = svg.get_attribute("aria-label")
        assert label
        titles = [text for text in svg.locator("text.title").all_text_contents() if text]
        is_heat_map = svg.locator("svg rect").count() and "share of its window" in label
        assert titles or is_heat_map, label
    assert report.page.evaluate("document.documentElement.lang") == "en"
    assert report.page.title()


@of_training_and_serving
def test_figures_are_those_of_the_analyses(shown):
    trace, report = shown
    for name in ("timeline", "phase_totals", "kernel_class_totals", "kernels", "module_totals"):
        # Via JSON, as the command writes it.
        expected = json.loads(json.dumps(trace.query(name).to_dicts()))
        assert rows_in(report.page, name) == expected, name


def test_charts_and_texts_agree_with_the_rows(shown):
    """Parts of the first bar have the widths of the window's parts; cells have exact values."""
    trace, report = shown
    first = trace.query("timeline").to_dicts()[0]
    widths = report.page.evaluate(
        """() => {
            const bars = [...document.querySelectorAll('[data-chart=timeline] svg svg rect')];
            const top = Math.min(...bars.map((bar) => bar.y.baseVal.value));
            const first = bars.filter((bar) => bar.y.baseVal.value === top);
            return first.map((bar) => bar.width.baseVal.value);
        }"""
    )
    parts = [first[f"{part}_ns"] for part in ("compute", "exposed_comm", "exposed_memcpy", "idle")]
    parts = [part for part in parts if part]
    assert [width / sum(widths) for width in widths] == pytest.approx(
        [part / first["window_ns"] for part in parts], abs=0.002
    )
    titles = (
        report.page.locator("[data-rows=timeline] tbody tr")
        .first.locator("td")
        .evaluate_all("cells => cells.map((cell) => cell.title).filter(Boolean)")
    )
    exact = [f"{c} = {v}" for c, v in first.items() if isinstance(v, int)]
    assert set(exact) <= set(titles)


def test_the_keyboard_reaches_everything(shown):
    trace, report = shown
    kernel_name = trace.query("kernels").column("name")[0]
    page = report.page
    view = "document.getElementById('events-view').timeline"
    page.locator("#events-view canvas").focus()
    whole = page.evaluate(f"{view}.to - {view}.from")
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert page.evaluate(f"{view}.to - {view}.from") == pytest.approx(whole / 4)
    before = page.evaluate(f"{view}.from")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(f"{view}.from") > before
    page.keyboard.press("0")
    assert page.evaluate(f"{view}.to - {view}.from") == pytest.approx(whole)
    page.keyboard.press("/")
    page.keyboard.type(kernel_name)
    page.keyboard.press("Enter")
    assert "of" in page.locator("#events-view .count").text_content()
    assert kernel_name in page.locator("#events-view .event-details").text_content()

    chart = page.locator("[data-chart=phase_modules] .plot > svg")
    chart.focus()
    page.keyboard.press("ArrowRight")
    tip = page.locator("[data-chart=phase_modules] .tip")
    assert tip.is_visible()
    assert "total_wall_ns" in tip.text_content()
    page.keyboard.press("Enter")
    assert page.locator("[data-chart=phase_modules] .reset").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("[data-chart=phase_modules] .reset").is_visible()

    first, second, _ = page.locator("[role=tab]").all()
    first.focus()
    page.keyboard.press("ArrowRight")
    assert second.get_attribute("aria-selected") == "true"
    page.locator("[data-chart=modules] svg").first.wait_for(state="visible")
    page.keyboard.press("ArrowLeft")


def test_tables_sort_filter_and_copy(shown):
    trace, report = shown
    page = report.page
    table = page.locator("[data-rows=kernels]")
    header = table.locator("th button", has_text="max")
    header.focus()
    page.keyboard.press("Enter")
    longest = max(trace.query("kernels").column("max_ns"))
    cells = (
        table.locator("tbody tr")
        .first.locator("td")
        .evaluate_all("cells => cells.map((cell) => cell.title)")
    )
    assert f"max_ns = {longest}" in cells
    assert table.locator("th[aria-sort=descending]").count() == 1
    table.locator("input").fill("aten::mm")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    table.get_by_text("copy as CSV").click()
    copied = list(csv.DictReader(io.StringIO(page.evaluate("window.copied"))))
    expected = [row for row in trace.query("kernels").to_dicts() if "aten::mm" in row["name"]]
    assert sorted(int(row["kernel_ns"]) for row in copied) == sorted(
        r["kernel_ns"] for r in expected
    )
    assert {row["name"] for row in copied} == {row["name"] for row in expected}
    table.locator("input").fill("")


def test_dark_mode_is_dark_and_print_is_complete(shown):
    _, report = shown
    page = report.page
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.locator("#theme").click()
    pdf = page.pdf(print_background=True)
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 50_000


def test_hostile_names_are_harmless(tiny_trace, in_browser, tmp_path):
    events = [
        span("cpu_op", HOSTILE, 0, 30, **{"External id": 1}),
        call(1, 4, 5),
        kernel(HOSTILE, 10, 40, 5),
        kernel(f"gemm {HOSTILE}", 60, 90),
        span("user_annotation", f"ProfilerStep#1{HOSTILE}", 0, 95),
    ]
    file = tiny_trace(events, name=f"{'<b>x'}.json")
    with tracekit.open(file, cache=False) as trace:
        report = in_browser(trace, f"a{HOSTILE}.json")
    page = report.page
    assert report.messages == []
    assert page.locator("img, b, iframe, object").count() == 0
    assert page.locator("script").count() == 3
    assert "</script><img" in page.locator("[data-rows=kernels] tbody").text_content()
    texts = page.evaluate("document.body.innerText")
    assert not {"\u202e", "\u2028"} & set(texts)
    # The policy blocks injected scripts and requests.
    blocked = page.evaluate(
        """async () => {
            const found = [];
            addEventListener('securitypolicyviolation', (e) => found.push(e.effectiveDirective));
            const script = document.createElement('script');
            script.textContent = 'window.wasRun = true';
            document.body.append(script);
            const image = new Image();
            image.src = 'http://127.0.0.1:9/x.png';
            document.body.append(image);
            await fetch('http://127.0.0.1:9/').catch(() => 0);
            await new Promise((done) => setTimeout(done, 100));
            return [found.sort(), window.wasRun ?? false];
        }"""
    )
    assert blocked == [["connect-src", "img-src", "script-src-elem"], False]


def test_many_events_are_drawn_within_a_frame(shown):
    """Without measuring time: a frame draws a number of items limited by pixels, not events."""
    page = shown[1].page
    count = int(page.locator("#events-view").get_attribute("data-events"))
    assert count > 15_000
    view = "document.getElementById('events-view').timeline"
    drawn = page.evaluate(
        f"""() => {{
            const view = {view};
            const counts = [];
            for (const share of [1, 0.1, 0.01, 0.0001]) {{
                view.show(view.first, view.first + (view.last - view.first) * share);
                const context = view.canvas.getContext('2d');
                const whole = context.fillRect;
                let rectangles = 0;
                context.fillRect = function (...a) {{ rectangles++; return whole.apply(this, a); }};
                view.draw();
                delete context.fillRect;
                counts.push(rectangles);
            }}
            return [counts, view.lanes.length, view.width];
        }}"""
    )
    counts, lanes, width = drawn
    assert all(count <= lanes * width for count in counts)
    assert counts[-1] >= 1


def test_the_pivot_turns(shown):
    trace, report = shown
    section = report.page.locator("#pivot")
    for rows, columns, values in (
        ("module", "phase", "span_ns"),
        ("phase", "class", "wall_ns"),
        ("class", None, "kernel_count"),
        ("step", "rank", "kernel_ns"),
    ):
        for place, value in enumerate((rows, columns or "", values)):
            section.locator("select").nth(place).select_option(value)
        show_all = section.locator("button.all")
        if show_all.is_visible() and "more" in show_all.text_content():
            show_all.click()
        wanted = trace.pivot(rows, columns, values)
        names = section.locator("thead th").all_text_contents()
        # Heads are in words, with the unit of the column.
        suffix, unit = (f"_{unit_of(values)}", " ms" if values.endswith("_ns") else "")
        assert names[:1] + names[-1:] == [rows, "share %"]
        heads = [name.removesuffix(suffix) + unit for name in wanted.column_names[1:-2]]
        assert names[1:-2] == heads
        assert names[-2] == values.removesuffix("_ns").replace("_", " ") + unit
        lines = section.locator("tbody tr").all()
        titles = [
            [cell.get_attribute("title") for cell in line.locator("td.number").all()]
            for line in lines
        ]
        for line, title, row in zip(lines, titles, wanted.rows, strict=True):
            # The tooltip of a truncated text shows the complete text.
            assert line.locator("td").first.text_content().startswith(row[0][:20])
            numbers = [int(one.partition(" = ")[2]) for one in title[:-1]]
            assert numbers == [*row[1:-1]]
