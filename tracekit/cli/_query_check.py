"""`tracekit query --check FILE [TRACE]`: what is wrong with a SQL file of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.analysis.result import Column, Result
from tracekit.cli._emit import emit
from tracekit.errors import QueryError
from tracekit.render._text import printable

if TYPE_CHECKING:
    from tracekit.analysis.check_file import Finding


def check(
    file: Path,
    traces: Sequence[str],
    *,
    queries: Sequence[Path],
    format_name: str,
    no_cache: bool,
    rules: Path | None,
    ceilings: Path | None,
) -> None:
    """Write what was looked at in a file, and what was found.

    Args:
        file: the SQL file. The files beside it may be required, as those of ``queries`` may.
        traces: what to run it on; nothing to run it on no trace.
        queries: folders of further SQL files.
        format_name: one of `tracekit.render.formats()`.
        no_cache: read the traces again, keep nothing.
        rules: further classification rules.
        ceilings: what was measured on the devices.

    Raises:
        QueryError: something is wrong with the file; what, has been written.
    """
    from tracekit.analysis.check_file import check_file
    from tracekit.analysis.library import given_folders, load_library, read_own, read_text
    from tracekit.cli._open import open_traces

    read_text(file)
    library = load_library([*given_folders(queries), file.parent], is_strict=False)
    with ExitStack() as stack:
        connection = None
        if traces:
            is_traced = True
            try:
                is_traced = read_own(file).scope != "runs"
            except QueryError:
                # What is wrong with its header is said below, and no trace is read for it.
                traces = ()
        if traces:
            trace = stack.enter_context(
                open_traces(
                    traces, is_traced=is_traced, no_cache=no_cache, rules=rules, ceilings=ceilings
                )
            )
            connection = trace.connection
        findings = check_file(file, library, connection)
    if format_name == "table":
        _write_lines(file, findings)
    else:
        emit(_as_result(findings), format_name)
    wrong_count = sum(not found.is_right for found in findings)
    if wrong_count:
        things = "one thing is" if wrong_count == 1 else f"{wrong_count} things are"
        raise QueryError(f"{file}: {things} wrong with it")


def _write_lines(file: Path, findings: Sequence[Finding]) -> None:
    """Write a line for every finding, as compilers do: nothing of it may be cut off."""
    for found in findings:
        place = f"{file}:{found.line}" if found.line is not None else str(file)
        sign = "ok" if found.is_right else "wrong"
        click.echo(printable(f"{place}: {sign}: {found.check}: {found.finding}"))
        if found.hint is not None:
            click.echo(printable(f"    {found.hint}"))


def _as_result(findings: Sequence[Finding]) -> Result:
    columns = (
        Column("line", "BIGINT"),
        *(Column(name, "VARCHAR") for name in ("check", "result", "finding", "hint")),
    )
    rows = [
        (found.line, found.check, "ok" if found.is_right else "wrong", found.finding, found.hint)
        for found in findings
    ]
    return Result("check", columns, rows)
