"""Collects the results that a report shows, each limited in size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from tracekit.analysis.breakdown import ADVICE, MFU, ROLES, RUN_IDLE, is_small
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Result
from tracekit.errors import QueryError, UsageError
from tracekit.plot import PARAMS
from tracekit.report.sections import SECTIONS
from tracekit.trace import Trace


class Answers(Struct):
    """Results by analysis, reasons for missing results, and the complete critical path."""

    results: dict[str, Result]
    refused: dict[str, str] = field(default_factory=dict)
    path: Result | None = None

    def has_rows(self, name: str) -> bool:
        """Return whether an analysis was run and returned rows."""
        return bool(self.results.get(name))


def gather(trace: Trace) -> Answers:
    """Run all analyses that a report shows."""
    answers = Answers(dict(trace.breakdown()))
    results = answers.results
    catalog = load_catalog()
    specs = [catalog.analysis(name) for name in _wanted(results)]
    _ask(trace, [spec.name for spec in specs], answers)
    if "path_totals" in results:
        results[ADVICE] = trace.advise().as_result()
    answers.path = results.get("critical_path")
    for name in PARAMS.keys() & results.keys():
        results[name] = trace.query(name, **PARAMS[name])
    return answers


def _wanted(results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the analyses of applicable sections that a breakdown lacks."""
    catalog = load_catalog()
    is_served = "throughput" in results
    has_traces = "timeline" in results
    phases = results["phases"].column("phase") if has_traces else ()
    has_serving_phases = not {"prefill", "decode", "mixed", "verify"}.isdisjoint(phases)
    is_several = has_traces and (len(results["trace"]) > 1 or len(results["timeline"]) > 1)
    applies = {
        "traces": has_traces,
        "ranks": is_several,
        "serving": has_traces and (is_served or has_serving_phases),
        "graph": has_traces and is_small(results["timeline"]),
    }
    if has_traces:
        yield "verdict"
        if results.get(RUN_IDLE):
            yield MFU
    for section in SECTIONS:
        for name in (*section.tables, *section.drawn):
            # Without recorded modules, a breakdown already includes roles.
            if name in results or name == ROLES or (name in section.of_ranks and not is_several):
                continue
            if is_served if catalog.analysis(name).scope == "runs" else applies[section.of]:
                yield name


def _ask(trace: Trace, names: Sequence[str], answers: Answers) -> None:
    """Run analyses two at a time. If one fails, run all sequentially to get the reasons."""
    try:
        answers.results |= trace.results(names)
    except (QueryError, UsageError):
        for name in names:
            try:
                answers.results[name] = trace.query(name)
            except (QueryError, UsageError) as error:
                answers.refused[name] = error.message
