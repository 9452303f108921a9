"""`tracekit browse` with the keyboard, on a screen of 80 columns and 24 rows."""

import json
import subprocess
import sys
import threading

import pytest
from browse_by_keyboard import lines, walk
from every_trace import MADE_UP, REPO
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.browse import check_installed
from tracekit.browse import page as pages
from tracekit.browse.query_worker import Answers
from tracekit.browse.views import VIEWS, Modules, Overview
from tracekit.errors import UsageError
from tracekit.trace import Trace

pytest.importorskip("textual", reason="textual is not installed")

HOSTILE = "[bold red]evil[/] \x1b[2J\u202egnp'; DROP"
EVENTS = [
    span("cpu_op", "aten::mm", 0, 40),
    call(1, 3, 11),
    call(4, 5, 12),
    call(6, 7, 13),
    kernel("gemm", 4, 9.001, 11),
    kernel(HOSTILE, 10, 12, 12),
    kernel("gemm", 32, 33, 13),
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    file = tmp_path_factory.mktemp("browsed") / "trace.json"
    file.write_text(json.dumps({"traceEvents": EVENTS}), "utf-8")
    with tracekit.open(file, cache=False) as opened:
        yield opened


def test_down_to_an_event_and_its_reason_and_back(trace):
    async def steps(screen):
        first = lines(screen.text)
        assert first[0].startswith("Overview")
        # 5.001 + 2 + 1 of 29 µs; the two gaps are 0.999 and 20 µs.
        assert "compute ██▊ 0.008001 – 27.6 – 0" in first
        assert "idle ███████▎ – 0.02100 72.4 – 0" in first
        assert max(map(len, screen.text.split("\n"))) <= 80
        events = lines(await screen.press("enter"))
        assert [line.split()[0] for line in events[2:5]] == ["0.005001", "0.002000", "0.001000"]
        assert "› Events: compute of device 0 of traces without a rank" in events[0]
        event = await screen.press("enter")
        assert "› › Event 4: gemm" in event
        assert any(line.startswith("dur_ns 5001 attribution") for line in lines(event))
        assert "decides" in await screen.press("enter")
        assert (await screen.press("escape")) == event
        await screen.press("backspace", "escape")
        assert lines(screen.text)[0].startswith("Overview")
        assert "q quits" in await screen.press("escape")

    walk(trace, steps)


def test_a_gap_opens_the_events_around_it(trace):
    async def steps(screen):
        gaps = lines(await screen.press("4"))
        assert gaps[2].startswith("0.02000 0.01200 ")
        around = await screen.press("enter")
        assert [line.split()[0] for line in lines(around)[2:5]] == ["ran", "op", "ran"]
        # The details of a kernel have a row for its launch, which opens the call.
        await screen.press("down", "down", "enter", "slash", *"launch_id", "enter")
        assert "cudaLaunchKernel" in await screen.press("enter")

    walk(trace, steps)


def test_search_sql_and_help(trace):
    async def steps(screen):
        await screen.press("3")
        assert "rows 1 to 2 of 2" in screen.text
        assert "rows 1 to 1 of 1" in await screen.press("slash", *"GEMM", "enter")
        await screen.press("enter", "slash", *"nosuch", "enter")
        assert "no rows" in screen.text
        assert "rows 1 to 2" in await screen.press("escape")
        definition = await screen.press("s")
        assert """tracekit sql 'run'"'"'s.json' - <<'SQL'""" in definition
        await screen.press("escape", "1", "s")
        assert "tracekit query timeline" in screen.text
        assert "open the row" in await screen.press("escape", "question_mark")
        assert lines(await screen.press("q"))[0].startswith("Overview")

    walk(trace, steps)


def test_the_shown_sql_returns_the_rows(trace):
    answers = Answers(trace)
    view = VIEWS["3"][1]
    for row in view.page(answers, 0, "").rows:
        below = view.deeper(row)
        definition = below.definition(["t"], "'").split("\n")
        shown = below.page(answers, 0, "'").rows
        assert (definition[0], definition[-1]) == ("tracekit sql t - <<'SQL'", "SQL")
        statement = "\n".join(definition[1:-1])
        assert all(one.isprintable() for one in statement.replace("\n", ""))
        assert trace.sql(statement).to_dicts() == shown
        assert len(shown) == (1 if row["name"] == HOSTILE else 0)


def test_hostile_names_are_text(trace):
    async def steps(screen):
        await screen.press("3", "down")
        assert r"[bold red]evil[/] \x1b[2J\u202egnp'; DROP" in screen.text
        for keys in (("enter",), ("enter",), ("s",)):
            text = await screen.press(*keys)
            assert "\x1b" not in text
            assert "\u202e" not in text
        assert "[bold red]evil[/]" in await screen.press("escape")

    walk(trace, steps, width=120)


def test_pages_and_another_size(tiny_trace, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_ROWS", 2)
    events = [kernel(f"k{number}", number, number + 0.5) for number in range(5)]

    async def steps(screen):
        for key in ("3", "4"):
            await screen.press(key)
            assert "rows 1 to 2" in screen.text
            assert "n shows more" in screen.text
        await screen.press("3", "n")
        assert "rows 3 to 4 of 5" in screen.text
        assert "rows 5 to 5 of 5" in await screen.press("n", "n")
        assert "rows 3 to 4 of 5" in await screen.press("p")
        await screen.pilot.resize_terminal(60, 16)
        text = await screen.press()
        assert max(map(len, text.split("\n"))) <= 60
        assert "rows 3 to 4 of 5" in text

    with tracekit.open(tiny_trace(events), cache=False) as trace:
        walk(trace, steps, width=200)


def test_quitting_ends_the_running_query(tiny_trace, monkeypatch):
    begun = threading.Event()
    endless = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b"
    query = Trace.query

    def slow(self, name, **params):
        if name == "health":
            begun.set()
            return self.sql(endless)
        return query(self, name, **params)

    monkeypatch.setattr(Trace, "query", slow)

    async def steps(screen):
        await screen.pilot.press("7")
        while not begun.is_set():
            await screen.pilot.pause(0.01)
        # The screen responds while the query runs. Another query ends it, and its result may
        # arrive below the help.
        assert "running query" in screen.text
        await screen.pilot.press("3", "question_mark")
        assert "open the row" in await screen.press()
        assert "gemm" in await screen.press("escape")
        begun.clear()
        await screen.pilot.press("7")
        while not begun.is_set():
            await screen.pilot.pause(0.01)
        await screen.pilot.press("q")

    with tracekit.open(tiny_trace(EVENTS), cache=False) as trace:
        walk(trace, steps)
    assert not [one for one in threading.enumerate() if "tracekit-browse" in one.name]


def test_without_textual_an_error_is_shown(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="textual is not installed") as raised:
        check_installed()
    assert raised.value.hint == "pip install '.[tui]'"


def test_the_command_does_not_import_textual_before_it_is_used():
    imported = "sys, tracekit.cli.commands.browse, tracekit.browse"
    program = f"import {imported}; sys.exit('textual' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def summing(trace):
    """Return the answers of a trace, and a function that sums a column of the rows of a view."""

    def below(view, column="dur_ns"):
        ((total,),) = trace.sql(f"SELECT coalesce(sum({column}), 0)::BIGINT FROM ({view.select})")
        return total

    return Answers(trace), below


@pytest.mark.nightly("reads a complete run")
def test_the_events_of_a_row_add_up_to_the_row(opened):
    """Two ranks with CPU ops in segments: no event and no gap is omitted or duplicated."""
    trace = opened(REPO / "sample_traces" / "pretrain_R+Z3")
    answers, below = summing(trace)
    phases = trace.query("phases").to_dicts()
    kernel_ns = {(row["rank"], row["phase"]): row["kernel_ns"] for row in phases}
    overview = Overview()
    for row in overview.page(answers, 0, "").rows:
        view = overview.deeper(row)
        if row["split"] == "phase":
            assert below(view, "dur_ns") == kernel_ns[row["rank"], row["part"]]
        elif row["part"] == "idle":
            assert below(view, "idle_ns") == row["idle_ns"]
        else:
            shown = view.page(answers, 0, "").rows
            assert below(view, "wall_ns") == row["wall_ns"]
            assert all(one["wall_ns"] > 0 for one in shown)
    for key, column, total in (("3", "dur_ns", "kernel_ns"), ("5", "idle_ns", "idle_ns")):
        for row in VIEWS[key][1].page(answers, 0, "").rows[:3]:
            assert below(VIEWS[key][1].deeper(row), column) == row[total]
    top = Modules().page(answers, 0, "").rows
    inner = next(row for row in top if row["has_inner"])
    for row in [*top, *Modules(inner["module_path"]).page(answers, 0, "").rows]:
        assert below(Modules().events(row), "dur_ns") == row["total_kernel_ns"]


def test_collectives_lead_to_their_events(tiny_trace):
    shared = {"Group size": 2, "dtype": "Float", "In msg nelems": 1_000, "Out msg nelems": 1_000}
    events = [
        span("cpu_op", "aten::mm", 0, 40),
        call(1, 3, 11),
        call(4, 5, 12),
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 4, 9, 11, **shared),
        kernel(f"ncclDevKernel_AllGather{HOSTILE}", 10, 12, 12, stream=8, **shared),
    ]

    async def steps(screen):
        shown = lines(await screen.press("8"))
        assert shown[0].startswith("Collectives")
        assert [float(line.split()[0]) for line in shown[2:4]] == [0.005, 0.002]
        assert "comm_allreduce" in shown[2]
        assert "rows 1 to 2 of 2" in screen.text
        assert max(map(len, screen.text.split("\n"))) <= 80
        below = await screen.press("down", "enter")
        assert "rows 1 to 1" in below
        assert [float(word) for word in lines(below)[2].split()[:2]] == [0.002, 0.01]
        assert "\x1b" not in below
        assert "Event 4: ncclDevKernel_AllGather[bold red]evil[/]" in await screen.press("enter")

    with tracekit.open(tiny_trace(events), cache=False) as trace:
        walk(trace, steps)


def test_steps_lead_to_their_events(tiny_trace):
    events = [
        span("user_annotation", "ProfilerStep#3", 0, 10),
        span("user_annotation", "ProfilerStep#4", 10, 20),
        call(1, 3, 11),
        call(12, 13, 12),
        call(22, 23, 13),
        kernel("a", 4, 9, 11),
        kernel("b", 14, 16, 12),
        kernel("c", 24, 25, 13),
    ]

    async def steps(screen):
        shown = lines(await screen.press("9"))
        assert [line.split()[:2] for line in shown[2:5]] == [
            ["3", "0.010"],
            ["4", "0.010"],
            ["–", "–"],
        ]
        for name in "abc":
            below = await screen.press("enter")
            assert "rows 1 to 1" in below
            assert f" {name} " in lines(below)[2]
            await screen.press("escape", "down")

    with tracekit.open(tiny_trace(events), cache=False) as trace:
        walk(trace, steps)


def test_a_trace_without_requests_is_reported(trace):
    async def steps(screen):
        shown = await screen.press("0")
        assert lines(shown)[0].startswith("Serving requests")
        assert "running query" not in shown
        assert lines(await screen.press("8"))[0].startswith("Collectives")

    walk(trace, steps)


@pytest.mark.nightly("walks through complete runs")
def test_the_events_of_steps_and_requests_add_up(opened):
    """Of a recorded run of serving: a request leads to its steps, and each to its events."""
    trace = opened(REPO / "sample_traces" / "serve_transformers")
    answers, below = summing(trace)
    for row in VIEWS["9"][1].page(answers, 0, "").rows:
        assert below(VIEWS["9"][1].deeper(row)) == row["kernel_ns"]
    kernel_ns = {row["step"]: row["kernel_ns"] for row in trace.query("serving_steps").to_dicts()}
    steps = {}
    for row in VIEWS["0"][1].page(answers, 0, "").rows:
        view = VIEWS["0"][1].deeper(row)
        steps |= {step["step"]: view.deeper(step) for step in view.page(answers, 0, "").rows[:3]}
    assert steps
    assert all(below(view) == kernel_ns[step] for step, view in steps.items())


def test_work_on_the_critical_path_leads_to_its_event(opened):
    trace = opened(MADE_UP)
    answers, view = Answers(trace), VIEWS["c"][1]
    rows = view.page(answers, 0, "").rows
    work = [row for row in rows if row["kind"] in ("work", "transfer")]
    assert work
    for row in work[:3]:
        deeper = view.deeper(row)
        assert {one["event_id"] for one in deeper.page(answers, 0, "").rows} == {row["event_id"]}
    assert all(view.deeper(row) is None for row in rows if row not in work)


def test_a_trace_without_kernels_has_a_reason_for_no_rows(tiny_trace):
    events = [span("cpu_op", "aten::mm", 0, 40), call(1, 3, 11)]

    async def steps(screen):
        assert "no rows" in screen.text
        shown = " ".join(" ".join(lines(screen.text)).split())
        assert reason in shown
        # An unsuccessful search has another reason for no rows.
        empty = await screen.press("3", "slash", *"zzz", "enter")
        assert "no rows" in empty
        assert reason not in " ".join(lines(empty))

    with tracekit.open(tiny_trace(events), cache=False) as opened:
        (reason,) = set(opened.query("unrecorded").column("reason"))
        walk(opened, steps)


def test_health_shows_warnings_first(tiny_trace):
    text = json.dumps({"traceEvents": [kernel("k", 0, 5), kernel("k", 9, 12)]})[:-60]

    async def steps(screen):
        shown = [line.split()[:2] for line in lines(await screen.press("7"))[2:]]
        assert [metric for _, metric in shown[: len(warned)]] == warned

    with tracekit.open(tiny_trace(text), cache=False) as opened:
        health = opened.health().to_dicts()
        warned = [row["metric"] for row in health if row["severity"] == "warn"]
        assert warned
        assert [row["metric"] for row in health[: len(warned)]] != warned
        walk(opened, steps)
