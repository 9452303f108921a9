"""The verdict in sentences, and of eight real ranks; its rows are in tests/cases/verdict.case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cases_as_ranks import opened_as_ranks
from given_rows import analysis_of, rows_of
from traces_by_hand import Event, call, kernel, span

import tracekit
from tracekit.report.verdict import sentences


def test_checks_are_counted_in_a_sentence() -> None:
    """Missing ranks are named before a share of which little is placed; a warning comes first."""
    window = rows_of("timeline", {"window_ns": 100, "device": "0", "event_count": 10})
    share = {"severity": "note", "value": 3.0, "unit": "pct", "meaning": "placed"}
    ranks = {"severity": "note", "value": 7, "unit": "count", "meaning": "of 8"}
    checks = [
        {"metric": "rejected", "severity": "ok", "value": 0, "unit": "count"},
        {"metric": "missing_ranks", **ranks},
        {"metric": "device_time_in_module_or_row", **share},
        {"metric": "zz_share", **share},
    ]
    noted = analysis_of("verdict", window, rows_of("health", *checks))
    assert sentences(noted)[-1] == (
        "1 of 4 checks passed; 3 noted, among them missing_ranks 7 (of 8)."
    )
    checks[1]["severity"] = "warn"
    warned = sentences(analysis_of("verdict", window, rows_of("health", *checks)))
    assert warned[0].startswith("Caution: ")
    assert "missing_ranks 7 (of 8)" in warned[0]


def all_reduce(start: float, end: float) -> Event:
    told = {"Collective name": "allreduce", "Process Group Name": "0", "Seq": 1}
    told |= {"Process Group Ranks": "[0, 1, 2]", "Group size": 3}
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
    return kernel(name, start, end, 2, stream=20, **told)


def test_three_ranks_of_which_one_sorts_before_the_all_reduce(tmp_path: Path) -> None:
    """Ranks 0 and 1 are in it from 110 to 310 µs, rank 2 from 290: each of them waited 180."""
    begun = [call(1, 2, 1), kernel("k", 10, 110, 1)]
    usual = [*begun, call(3, 4, 2), all_reduce(110, 310)]
    sorting = span("python_function", "data.py(7): sort_rows", 112, 282)
    late = [*begun, sorting, call(285, 288, 2), all_reduce(290, 310)]
    with opened_as_ranks(tmp_path, [usual, usual, late]) as trace:
        first, *_ = sentences(trace.query("verdict"))
    assert first == (
        "Late rank: rank 2 came last to 1 collective, for which the others waited 360.000 µs, "
        "60.0 % of their windows; it has 180.000 µs more idle time by host_bound than the median "
        "of the others, the largest share from data.py(7): sort_rows. "
        "Exposed communication of the others: 400.000 µs, 66.7 % of their windows."
    )


def test_of_eight_real_ranks_the_waits_are_those_of_collective_skew(
    public_traces: Path, opened: Callable[[Path], tracekit.Trace]
) -> None:
    """The others waited 5 ms each, and the device of rank 7 idled 1 ms longer than theirs."""
    trace = opened(public_traces / "param_dlrm_8ranks")
    told = {row["topic"]: row for row in trace.query("verdict").to_dicts()}
    skew = trace.query("collective_skew", limit=0).to_dicts()
    behind = [row["wait_ns"] for row in skew if row["straggler_rank"] == 7]
    exposed_ns = [
        row["exposed_comm_ns"] for row in trace.query("timeline").to_dicts() if row["rank"] != 7
    ]
    late, others = told["late_rank"], told["others_wait"]
    assert (late["rank"], late["amount_ns"], late["count"]) == (7, sum(behind), len(behind))
    assert (others["amount_ns"], others["count"]) == (sum(exposed_ns), 7)
    assert "late_by" not in told
