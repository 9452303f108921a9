"""What ranges and profiler cost is said as times, beside how much plain steps vary."""

from __future__ import annotations

from tracekit.collectors.run.manifest import step_cost
from tracekit.manifest import Overhead


def test_times_and_how_much_plain_steps_vary() -> None:
    overhead = Overhead(2_000_000, ranges_step_ns=1_900_000, profiled_step_ns=2_500_000)
    assert step_cost(overhead, [1_500_000, 2_500_000]) == (
        "step 2.000 ms (1.500 ms to 2.500 ms); with ranges 1.900 ms; "
        "with ranges and profiler 2.500 ms"
    )


def test_what_was_not_measured_is_not_said() -> None:
    assert step_cost(Overhead(2_000_000), [2_000_000]) == "step 2.000 ms"
