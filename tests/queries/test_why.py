"""Why a device event is where it is: what was looked at, and what decided, with its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import Event, call, span
from traces_by_hand import kernel as on_device

import tracekit
from tracekit.analysis.catalog import load_catalog

Write = Callable[..., Path]

NODE = "autograd::engine::evaluate_function: MmBackward0"
COPY = "Memcpy HtoD (Pinned -> Device)"


def launch(at: float, correlation: int, tid: int = 1) -> Event:
    return call(at, at + 1, correlation, tid=tid)


def kernel(name: str, at: float, correlation: int, stream: int = 7) -> Event:
    return on_device(name, at, at + 1, correlation, stream=stream)


def number(value: int, thread: int = 0) -> dict[str, int]:
    return {"Sequence number": value, "Fwd thread id": thread}


# One step of training. The number of an event is its place here; each kernel is named after what
# it is launched inside of.
TRAINING = [
    launch(1, 1),
    kernel(COPY, 101, 1),
    span("python_function", "nn.Module: Net_0", 10, 20),
    span("cpu_op", "aten::mm", 11, 19, **number(1)),
    launch(12, 2),
    kernel("module", 102, 2),
    span("cpu_op", "aten::sub", 22, 28, **number(2)),
    launch(23, 3),
    kernel("numbered", 103, 3),
    launch(30, 4),
    kernel("between", 104, 4),
    span("cpu_op", NODE, 40, 50, 2, **number(1, 1)),
    launch(41, 5, 2),
    kernel("node", 105, 5),
    span("user_annotation", "Optimizer.step#SGD.step", 60, 70),
    launch(61, 6),
    kernel("optimizer", 106, 6),
]

# The first three repeat three of the last; the others are alone on their streams.
UNLINKED = [
    kernel("a", 1, 1),
    kernel("b", 2, 2),
    kernel("c", 3, 3),
    kernel("d", 1, 4, stream=8),
    kernel("e", 1, 5, stream=9),
    span("user_annotation", "tk/phase/decode", 90, 99),
    *(launch(90 + correlation - 10, correlation) for correlation in (11, 12, 13, 14)),
    kernel("a", 101, 11),
    kernel("b", 102, 12),
    kernel("c", 103, 13),
    kernel("d", 104, 14),
]

GRAPH = [
    call(1, 2, 1, "cudaGraphLaunch"),
    kernel("gemm", 10, 1),
    kernel("cunn_SoftMaxBackward", 12, 1),
    kernel("multi_tensor_apply_kernel", 14, 1),
]

ALONE = [launch(1, 1), kernel("alone", 10, 1)]

# Of each trace: event, and for phase and module the rule that decided, what it said, its reason.
DECIDED: dict[str, tuple[list[Event], dict[int, list[tuple[Any, ...]]]]] = {
    "training": (
        TRAINING,
        {
            1: [(1, "data", "launch context"), (12, "(data loading)", "launch context")],
            5: [(7, "forward", "module call"), (2, "Net_0", "module call")],
            8: [(8, "forward", "sequence number"), (13, "(loss)", "phase")],
            10: [(12, "forward", "neighbours"), (13, "(loss)", "phase")],
            13: [(4, "backward", "autograd node"), (3, "Net_0", "sequence number")],
            16: [(2, "optimizer", "own range"), (1, "(optimizer)", "own range")],
        },
    ),
    "unlinked": (
        UNLINKED,
        {
            0: [(25, "decode", "repetition"), (None, "(unattributed)", "none")],
            3: [(26, "decode", "name"), (None, "(unattributed)", "none")],
            4: [(None, "other", "none"), (None, "(unattributed)", "none")],
            10: [(5, "decode", "own range"), (None, "(unattributed)", "none")],
        },
    ),
    "graph": (
        GRAPH,
        {
            1: [(10, "forward", "order of kernels"), (None, "(unattributed)", "none")],
            2: [(9, "backward", "name"), (None, "(unattributed)", "none")],
        },
    ),
    "alone": (ALONE, {1: [(11, "forward", "whole trace"), (None, "(unattributed)", "none")]}),
}


@pytest.fixture(scope="module")
def open_events(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[list[Event]], tracekit.Trace]]:
    """Return a function that opens events, the same ones once."""
    opened: dict[str, tracekit.Trace] = {}
    folder = tmp_path_factory.mktemp("why")

    def open_them(events: list[Event]) -> tracekit.Trace:
        text = json.dumps({"traceEvents": events})
        if text not in opened:
            path = folder / f"{len(opened)}.json"
            path.write_text(text, "utf-8")
            opened[text] = tracekit.open(path, cache=False)
        return opened[text]

    yield open_them
    for trace in opened.values():
        trace.close()


@pytest.mark.parametrize("name", DECIDED)
def test_what_decided(open_events: Callable[[list[Event]], tracekit.Trace], name: str) -> None:
    events, expected = DECIDED[name]
    trace = open_events(events)
    for event_id, decisions in expected.items():
        rows = trace.query("why", event_id=event_id).to_dicts()
        decided = [row for row in rows if row["is_decided"]]
        found = [(row["rule"], row["answer"], row["reason"]) for row in decided]
        assert found == decisions, event_id
        assert [row["decides"] for row in decided] == ["phase", "module"]
        for row, decides in zip(decided, ("phase", "module"), strict=True):
            # All rules before it were tried, and said nothing.
            asked = [other["rule"] for other in rows if other["decides"] == decides]
            last = row["rule"] or {"phase": 26, "module": 17}[decides]
            assert asked == [*range(1, last + 1), *([None] if row["rule"] is None else [])]
        table = trace.sql(
            "SELECT phase_rule, phase, phase_reason, module_rule, coalesce(path, row_name),"
            " module_reason FROM attribution LEFT JOIN module USING (trace_id, module_id)"
            f" WHERE event_id = {event_id}"
        ).rows
        assert table == [tuple(value for decision in decisions for value in decision)]


def test_each_reason_is_tried_and_no_other_is_given() -> None:
    sql = load_catalog().functions["attribution_rules"].sql
    listed = set(re.findall(r"^        \('([a-z ]+)', '", sql, re.MULTILINE))
    # Some stand in place of what the surroundings say, whichever rule asks for them.
    listed -= {"phase", "capture", "annotation", "query length"}
    tried = {
        reason for _, found in DECIDED.values() for two in found.values() for *_, reason in two
    }
    assert tried == listed | {"phase"}
    given = set(re.findall(r"reason: '([a-z ]+)'", sql)) | {"own range", "module call"}
    assert given == tried


@pytest.mark.parametrize("decides", ["phase", "module"])
def test_the_rules_stand_in_the_order_of_their_numbers(decides: str) -> None:
    sql = load_catalog().functions["attribution_rules"].sql
    listed = [int(rule) for rule in re.findall(rf"\('{decides}', (\d+), '", sql)]
    assert listed == list(range(1, len(listed) + 1))
    branches = re.findall(rf"rule: (\d+),[^}}]*?{decides}(?:_id)?:", sql)
    tried = list(dict.fromkeys(int(rule) for rule in branches))
    # The rules of the launch's own surroundings stand first; between them is rule 1.
    assert sorted(tried) == listed
    assert [rule for rule in tried if decides == "module" or rule > 7] == listed[
        0 if decides == "module" else 7 :
    ]


def test_all_that_is_said_of_one_event(
    open_events: Callable[[list[Event]], tracekit.Trace],
) -> None:
    traits = "the trace has some nodes of autograd, some modules, some phases by name"
    rows = open_events(TRAINING).query("why", event_id=10).to_dicts()
    said = [(row["decides"], row["rule"], row["found"]) for row in rows]
    around = (
        "before it forward (7,000 ns); after it backward (11,000 ns);"
        " no work of a model between them"
    )
    assert said == [
        ("facts", None, "between on device 0, stream 7, 1,000 ns"),
        ("facts", None, "cudaLaunchKernel, event 9, 73,000 ns before it"),
        ("facts", None, "none"),
        ("facts", None, "none"),
        ("phase", 1, "other, no module, no node"),
        ("phase", 2, "no range, call or op around its launch tells a phase"),
        ("phase", 3, "it runs for the first time"),
        ("phase", 4, "no node"),
        ("phase", 5, "no range, call or op around its launch tells a phase"),
        ("phase", 6, around),
        ("phase", 7, "no module"),
        ("phase", 8, f"no such op; {traits}"),
        ("phase", 9, f"other, between; {traits}"),
        ("phase", 10, f"other, between; {traits}"),
        ("phase", 11, f"compute; {traits}"),
        ("phase", 12, around),
        ("module", 1, "no range, call or op around its launch tells a row"),
        ("module", 2, "no module; no node"),
        ("module", 3, "no forward op, in no module"),
        ("module", 4, "no module"),
        ("module", 5, "no such hook"),
        ("module", 6, f"no range, call or op around its launch tells a row; {traits}"),
        ("module", 7, "no range of the user; no node"),
        ("module", 8, "no forward op, in no range of the user"),
        ("module", 9, "no range of the user"),
        ("module", 10, "no range, call or op around its launch tells a row"),
        ("module", 11, "compute"),
        ("module", 12, "other"),
        ("module", 13, f"forward; no node; {traits}"),
    ]


def test_kernels_by_name(open_events: Callable[[list[Event]], tracekit.Trace]) -> None:
    events = [launch(1, 1), launch(2, 2), kernel("Gemm_1", 10, 1), kernel("xGEMM", 20, 2)]
    events[3]["dur"] = 5
    trace = open_events([*events, launch(3, 3), kernel("add", 30, 3)])
    for limit, expected in ((0, [2, 3]), (1, [3])):
        rows = trace.query("why", kernel="gemm", limit=limit).column("event_id")
        assert list(dict.fromkeys(rows)) == expected
    assert trace.query("why", kernel="no such").rows == []


@pytest.mark.parametrize(
    ("event_id", "found"),
    [
        (0, "none: cudaLaunchKernel (cuda_runtime); it launched the events 1"),
        (2, "none: nn.Module: Net_0 (python_function)"),
        (99, "the trace has no event of this number"),
    ],
)
def test_what_is_no_work_of_a_device(
    open_events: Callable[[list[Event]], tracekit.Trace], event_id: int, found: str
) -> None:
    rows = open_events(TRAINING).query("why", event_id=event_id).to_dicts()
    assert [(row["event_id"], row["found"], row["answer"]) for row in rows] == [
        (event_id, found, None)
    ]


def test_the_command_asks_which_event(cli: Callable[..., Any], tiny_trace: Write) -> None:
    path = tiny_trace(ALONE)
    missing = cli("query", "why", path)
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr.startswith("error: why needs event_id or kernel\nhint: event_id is ")
    shown = cli("query", "why", path, "--event-id", "1", "--format", "json")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert [row["answer"] for row in shown.json() if row["is_decided"]] == [
        "forward",
        "(unattributed)",
    ]


def test_reasons_add_up(open_events: Callable[[list[Event]], tracekit.Trace]) -> None:
    rows = open_events(UNLINKED).query("reasons").to_dicts()
    assert [
        (row["decides"], row["reason"], row["kernel_count"], row["wall_ns"]) for row in rows
    ] == [
        ("phase", "own range", 4, 4000),
        ("phase", "repetition", 3, 3000),
        ("phase", "name", 1, 0),
        ("phase", "none", 1, 0),
        ("module", "none", 9, 7000),
    ]
