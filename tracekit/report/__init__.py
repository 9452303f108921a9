"""The report of a trace: one HTML page with charts and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracekit.errors import StoreError, UsageError
from tracekit.report.comparison_page import comparison_page, modules_of
from tracekit.report.document import GENERATOR
from tracekit.report.overview_page import overview_page, several_runs
from tracekit.report.page import gather, page
from tracekit.report.runs_page import runs_page
from tracekit.storage.temp_dirs import atomic_path
from tracekit.trace import Trace

__all__ = [
    "check_output",
    "comparison_page",
    "modules_of",
    "overview_page",
    "report",
    "runs_page",
    "several_runs",
    "write",
]


def report(trace: Trace, traces: Sequence[str]) -> str:
    """Return the report of a trace, or of the traces of a run, as HTML."""
    return page(gather(trace), traces)


def check_output(output: Path, *, force: bool = False) -> None:
    """Check that a report may be written to a file."""
    if output.is_dir():
        raise UsageError(f"{output}: is a folder", hint=f"for example -o {output / 'report.html'}")
    if not output.exists() or force:
        return
    with output.open("rb") as file:
        is_report = f'content="{GENERATOR} '.encode() in file.read(512)
    if not is_report:
        raise UsageError(f"{output}: exists and is not a report", hint="use --force to replace it")


def write(html: str, output: Path) -> None:
    """Write a report completely or not at all."""
    try:
        with atomic_path(output) as building:
            building.write_text(html, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{output}: {error.strerror or error}") from error
