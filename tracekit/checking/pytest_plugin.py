"""pytest fixture `tracekit_profile` for performance tests.

    def test_step(tracekit_profile):
        tracekit_profile(train_one_step, model, rules=["class.gemm.kernel_count <= 12"])

pytest loads this plugin if tracekit is installed. Imports happen when a test uses the fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import pytest

if TYPE_CHECKING:
    from torch import nn

    from tracekit.checking.report import Report
    from tracekit.checking.rules import Rule, Settings
    from tracekit.trace import Trace

_SAVE = "--tracekit-save"

WhenOpen = Literal["skip", "pass", "fail"]
"""Outcome of a test whose rules are inconclusive."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that saves baselines instead of checking them."""
    parser.getgroup("tracekit").addoption(
        _SAVE,
        action="store_true",
        help="save the profiled runs as the baselines that tests name, and skip relative rules",
    )


class ProfiledRun(NamedTuple):
    """Result of one call to the fixture.

    `folder` is the run folder. `report` is the outcome, or None without rules. `trace` is the open
    run for further queries; it is closed when the test ends.
    """

    folder: Path
    trace: Trace
    report: Report | None


class StepProfiler:
    """Value of the fixture `tracekit_profile`: a callable that takes a function to run one step."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path, resources: ExitStack) -> None:
        self._request = request
        self._folder = folder
        self._resources = resources
        self._count = 0

    def __call__(
        self,
        step: Callable[[], object],
        model: nn.Module,
        *,
        optimizer: Any = None,
        warmup: int = 2,
        profile_steps: int = 6,
        rules: Sequence[str] | Mapping[str, str] | None = None,
        against: str | Path | None = None,
        baselines: str | Path | None = None,
        inconclusive: WhenOpen | None = None,
    ) -> ProfiledRun:
        """Profile steps, and check rules as `tracekit check` does.

        The step is called `warmup + 2 * profile_steps + 2` times: warm-up, timed steps, a step with
        ranges, profiler warm-up, and profiled steps.

        Args:
            step: runs one step.
            model: the model that the step calls; its modules and phases are recorded.
            optimizer: the optimizer; needed only if it is not a `torch.optim.Optimizer`.
            warmup: number of warm-up steps.
            profile_steps: number of profiled steps, which rules judge.
            rules: texts, or texts by name; if None, the rules of `pyproject.toml`, if any.
            against: a run, a trace, or the name of a baseline, for relative rules.
            baselines: the folder or URL of baselines; by default, `.tracekit/baselines` next to
                pytest's configuration file.
            inconclusive: outcome of the test if the rules are inconclusive; skipped by default.

        Raises:
            UsageError: an argument or a rule is invalid, or a rule has an unknown target.
            TracekitError: the run cannot be recorded or read.
        """
        __tracebackhide__ = True
        import tracekit
        from tracekit.checking.baseline import save
        from tracekit.checking.checking import check, make_baseline

        if inconclusive not in (None, *get_args(WhenOpen)):
            expected = ", ".join(get_args(WhenOpen))
            raise tracekit.UsageError(f"inconclusive is {inconclusive!r}, expected {expected}")
        parsed, settings = self._rules(rules)
        against = against or settings.against
        held_in = self._place(baselines or settings.baselines)
        folder = self._record(step, model, optimizer, warmup, profile_steps)
        trace = self._resources.enter_context(tracekit.open(folder, cache=False))
        if self._request.config.getoption(_SAVE) and against is not None:
            save(make_baseline(str(against), trace, self._request.node.name), held_in)
            parsed = [rule for rule in parsed if not rule.is_relative]
            against = None
        if not parsed:
            return ProfiledRun(folder, trace, None)
        report = check(trace, parsed, against=against, baselines=held_in)
        self._judge(report, inconclusive or settings.inconclusive or "skip")
        return ProfiledRun(folder, trace, report)

    def _rules(
        self, given: Sequence[str] | Mapping[str, str] | None
    ) -> tuple[list[Rule], Settings]:
        from tracekit.checking.rules import (
            PROJECT_FILE,
            Settings,
            has_rules,
            load_rules,
            parse_rule,
        )

        project = self._request.config.rootpath / PROJECT_FILE
        result, settings = load_rules(project) if has_rules(project) else ([], Settings([]))
        if given is None:
            return result, settings
        if isinstance(given, Mapping):
            return [parse_rule(text, name) for name, text in given.items()], settings
        texts = [given] if isinstance(given, str) else given
        return [parse_rule(text) for text in texts], settings

    def _place(self, given: str | Path | None) -> str | Path:
        from tracekit.checking.baseline import DEFAULT_FOLDER
        from tracekit.storage.url import is_url

        if given is not None and is_url(str(given)):
            return str(given)
        root: Path = self._request.config.rootpath
        return root / (given or DEFAULT_FOLDER)

    def _record(
        self,
        step: Callable[[], object],
        model: nn.Module,
        optimizer: Any,
        warmup: int,
        profile_steps: int,
    ) -> Path:
        import tracekit

        self._count += 1
        collection = tracekit.collect(
            model,
            optimizer,
            out=self._folder / f"run-{self._count}",
            warmup=warmup,
            steps=1,
            profile_steps=profile_steps,
            name=self._request.node.name,
        )
        with collection as one_step:
            for _ in range(warmup + 2 * profile_steps + 2):
                with one_step():
                    step()
        made: Path | None = collection.folder
        if made is None:
            raise tracekit.WorkloadError(
                "the steps were not recorded", hint="see the messages of tracekit on stderr"
            )
        return made

    def _judge(self, report: Report, when_open: str) -> None:
        __tracebackhide__ = True
        lines = []
        for one in report.judgements:
            lines.append(f"{one.outcome}: {one.rule.title}: {one.text}")
            # pytest writes these as properties of the test to its JUnit file.
            entry = one.rule.title, f"{one.outcome}: {one.text}"
            self._request.node.user_properties.append(entry)
        is_open = report.outcome == "inconclusive"
        if report.outcome == "failed" or (is_open and when_open == "fail"):
            pytest.fail("\n".join(lines), pytrace=False)
        if is_open and when_open != "pass":
            pytest.skip("\n".join(line for line in lines if line.startswith("inconclusive")))


@pytest.fixture
def tracekit_profile(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StepProfiler]:
    """Profile steps of a test and check rules; see `StepProfiler`."""
    with ExitStack() as resources:
        yield StepProfiler(request, tmp_path / "tracekit", resources)
