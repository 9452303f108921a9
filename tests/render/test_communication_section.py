"""The section of collectives on the breakdown screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from given_rows import rows_of

from tracekit.analysis.result import Result
from tracekit.render.sections import SECTIONS

lines = SECTIONS["communication"].lines

Totalled = Callable[[Mapping[str, Result]], dict[str, Result]]

REASON = "its launch was not recorded"
MS = 1_000_000


def communication(*, device: str = "0") -> Result:
    """Return two all-reduces on each of two ranks, and a collective of unknown size."""
    reduced = {"class": "comm_allreduce", "pg_name": "0", "call_count": 2, "wall_ns": MS}
    reduced |= {"sized_count": 2, "message_bytes": 4_000_000}
    rows = [
        {"rank": rank, "device": device, **reduced}
        | dict.fromkeys(("kernel_ns", "comm_ns", "sized_ns"), ms * MS)
        | {"algorithm_bytes_per_s": 4e9 / ms, "bus_bytes_per_s": 6e9 / ms}
        for rank, ms in ((0, 4), (1, 2))
    ]
    other = {"rank": 0, "device": device, "class": "comm_other", "call_count": 1, "reason": REASON}
    other |= dict.fromkeys(("kernel_ns", "comm_ns", "wall_ns"), MS // 2) | {"sized_count": 0}
    return rows_of("communication", *rows, other)


def test_one_line_per_class_and_group(totalled: Totalled) -> None:
    windows = [{"rank": rank, "device": "0", "window_ns": 5 * MS} for rank in (0, 1)]
    data = totalled({"timeline": rows_of("timeline", *windows), "communication": communication()})
    texts = [line.plain for line in lines(data, 120, full=False)]
    assert texts[0].startswith("Communication  count, time, exposed of the window")
    figures = "4 ×  6.000 ms  20.0 %  66.7 %  8.00 MB  1.33 GB/s  2.00 GB/s"
    assert texts[1] == f"  allreduce (group 0)  {figures}"
    assert texts[2].split() == ("other 1 × 0.500 ms 5.0 % 0.0 % – – – " + REASON).split()
    assert all(len(text) <= 120 for text in texts)
    assert len(lines(data, 120, full=True)) > 3


def test_on_a_cpu_it_says_what_time_and_bandwidth_are_of(totalled: Totalled) -> None:
    on_cpu = totalled({"communication": communication(device="cpu")})
    on_gpu = totalled({"communication": communication()})
    for full in (False, True):
        drawn = lines(on_cpu, 120, full=full)
        note = drawn[-1].plain
        assert note.startswith("  on a CPU, ")
        assert str(drawn[-1].style) == "dim"
        assert all(note != line.plain for line in lines(on_gpu, 120, full=full))
    assert all(len(line.plain) <= 60 for line in lines(on_cpu, 60, full=False)[-1:])


def test_nothing_without_communication() -> None:
    assert lines({}, 100, full=False) == []
    assert lines({"communication": rows_of("communication")}, 100, full=False) == []
