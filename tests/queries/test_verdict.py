"""Analysis verdict: which part is the largest, which loss, and what health warns of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import opened_as_ranks
from given_rows import analysis_of, rows_of
from traces_by_hand import Event, call, kernel, span

import tracekit
from tracekit.analysis.result import Result
from tracekit.report.verdict import sentences


def verdict(*inputs: Result) -> dict[str, dict[str, Any]]:
    health = rows_of("health", {"metric": "rejected", "severity": "ok"})
    rows = analysis_of("verdict", health, *inputs).to_dicts()
    return {row["topic"]: row for row in rows}


def window(
    length_ns: int, exposed_comm_ns: int = 0, exposed_memcpy_ns: int = 0, **columns: int
) -> dict[str, int | str]:
    return {
        **columns,
        "device": "0",
        "window_ns": length_ns,
        "exposed_comm_ns": exposed_comm_ns,
        "exposed_memcpy_ns": exposed_memcpy_ns,
        "event_count": 10,
    }


def test_the_largest_part_is_that_of_all_devices_together() -> None:
    """Class gemm is first on one device; attention on both together: 30 + 50 of 2 × 100."""
    told = verdict(
        rows_of("timeline", window(100), window(100)),
        rows_of(
            "kernel_classes",
            {"class": "gemm", "wall_ns": 60, "kernel_count": 3},
            {"class": "attention", "wall_ns": 30, "kernel_count": 1},
            {"class": "attention", "wall_ns": 50, "kernel_count": 2},
        ),
    )["largest_part"]
    keys = ("subject", "amount_ns", "share_pct", "count", "of_count")
    assert tuple(told[key] for key in keys) == ("attention", 80, 40.0, 3, 20)


@pytest.mark.parametrize(
    ("comm_ns", "memcpy_ns", "idle_ns", "subject"),
    [(30, 20, 10, "exposed_comm"), (10, 20, 15, "exposed_memcpy"), (10, 20, 25, "host_sync")],
)
def test_the_largest_loss_is_one_of_three_kinds(
    comm_ns: int, memcpy_ns: int, idle_ns: int, subject: str
) -> None:
    causes = rows_of(
        "idle_causes",
        {"cause": "host_sync", "idle_ns": idle_ns, "gap_count": 4, "top_op": "aten::item"},
        {"cause": "unknown", "idle_ns": 5, "gap_count": 1},
    )
    told = verdict(rows_of("timeline", window(100, comm_ns, memcpy_ns)), causes)["largest_loss"]
    assert (told["subject"], told["amount_ns"]) == (subject, max(comm_ns, memcpy_ns, idle_ns))
    assert told["top_op"] == ("aten::item" if subject == "host_sync" else None)


def test_without_a_loss_there_is_none() -> None:
    assert "largest_loss" not in verdict(rows_of("timeline", window(100)))


def test_trust_names_what_warns_on_most_ranks() -> None:
    health = rows_of(
        "health",
        *({"rank": r, "metric": "truncated", "severity": "warn", "meaning": "cut"} for r in (0, 1)),
        {"rank": 0, "metric": "rejected", "severity": "warn", "meaning": "bad"},
        {"rank": 1, "metric": "rejected", "severity": "ok", "meaning": "bad"},
        {"rank": 0, "metric": "repaired", "severity": "note", "meaning": "mended"},
    )
    told = verdict(rows_of("timeline", window(100)), health)["trust"]
    assert (told["subject"], told["meaning"]) == ("truncated", "cut")
    assert (told["count"], told["of_count"]) == (2, 3)


def test_trust_without_a_warning_names_nothing() -> None:
    told = verdict(rows_of("timeline", window(100)))["trust"]
    assert (told["subject"], told["count"], told["of_count"]) == (None, 0, 1)


def test_where_nothing_warns_not_all_checks_passed_that_note_something() -> None:
    """Of 4 figures, that of missing ranks is named before a share of which little is placed."""
    health = rows_of(
        "health",
        {"metric": "rejected", "severity": "ok", "value": 0, "unit": "count"},
        {
            "metric": "missing_ranks",
            "severity": "note",
            "value": 7,
            "unit": "count",
            "meaning": "of 8",
        },
        *(
            {"metric": metric, "severity": "note", "value": 3.0, "unit": "pct", "meaning": "placed"}
            for metric in ("device_time_in_module_or_row", "zz_share")
        ),
    )
    told = verdict(rows_of("timeline", window(100)), health)
    assert sentences(rows_of("verdict", *told.values()))[-1] == (
        "1 of 4 checks passed; 3 noted, among them missing_ranks 7 (of 8)."
    )
    assert told["trust"]["count"] == 0
    of_shares = [dict(zip(health.column_names, row, strict=True)) for row in health.rows]
    without = rows_of("health", *(row for row in of_shares if row["metric"] != "missing_ranks"))
    trust = verdict(rows_of("timeline", window(100)), without)["trust"]
    assert (trust["subject"], trust["value"]) == ("device_time_in_module_or_row", 3.0)


def test_no_part_is_named_where_the_work_of_launches_is_not_in_the_file() -> None:
    warned = {"severity": "warn", "meaning": "captured"}
    told = verdict(
        rows_of("timeline", window(100)),
        rows_of("kernel_classes", {"class": "gemm", "wall_ns": 60, "kernel_count": 3}),
        rows_of(
            "health",
            {"metric": "launches_without_work", **warned},
            {"metric": "truncated", **warned},
        ),
    )
    assert told.keys() == {"trust"}
    assert told["trust"]["subject"] == "launches_without_work"


def test_the_place_of_a_loss_is_that_of_the_device_with_most_of_it() -> None:
    places = (
        {"idle_ns": 5, "top_op": "aten::item"},
        {"idle_ns": 9, "top_python": "serve.py(3): wait"},
    )
    causes = rows_of(
        "idle_causes", *({"cause": "host_bound", "gap_count": 1} | one for one in places)
    )
    told = verdict(rows_of("timeline", window(100)), causes)["largest_loss"]
    assert (told["top_op"], told["top_python"]) == (None, "serve.py(3): wait")


def wait(rank: int, wait_ns: int, passed_on_ns: int = 0) -> dict[str, int]:
    told = {"wait_ns": wait_ns, "passed_on_ns": passed_on_ns, "match_count": 2}
    return {"straggler_rank": rank, **told}


def three_ranks(*compute_ns: int) -> Result:
    return rows_of(
        "timeline",
        *(window(100, 30, rank=rank, compute_ns=ns) for rank, ns in enumerate(compute_ns)),
    )


@pytest.mark.parametrize(
    ("waits", "late"),
    [
        ([wait(1, 40), wait(2, 39)], (1, 40, 20.0, 2)),
        # Nobody is waited for more than all others together, or for 1 % of 200.
        ([wait(1, 40), wait(2, 40)], None),
        ([wait(1, 1)], None),
        ([wait(1, 2)], (1, 2, 1.0, 2)),
        # Rank 2 had waited for rank 1 itself.
        ([wait(1, 20), wait(2, 60, 50)], (1, 20, 10.0, 2)),
    ],
)
def test_a_rank_is_late_if_most_waits_are_for_it(waits: list[Any], late: Any) -> None:
    told = verdict(three_ranks(10, 10, 10), rows_of("waits", *waits)).get("late_rank")
    keys = ("rank", "amount_ns", "share_pct", "count")
    assert (told and tuple(told[key] for key in keys)) == late


@pytest.mark.parametrize(
    ("compute_ns", "late_by"),
    [
        # Two others waited 20 each: 10 more than their median, 8, explain it, and 9 do not.
        ((6, 18, 10), ("compute", 10)),
        ((6, 17, 10), None),
    ],
)
def test_it_is_late_by_what_explains_half_of_the_waits(
    compute_ns: tuple[int, ...], late_by: Any
) -> None:
    told = verdict(three_ranks(*compute_ns), rows_of("waits", wait(1, 40)))
    found = told.get("late_by")
    assert (found and (found["subject"], found["amount_ns"])) == late_by
    others = told["others_wait"]
    assert (others["amount_ns"], others["share_pct"], others["count"]) == (60, 30.0, 2)
    assert [*told] == [
        *("late_rank", *(["late_by"] if late_by else []), "others_wait", "largest_loss", "trust")
    ]


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
