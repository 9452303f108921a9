"""The outcome of a check as annotations of a CI."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracekit.checking.junit import told

if TYPE_CHECKING:
    from tracekit.checking.checking import Report

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def annotation_lines(report: Report) -> Iterator[str]:
    """Return GitHub's workflow commands: an error for a failed rule, a warning for an open one.

    Args:
        report: what became of the rules.
    """
    for one in report.judgements:
        if one.outcome == "passed":
            continue
        level = "error" if one.outcome == "failed" else "warning"
        text = told(one.value, one.limit, one.unit, one.change_pct, one.reason)
        message = f"{one.rule.title}: {one.outcome}: {text}"
        yield f"::{level} title=tracekit check::{_escaped(message)}"


def _escaped(text: str) -> str:
    """Return text in which nothing ends the command, and nothing steers a terminal."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return _CONTROL.sub("\ufffd", text)
