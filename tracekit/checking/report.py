"""Results of all rules as tables, JUnit XML, or CI annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from tracekit.analysis.result import Column, Result, columns_of_text
from tracekit.checking.evaluate import Judgement, Outcome, amount_text
from tracekit.errors import StoreError

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Report(Struct, frozen=True):
    new: str
    base: str | None
    judgements: Sequence[Judgement]

    @property
    def outcome(self) -> Outcome:
        order: tuple[Outcome, ...] = ("passed", "inconclusive", "failed")
        return max((one.outcome for one in self.judgements), key=order.index, default="passed")

    def result(self) -> Result:
        columns = columns_of_text(
            "rule VARCHAR, outcome VARCHAR, value DOUBLE, base_value DOUBLE, limit DOUBLE, "
            "unit VARCHAR, change_pct DOUBLE, reason VARCHAR"
        )
        rows = [
            (
                *(one.rule.title, one.outcome, one.value, one.base_value, one.limit),
                *(one.unit, one.change_pct, one.reason),
            )
            for one in self.judgements
        ]
        return Result("check", columns, rows)

    def shown(self) -> Result:
        names = ("outcome", "rule", "value", "limit", "base", "reason")
        rows: list[tuple[str | None, ...]] = []
        for one in self.judgements:
            value, limit, base = (
                amount_text(amount, one.unit) for amount in (one.value, one.limit, one.base_value)
            )
            change = "" if one.change_pct is None else f"{one.change_pct:+.2f} %"
            reason = ", ".join(filter(None, (change, one.reason)))
            rows.append((one.outcome, one.rule.title, value, limit, base, reason or None))
        return Result("check", tuple(Column(name, "VARCHAR") for name in names), rows)


def junit_text(report: Report) -> str:
    """Return JUnit XML with one test case per rule; inconclusive rules are skipped."""
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
        message, content = _attribute(one.text), escape(_NOT_XML.sub("\ufffd", one.text))
        lines.append(f"{case}><{tag} message={message}>{content}</{tag}></testcase>")
    return "\n".join([*lines, "</testsuite>", "</testsuites>", ""])


def write_junit(report: Report, path: Path) -> None:
    try:
        path.write_text(junit_text(report), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))


def annotation_lines(report: Report) -> Iterator[str]:
    """Yield GitHub workflow commands: an error per failed rule, a warning per inconclusive one."""
    for one in report.judgements:
        if one.outcome == "passed":
            continue
        level = "error" if one.outcome == "failed" else "warning"
        message = f"{one.rule.title}: {one.outcome}: {one.text}"
        # Escape text that would end the command or control a terminal.
        message = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        yield f"::{level} title=tracekit check::" + _CONTROL.sub("\ufffd", message)
