"""The report of several runs: a table of their figures, with links to their reports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from urllib.parse import quote

from msgspec import Struct

from tracekit.render._text import printable
from tracekit.report.parts import Shown, copied, page_of, quoted, section_head
from tracekit.report.runs_page import named, sections_of
from tracekit.trace import Trace

_MAX_NAMED = 1_000

_PLAIN = re.compile(r"[\w+=][\w+=.-]{0,99}", re.ASCII)


class Run(Struct, frozen=True):
    """One of several runs. `named` is its name in commands, as the user wrote it if possible."""

    name: str
    named: str
    outcome: str
    stage: str


def several_runs(trace: Trace, paths: Sequence[str]) -> list[Run]:
    """Return the runs if there are several, opened without traces; otherwise []."""
    ((run_count, has_traces),) = trace.sql(
        "SELECT count(*) AS run_count, EXISTS (FROM trace) AS has_traces FROM run"
    ).rows
    if run_count < 2 or has_traces:
        return []
    result = trace.sql("SELECT path, folder_name, outcome, stage FROM run ORDER BY rowid")
    return [
        Run(
            row["folder_name"] or row["path"],
            named(row["path"], paths),
            row["outcome"],
            row["stage"] or "unknown stage",
        )
        for row in result.to_dicts()
    ]


def file_names(runs: Sequence[Run]) -> list[str]:
    """Return a unique file name for the report of each run, based on the name of the run."""
    results: list[str] = []
    for at, run in enumerate(runs, start=1):
        name = f"{run.name}.html"
        results.append(name if _PLAIN.fullmatch(name) and name not in results else f"run-{at}.html")
    return results


def overview_page(
    trace: Trace,
    paths: Sequence[str],
    runs: Sequence[Run],
    links: Mapping[str, str] | None = None,
) -> str:
    """Return the page as HTML. `links` maps :attr:`Run.named` to the file of its report."""
    each = Shown("each", "Each run", [*_each(runs, links or {})])
    title = ", ".join(printable(path) for path in paths[:3])
    shown = sections_of(trace, paths, has_paper=False)
    return page_of((title, title), _head(runs), [each, *shown])


def _head(runs: Sequence[Run]) -> Iterator[str]:
    stages = ", ".join(f"{n:,} {stage}" for stage, n in Counter(r.stage for r in runs).items())
    ends = ", ".join(f"{n:,} {end}" for end, n in Counter(r.outcome for r in runs).items())
    yield f'<p class="what">{len(runs):,} runs: {escape(stages)}. Ended: {escape(ends)}.</p>'
    if len(runs) == 2:
        command = f"tracekit report {quoted(*(run.named for run in runs))} -o difference.html"
        yield f'<p class="note">Compare the two runs: {copied("compare", command)}</p>'


def _each(runs: Sequence[Run], links: Mapping[str, str]) -> Iterator[str]:
    yield from section_head("each", "Each run", "The report of each run shows its time breakdown.")
    yield '<ul class="runs">'
    for at, run in enumerate(runs[:_MAX_NAMED]):
        name, status = escape(printable(run.name)), escape(f"{run.stage}, {run.outcome}")
        if run.named in links:
            yield f'<li><a href="{escape(quote(links[run.named]))}">{name}</a> ({status})</li>'
        else:
            command = f"tracekit report {quoted(run.named)} -o report.html"
            yield f"<li>{name} ({status}) {copied(f'run-{at}', command)}</li>"
    if len(runs) > _MAX_NAMED:
        yield f"<li>and {len(runs) - _MAX_NAMED:,} more</li>"
    yield "</ul></section>"
