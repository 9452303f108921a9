"""The report of several runs: figures, links, and differences of two runs."""

import json
import re
import shlex
import shutil
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from every_trace import REPO
from traces_by_hand import kernel, work

import tracekit
from tracekit.report import overview_page, several_runs
from tracekit.report.overview_page import Run, file_names

SAMPLES = REPO / "sample_traces"


@pytest.fixture
def sweep(make_run):
    for name, opt, end in (("naive", "Naive", 60), ("z2", "Z2", 75)):
        made = make_run(name, into="sweep", opt=opt, outcome="ok")
        events = [kernel("gemm", 0, 40), kernel("softmax", 50, end)]
        (made / "rank0.json").write_text(json.dumps({"traceEvents": events}))
    return made.parent


def test_the_samples_side_by_side(page_data):
    with tracekit.open(SAMPLES, cache=False) as runs:
        several = several_runs(runs, [str(SAMPLES)])
        html = overview_page(runs, [str(SAMPLES)], several)
        expected = {
            name: json.loads(json.dumps(runs.query(name).rows)) for name in ("methods", "run")
        }
        assert html == overview_page(runs, [str(SAMPLES)], several)
    folders = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
    assert sorted(run.name for run in several) == folders
    assert "6 runs: " in html
    data = page_data(html)
    assert {"methods", "method_memory", "throughput", "ttft_cdf"} <= set(data["charts"])
    assert data["data"]["methods"]["rows"] == expected["methods"]
    assert data["data"]["run"]["rows"] == expected["run"]
    assert "The paper:" not in html
    assert not any(name.startswith("paper") for name in data["data"])
    for run in several:
        assert Path(run.named) == SAMPLES / run.name
        command = f"tracekit report {shlex.quote(run.named)} -o report.html"
        assert command in unescape(html)


def test_one_run_is_not_several_and_a_trace_alone_is_none(tiny_trace):
    run = SAMPLES / "pretrain_R+Z3"
    with tracekit.open(run, traces=False, cache=False) as one:
        assert several_runs(one, [str(run)]) == []
    with tracekit.open(tiny_trace([kernel("k", 0, 5)]), cache=False) as trace:
        assert several_runs(trace, ["t.json"]) == []


def test_a_folder_of_runs_with_a_report_of_each(cli, sweep, make_run, tmp_path):
    """An unreadable run has no report, and the page says so."""
    out = tmp_path / "overview.html"
    done = cli("report", sweep, "-o", out)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    text = unescape(out.read_text("utf-8"))
    compared = f"tracekit report {sweep / 'naive'} {sweep / 'z2'} -o difference.html"
    assert compared in text
    assert not re.findall(r'href="(?!#)', text.partition("<script")[0])
    unread = make_run("unread", into="sweep", outcome="ok")
    (unread / "rank0.json").write_text("no trace")
    done = cli("report", sweep, "-o", out, "--each")
    assert done.exit_code == 0, done.stderr
    assert f"warning: no report for {unread}: " in done.stderr
    assert f"tracekit report {unread} -o report.html" in out.read_text("utf-8")
    links = [unquote(link) for link in re.findall(r'href="([^"#]+)"', out.read_text("utf-8"))]
    assert links == ["overview-runs/naive.html", "overview-runs/z2.html"]
    for link in links:
        assert "<main>" in (out.parent / link).read_text("utf-8")
    (out.parent / links[0]).write_text("precious")
    done = cli("report", sweep, "-o", out, "--each")
    assert done.exit_code == 2
    assert "exists and is not a report" in done.stderr
    assert (out.parent / links[0]).read_text() == "precious"


def test_two_runs_are_compared(cli, sweep, tmp_path):
    out = tmp_path / "difference.html"
    done = cli("report", sweep / "naive", sweep / "z2", "-o", out)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.startswith(f"comparing two runs: {sweep / 'naive'} → {sweep / 'z2'}\n")
    text = unescape(out.read_text("utf-8"))
    assert f"tracekit compare {sweep / 'naive'} {sweep / 'z2'} --format json" in text
    again = cli("report", sweep / "z2", "--base", sweep / "naive", "-o", out)
    assert (again.exit_code, unescape(out.read_text("utf-8"))) == (0, text)
    done = cli("report", sweep / "naive", sweep / "z2", "--base", sweep / "z2", "-o", out)
    assert (done.exit_code, "--base" in done.stderr) == (2, True)


@pytest.mark.nightly("draws three reports")
@pytest.mark.parametrize("are_ranks", [False, True])
def test_two_traces_are_two_runs_unless_they_are_ranks_of_one(cli, tiny_trace, tmp_path, are_ranks):
    traces = []
    for rank, end in enumerate((200, 260)):
        members = {"distributedInfo": {"rank": rank, "world_size": 2}} if are_ranks else {}
        events = [*work(0, 5, 100, 1), *work(120, 125, end, 2)]
        traces.append(tiny_trace(events, name=f"{rank}.json", **members))
    done = cli("report", *traces, "-o", tmp_path / "difference.html")
    assert done.exit_code == 0, done.stderr
    assert ("two runs" in done.stderr) != are_ranks


def test_names_of_runs_are_anybodys(tmp_path, make_run):
    evil = "<img src=x onerror=alert(1)>"
    runs = [Run(name, f"a/{name}", "ok", "serve") for name in (evil, "../x", "-f", "a", "a", "C+D")]
    names = file_names(runs)
    assert names == ["run-1.html", "run-2.html", "run-3.html", "a.html", "run-5.html", "C+D.html"]
    folder = make_run("r")
    shutil.copytree(folder, folder.with_name("s"))
    with tracekit.open(folder, folder.with_name("s"), traces=False, cache=False) as opened:
        html = overview_page(opened, [evil], runs, {"a/-f": "o-runs/run-3.html"})
    before = html.partition("<script")[0]
    assert "<img" not in before
    assert "onerror=alert(1)&gt;" in before
    assert 'href="o-runs/run-3.html"' in before
