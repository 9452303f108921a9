"""Says at the end of a session which files of tests kept the processor busy longest.

Counted are the CPU seconds, of the tests and of the processes that they started and waited for: on
a busy machine they say more than the clock. `--files-shown` says how many files are listed. What
the servers of `warm_python` forked for them is counted by those, as nobody else can wait for it.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

_COST = "cpu_s"


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class CostOfFiles:
    """Adds up what the tests of a file cost, on all workers."""

    def __init__(self, shown_count: int) -> None:
        self._shown_count = shown_count
        self._before_s = 0.0
        self._cost_s: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Note on a report, which xdist hands on, what has been used since the last one."""
        report = yield
        now_s = _cpu_s()
        setattr(report, _COST, now_s - self._before_s)
        self._before_s = now_s
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Begin to count: what came before was no test's."""
        self._before_s = _cpu_s()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._cost_s[report.nodeid.partition("::")[0]] += getattr(report, _COST, 0.0)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        """List the files that cost most."""
        if not self._shown_count:
            return
        folder = config._tmp_path_factory.getbasetemp() / "shared" / "warm"  # type: ignore[attr-defined]
        served = []
        for log in sorted(folder.glob("*.log")):
            used_s = []
            for line in log.read_text("utf-8", "replace").splitlines():
                cost, is_cost, file = line.partition(" CPU seconds of ")
                if is_cost:
                    used_s.append(float(cost))
                    self._cost_s[file] += used_s[-1]
            served.append(f"{sum(used_s):8.1f} s  {len(used_s)} processes of {log.stem}")
        total_s = sum(self._cost_s.values())
        terminalreporter.section(f"{total_s:,.0f} CPU seconds, most of them in")
        for file, cost_s in self._cost_s.most_common(self._shown_count):
            terminalreporter.write_line(f"{cost_s:8.1f} s  {file}")
        for line in ("of these", *served):
            terminalreporter.write_line(line)
