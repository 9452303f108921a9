"""What a report shows: the results of analyses, each cut to what a page has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracekit.analysis.breakdown import HEALTH, RUN_HEALTH
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Result
from tracekit.analysis.run import run_reductions
from tracekit.analysis.run_at_once import run_analyses
from tracekit.errors import QueryError, UsageError
from tracekit.plot import PARAMS

if TYPE_CHECKING:
    from tracekit.trace import Trace

REDUCTIONS = ("verdict", "module_icicle", "class_icicle")

REDUCTIONS_OF_RANKS = ("step_spread",)

OF_TRACES = (
    *(
        "idle_gaps",
        "gemms",
        "compute_memory",
        "roofline",
        "queue_length",
        "launch_delays",
        "reasons",
    ),
    *("memory_over_time", "timeline_events", "queue_over_time", "module_classes"),
)

OF_RANKS = ("rank_summary", "collective_skew", "parallel_groups", "pipeline_bubbles")

OF_SERVING = ("serving_steps", "request_steps", "request_life", "queue_cdf")

OF_REQUESTS = ("requests", "throughput_over_time")


@dataclass(slots=True)
class Answers:
    """Results by analysis name, and why others are missing."""

    results: dict[str, Result]
    refused: dict[str, str] = field(default_factory=dict)

    def has_rows(self, name: str) -> bool:
        """Return whether an analysis was asked and had something to say."""
        return bool(self.results.get(name))


def gather(trace: Trace) -> Answers:
    """Ask everything that a report shows.

    Raises:
        UsageError: there are several runs.
        The errors of :meth:`tracekit.Trace.breakdown`.
    """
    answers = Answers(dict(trace.breakdown()))
    results = answers.results
    if "timeline" in results:
        names: list[str] = [*OF_TRACES]
        if len(results["trace"]) > 1 or len(results["timeline"]) > 1:
            names += OF_RANKS
        if "throughput" in results or _names_serving(results["phases"]):
            names += OF_SERVING
        _ask(trace, names, answers)
        catalog = load_catalog()
        reductions = (*REDUCTIONS, *(REDUCTIONS_OF_RANKS if len(results["timeline"]) > 1 else ()))
        specs = [catalog.analysis(name) for name in reductions]
        known = {**results, HEALTH: _of_traces(trace, results)}
        for result in run_reductions(trace.connection, specs, known):
            results[result.name] = result
    if "throughput" in results:
        _ask(trace, OF_REQUESTS, answers)
    for name in PARAMS.keys() & results.keys():
        results[name] = trace.query(name, **PARAMS[name])
    return answers


def _of_traces(trace: Trace, results: Mapping[str, Result]) -> Result:
    """Return the health of the traces alone: a breakdown has that of their run behind it."""
    health = results[HEALTH]
    of_run = len(trace.query(RUN_HEALTH)) if "run" in results else 0
    return Result(HEALTH, health.columns, health.rows[: len(health) - of_run])


def _names_serving(phases: Result) -> bool:
    return not {"prefill", "decode", "mixed"}.isdisjoint(phases.column("phase"))


def _ask(trace: Trace, names: Sequence[str], answers: Answers) -> None:
    """Ask analyses, two at a time; where one is refused, all one by one, to know which and why."""
    catalog = load_catalog()
    specs = [catalog.analysis(name) for name in names]
    try:
        found = run_analyses(trace.connection, specs)
    except (QueryError, UsageError):
        for name in names:
            try:
                answers.results[name] = trace.query(name)
            except (QueryError, UsageError) as error:
                answers.refused[name] = error.message
        return
    answers.results |= {result.name: result for result in found}
