"""The page of a report as text: its policy, its escapes, its bounds, its file."""

import base64
import gzip
import hashlib
import json
import re
from html import escape

import pytest
from every_trace import MADE_UP, REPO
from traces_by_hand import kernel, span, work

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Column, Result
from tracekit.plot import chart_names
from tracekit.report import check_output, report
from tracekit.report.budget import MAX_BYTES, MAX_ROWS, cut
from tracekit.report.document import in_script
from tracekit.report.sections import RUN_SECTIONS, SECTIONS
from tracekit.report.verdict import sentences


@pytest.fixture(scope="module")
def html(opened):
    return report(opened(MADE_UP), ["runs/my run"])


def test_the_policy_allows_only_the_content_of_the_page(html):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    rules = policy[1].replace("&#x27;", "'").split("; ")
    assert rules[0] == "default-src 'none'"
    names = {rule.split()[0] for rule in rules}
    assert names == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    assert "unsafe" not in policy[1]
    for kind, element in (("script-src", "script"), ("style-src", "style")):
        (inside,) = re.findall(f"<{element}>(.*?)</{element}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in rules


def test_the_page_has_no_external_links_and_no_inline_handlers(html):
    outside_of_sql = re.sub(r"<pre>.*?</pre>|<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", outside_of_sql)
    assert not re.findall(r"<[^>]+\son\w+=", outside_of_sql)
    assert not re.findall(r"<[^>]+\sstyle=", outside_of_sql)


def test_commands_are_quoted_for_a_shell(html):
    assert "tracekit query timeline &#x27;runs/my run&#x27; --format json" in html


def test_events_are_packed_without_loss(html, opened):
    packed = re.search(r'id="events-data">([^<]+)<', html)
    content = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    rows = opened(MADE_UP).query("timeline_events").to_dicts()
    found = []
    for track in content["tracks"]:
        if "host" in track["label"]:
            continue
        start = 0
        for at, delta in enumerate(track["start"]):
            start += delta
            name = content["names"][track["name"][at]]
            found.append((start, track["dur"][at], name, track["event"][at]))
    expected = [(r["start_ns"], r["dur_ns"], r["name"], r["event_id"]) for r in rows]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "\u2028\u2029", "a&b", "]]>"])
def test_json_in_a_page_cannot_end_its_element(text):
    written = in_script(json.dumps({"name": text}, ensure_ascii=False))
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == {"name": text}


def test_sections_name_existing_charts_and_analyses():
    charts = [name for section in SECTIONS for name in section.charts]
    assert len(charts) == len(set(charts))
    of_runs = {name for section in RUN_SECTIONS for name in section.charts}
    assert {*charts, *of_runs} == set(chart_names())
    for section in SECTIONS:
        for table in (*section.tables, *section.drawn):
            assert table in load_catalog().analyses, table


def test_a_result_is_cut_by_rows_and_by_text():
    columns = (Column("name", "VARCHAR"), Column("total_wall_ns", "BIGINT"))
    many = Result("kernels", columns, [(f"k{at}", at) for at in range(5_000)])
    assert cut(many).shown.rows == many.rows[:MAX_ROWS]
    assert "4,000 of 5,000 rows are omitted" in cut(many).note("tracekit …")
    long = Result("kernels", columns, [("x" * 10_000, at) for at in range(100)])
    assert len(cut(long).shown) < 100
    assert sum(len(row[0]) for row in cut(long).shown) <= MAX_BYTES
    assert cut(Result("kernels", columns, [("a", 1)])).note("") == ""


def test_complete_lines_over_time_are_kept():
    columns = (Column("rank", "INTEGER"), Column("device", "VARCHAR"), Column("at_ns", "BIGINT"))
    rows = [(rank, "0", at) for rank in range(5) for at in range(300)]
    shown = cut(Result("memory_over_time", columns, rows)).shown
    assert shown.rows == rows[:900]
    one = [(0, "0", at) for at in range(5_000)]
    assert cut(Result("memory_over_time", columns, one)).shown.rows == one[:MAX_ROWS]


def test_of_a_picture_the_largest_rows_stay_in_their_order():
    columns = (Column("from_ns", "BIGINT"), Column("total_wall_ns", "BIGINT"))
    rows = [(at, at % 2 * 1_000 + at) for at in range(3_000)]
    shown = cut(Result("module_icicle", columns, rows)).shown
    assert len(shown) <= MAX_ROWS
    assert shown.rows == sorted(shown.rows)
    assert min(row[1] for row in shown) > sorted(row[1] for row in rows)[-1_001 - 1]


def test_the_page_has_the_verdict_of_the_analysis(html, opened):
    trace = opened(MADE_UP)
    verdict = trace.query("verdict")
    topics = {row["topic"]: row for row in verdict.to_dicts()}
    largest = max(trace.query("kernel_class_totals").to_dicts(), key=lambda row: row["wall_ns"])
    assert topics["largest_part"]["subject"] == largest["class"]
    texts = sentences(verdict)
    assert any(f"{topics['largest_loss']['share_pct']:.1f} %" in sentence for sentence in texts)
    assert any(f"{largest['class']} kernels, " in sentence for sentence in texts)
    for sentence in texts:
        assert escape(sentence) in html
    assert sentences(None) == []


