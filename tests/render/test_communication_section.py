"""The section of collectives on the breakdown screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tracekit.analysis.result import Result
from tracekit.render.sections import SECTIONS

lines = SECTIONS["communication"].lines

Make = Callable[..., Result]
Totalled = Callable[[Mapping[str, Result]], dict[str, Result]]

COLUMNS = {
    "rank": "INTEGER",
    "device": "VARCHAR",
    "class": "VARCHAR",
    "pg_name": "VARCHAR",
    "call_count": "BIGINT",
    "kernel_ns": "BIGINT",
    "comm_ns": "BIGINT",
    "wall_ns": "BIGINT",
    "sized_count": "BIGINT",
    "message_bytes": "BIGINT",
    "algorithm_bytes_per_s": "DOUBLE",
    "bus_bytes_per_s": "DOUBLE",
    "sized_ns": "BIGINT",
    "reason": "VARCHAR",
}
REASON = "its launch was not recorded"
ROWS: list[tuple[Any, ...]] = [
    (
        0,
        "0",
        "comm_allreduce",
        "0",
        2,
        4_000_000,
        4_000_000,
        1_000_000,
        2,
        4_000_000,
        1e9,
        1.5e9,
        4_000_000,
        None,
    ),
    (
        1,
        "0",
        "comm_allreduce",
        "0",
        2,
        2_000_000,
        2_000_000,
        1_000_000,
        2,
        4_000_000,
        2e9,
        3e9,
        2_000_000,
        None,
    ),
    (0, "0", "comm_other", None, 1, 500_000, 500_000, 500_000, 0, None, None, None, None, REASON),
]


def test_one_line_per_class_and_group(make_result: Make, totalled: Totalled) -> None:
    window = {"window_ns": "BIGINT"}
    data = totalled(
        {
            "timeline": make_result("timeline", window, (5_000_000,), (5_000_000,)),
            "communication": make_result("communication", COLUMNS, *ROWS),
        }
    )
    texts = [line.plain for line in lines(data, 120, full=False)]
    assert texts[0].startswith("Communication  count, time, exposed of the window")
    figures = "4 ×  6.000 ms  20.0 %  66.7 %  8.00 MB  1.33 GB/s  2.00 GB/s"
    assert texts[1] == f"  allreduce (group 0)  {figures}"
    assert texts[2].split() == ("other 1 × 0.500 ms 5.0 % 0.0 % – – – " + REASON).split()
    assert all(len(text) <= 120 for text in texts)
    assert len(lines(data, 120, full=True)) > 3


def test_on_a_cpu_it_says_what_time_and_bandwidth_are_of(
    make_result: Make, totalled: Totalled
) -> None:
    note = "on a CPU, time counts both the call and the backend's span; bandwidth is of the span"
    rows = [(row[0], "cpu", *row[2:]) for row in ROWS]
    on_cpu = totalled({"communication": make_result("communication", COLUMNS, *rows)})
    on_gpu = totalled({"communication": make_result("communication", COLUMNS, *ROWS)})
    for full in (False, True):
        drawn = lines(on_cpu, 120, full=full)
        assert (drawn[-1].plain, str(drawn[-1].style)) == ("  " + note, "dim")
        assert [line.plain for line in drawn].count("  " + note) == 1
        assert all(note not in line.plain for line in lines(on_gpu, 120, full=full))
    assert all(len(line.plain) <= 60 for line in lines(on_cpu, 60, full=False)[-1:])


def test_nothing_without_communication(make_result: Make) -> None:
    assert lines({}, 100, full=False) == []
    assert lines({"communication": make_result("communication", COLUMNS)}, 100, full=False) == []
