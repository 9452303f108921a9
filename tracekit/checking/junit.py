"""The outcome of a check as JUnit XML, which every CI reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from tracekit.checking.amounts import amount_text
from tracekit.errors import StoreError
from tracekit.units import Unit

if TYPE_CHECKING:
    from tracekit.checking.checking import Report

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_text(report: Report) -> str:
    """Return the XML: one test case for each rule; an inconclusive one is skipped, with its reason.

    Args:
        report: what became of the rules.
    """
    failures = sum(one.outcome == "failed" for one in report.judgements)
    skipped = sum(one.outcome == "inconclusive" for one in report.judgements)
    count = f'tests="{len(report.judgements)}" failures="{failures}" skipped="{skipped}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {count}>",
        f'<testsuite name="tracekit check" {count}>',
    ]
    for one in report.judgements:
        case = f"<testcase classname={_attribute(report.new)} name={_attribute(one.rule.title)}"
        if one.outcome == "passed":
            lines.append(f"{case}/>")
            continue
        tag = "failure" if one.outcome == "failed" else "skipped"
        text = told(one.value, one.limit, one.unit, one.change_pct, one.reason)
        lines.append(
            f"{case}><{tag} message={_attribute(text)}>{escape(_plain(text))}</{tag}></testcase>"
        )
    return "\n".join([*lines, "</testsuite>", "</testsuites>", ""])


def told(
    value: float | None,
    limit: float | None,
    unit: Unit | None,
    change_pct: float | None,
    reason: str,
) -> str:
    """Return a judgement in words.

    Args:
        value: what was measured, in the base unit.
        limit: the bound, likewise.
        unit: the name of the unit.
        change_pct: the change against the base, percent.
        reason: why it is so.
    """
    parts = []
    if value is not None:
        bound = "" if limit is None else f", limit {amount_text(limit, unit)}"
        parts.append(f"{amount_text(value, unit)}{bound}")
    if change_pct is not None:
        parts.append(f"{change_pct:+.2f} % against the base")
    return "; ".join([*parts, *([reason] if reason else [])])


def write_junit(report: Report, path: Path) -> None:
    """Write the XML to a file.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        path.write_text(junit_text(report), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error


def _plain(text: str) -> str:
    """Return text without what XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def _attribute(text: str) -> str:
    return quoteattr(_plain(text))