def test_the_verdict_refers_to_the_unprofiled_step(opened):
    verdict, classes = map(opened(MADE_UP).query, ("verdict", "kernel_class_totals"))
    step = {"step_ns": 1_600_000, "idle_pct": 90.0, "idle_ns": 1_440_000}
    first, last = sentences(verdict, None, step, classes)
    assert "160.0 µs of an unprofiled step of 1.60 ms, 10.0 %, in " in first
    assert last.endswith("an unprofiled step of 1.60 ms is idle for 1.44 ms, 90.0 %.")
    # The user's rules may give a class two kinds.
    twice = Result(classes.name, classes.columns, [*classes.rows, *classes.rows])
    assert "320.0 µs of an unprofiled step" in sentences(verdict, None, step, twice)[0]
    none = Result(classes.name, classes.columns, [])
    assert sentences(verdict, None, step, none)[0] == sentences(verdict)[0]


def test_the_verdict_without_device_work_and_with_unexplained_idle_time(tiny_trace):
    with tracekit.open(tiny_trace([span("cpu_op", "x", 0, 9)]), cache=False) as trace:
        nothing = trace.query("verdict")
    columns = nothing.columns
    assert len(sentences(Result("verdict", columns, []))) == 1
    values = {
        "topic": "largest_loss",
        "subject": "unknown",
        "amount_ns": 5_000_000,
        "share_pct": 50.0,
        "count": 2,
    }
    row = tuple(values.get(column.name) for column in columns)
    (texts,) = sentences(Result("verdict", columns, [row]))
    assert "without a known cause (2 gaps), 5.000 ms, 50.0 %" in texts
    values = {"topic": "trust", "subject": "launches_without_work", "value": 75.0, "unit": "pct"}
    row = tuple((values | {"meaning": "calls"}).get(column.name) for column in columns)
    (texts,) = sentences(Result("verdict", columns, [row]))
    assert texts == "No verdict: launches_without_work 75.0 % (calls)."


def test_every_table_and_its_columns_are_described(html, page_data):
    content = page_data(html)
    for section in SECTIONS:
        for table in section.tables:
            if f'data-rows="{table}"' not in html:
                continue
            spec = load_catalog().analysis(table)
            assert escape(spec.description) in html, table
            meanings = [column.meaning for column in spec.columns]
            assert content["data"][table]["meanings"] == meanings, table


def test_the_command_writes_a_file_and_replaces_only_reports(cli, tiny_trace, tmp_path):
    trace = tiny_trace([kernel("k", 0, 10), kernel("k", 20, 30)])
    out = tmp_path / "report.html"
    done = cli("report", trace, "-o", out)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith(f"{out}: ")
    assert out.read_text("utf-8").endswith("</html>\n")
    check_output(out)  # It is a report, which may be replaced.
    out.write_text("precious")
    done = cli("report", trace, "-o", out)
    assert done.exit_code == 2
    assert "exists and is not a report" in done.stderr
    assert out.read_text() == "precious"
    assert cli("report", trace, "-o", out, "--force").exit_code == 0
    assert cli("report", trace, "-o", tmp_path).exit_code == 2
    done = cli("report", trace, "-o", tmp_path / "none" / "r.html")
    assert done.exit_code == 4
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


@pytest.mark.nightly("writes the report of a complete run")
def test_a_serving_report_opens_with_its_run_and_its_requests(opened):
    html = report(opened(REPO / "sample_traces" / "serve_vllm"), ["r"])
    assert len(html.encode()) < 5_000_000
    assert "<h1>serve_vllm</h1>" in html
    top, _, sections = html.partition("<nav")
    assert "output tokens/s" in top
    assert "Gains are per run of 124.1 ms (unprofiled, estimated)." in top
    assert top.index('class="tiles"') < top.index('id="advice"') < top.index('id="verdict"')
    assert html.count('data-chart="timeline"') == 1
    assert sections.index('<section id="serving"') < sections.index('<section id="devices"')
    training = report(opened(REPO / "sample_traces" / "pretrain_R+Z3"), ["r"])
    assert training.index('<section id="devices"') < training.index('<section id="steps"')


def test_a_chart_of_one_step_is_a_sentence_and_a_file_is_named_without_its_folder(tiny_trace):
    events = [span("user_annotation", "ProfilerStep#1", 0, 30), kernel("k", 5, 10, 5)]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        page = report(trace, ["/somewhere/else/one.json"])
        assert page == report(trace, ["/somewhere/else/one.json"])
    assert "<h1>one.json</h1>" in page
    assert 'data-chart="steps"' not in page


def test_the_idle_time_of_phases_adds_up_to_that_of_the_step(tiny_trace):
    """Two steps of 100 µs work for 35 µs each, the first after 20 µs."""
    events = [span("user_annotation", f"ProfilerStep#{n}", 100 * n, 100 * n + 100) for n in (1, 2)]
    path = tiny_trace([*events, *work(105, 120, 155, 1), *work(205, 220, 255, 2)])
    with tracekit.open(path, cache=False) as trace:
        page = report(trace, ["steps.json"])
    assert sum(map(float, re.findall(r", idle: ([\d.]+) µs per step<", page))) == 65
    assert "<dt>GPU idle</dt><dd>65.0 µs</dd>" in page
