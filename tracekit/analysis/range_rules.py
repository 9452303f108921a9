"""The rules that say what the names of CPU-side ranges, calls and ops mean, from data to SQL.

``queries/rules/ranges.toml`` describes the form of a rule. Rules of a user's file come before the
built-in ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis.rule_loader import RuleForm, load_rule_tables
from tracekit.database import execute
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    import duckdb

APPLIES_TO = ("range", "call", "op")
MEANS = (
    *("module", "backward", "frame", "part", "step", "recompute", "node", "derivative"),
    *("range", "span"),
)
PHASES = (
    *("forward", "backward", "recompute", "optimizer", "evaluation", "data"),
    *("prefill", "decode", "mixed"),
)
STRENGTHS = ("strong", "weak")
LAYERS = ("begin", "next")

FORM = RuleForm(
    file_name="ranges.toml",
    table="range",
    required=("applies_to", "means", "pattern"),
    texts=("pattern", "row", "label", "class", "source"),
    choices={
        "applies_to": APPLIES_TO,
        "means": MEANS,
        "phase": PHASES,
        "strength": STRENGTHS,
        "layer": LAYERS,
    },
)
_COLUMNS = {
    "rule_id": "INTEGER",
    "applies_to": "VARCHAR",
    "means": "VARCHAR",
    "pattern": "VARCHAR",
    "phase": "VARCHAR",
    "row_name": "VARCHAR",
    "is_weak": "BOOLEAN",
    "layer": "VARCHAR",
    "label": "VARCHAR",
    "class": "VARCHAR",
}
# A pattern that is a plain text from the beginning, and perhaps to the end.
_PLAIN = re.compile(r"\^((?:[\w/ :#,<>=-]|\\[^\w\s])+)(\$?)")
_ESCAPED = re.compile(r"\\([^\w\s])")
_GROUP = re.compile(r"\\(\d)")

APPLIED_IN = "range_marker"
"""The table whose statement applies the rules."""

CALLS = (
    "range_rule_of(applies_to, name)",
    "is_marked_call(name)",
    "range_label_of(rule_id, name)",
    "range_class_of(rule_id, name)",
)
"""What stands in that statement for the first rule that matches a name, whether any rule for calls
matches it, and what the groups of a rule's pattern say of the module's name and class."""

_RULES = """
SELECT rule_id, applies_to, pattern, label, class
FROM range_rule
WHERE applies_to IN (
    SELECT
        CASE
            WHEN is_op(category) THEN 'op' WHEN is_annotation(category) THEN 'range'
            WHEN is_python_call(category) THEN 'call'
        END
    FROM event_kind
)
ORDER BY rule_id
"""


@dataclass(frozen=True, slots=True)
class RangeRule:
    """One rule; the members are those of ``ranges.toml``."""

    applies_to: str
    means: str
    pattern: str
    phase: str | None
    row_name: str | None
    is_weak: bool
    label: str
    module_class: str | None
    layer: str | None
    source: str


def load_range_rules(user_file: Path | None = None) -> list[RangeRule]:
    """Read the rules in the order in which they are tried.

    Args:
        user_file: a rules file whose ``[[range]]`` rules come before the built-in ones.

    Raises:
        UsageError: the user's file cannot be read, or a rule of it is not valid.
    """
    return [
        RangeRule(
            rule["applies_to"],
            rule["means"],
            rule["pattern"],
            rule.get("phase"),
            rule.get("row"),
            rule.get("strength") == "weak",
            rule.get("label", ""),
            rule.get("class"),
            rule.get("layer"),
            rule.get("source", ""),
        )
        for rule in load_rule_tables(FORM, user_file)
    ]


def create_range_rules(connection: duckdb.DuckDBPyConnection, rules: list[RangeRule]) -> None:
    """Create table ``range_rule``: the rules in the order in which they are tried."""
    table = [
        (
            rule_id,
            rule.applies_to,
            rule.means,
            rule.pattern,
            rule.phase,
            rule.row_name,
            rule.is_weak,
            rule.layer,
            rule.label or None,
            rule.module_class,
        )
        for rule_id, rule in enumerate(rules, start=1)
    ]
    execute(connection, f"CREATE TABLE range_rule AS {select_rows(_COLUMNS, table)}")


def with_rules(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Put the rules in the place of the calls of :data:`CALLS` in the statement that applies them.

    Each becomes a CASE of constant patterns, which DuckDB compiles once. Compiling them is most of
    what a small trace has to do here: patterns for what is not in the traces are left out.

    Args:
        connection: a store with the tables ``range_rule`` and ``event_kind``.
        sql: the statement; the arguments of the calls are in scope.

    Raises:
        RuntimeError: the statement does not make these calls, which is a bug in its file.
    """
    decide, labels, classes, calls = dict[str, list[str]](), [], [], []
    for rule_id, applies_to, pattern, label, module_class in connection.execute(_RULES).fetchall():
        decide.setdefault(applies_to, []).append(f"WHEN {condition(pattern)} THEN {rule_id}")
        if _GROUP.search(label or ""):
            labels.append(f"WHEN {rule_id} THEN {_filled(label, pattern)}")
        if _GROUP.search(module_class or ""):
            classes.append(f"WHEN {rule_id} THEN {_filled(module_class, pattern)}")
        if applies_to == "call":
            calls.append(f"(?:{pattern})")
    by_kind = [
        f"WHEN {quote(kind)} THEN CASE {' '.join(branches)} END"
        for kind, branches in decide.items()
    ]
    put = (
        f"CASE applies_to {' '.join(by_kind)} END" if by_kind else "NULL::INTEGER",
        f"regexp_matches(name, {quote('|'.join(calls))})" if calls else "FALSE",
        f"CASE rule_id {' '.join(labels)} END" if labels else "NULL::VARCHAR",
        f"CASE rule_id {' '.join(classes)} END" if classes else "NULL::VARCHAR",
    )
    for call, text in zip(CALLS, put, strict=True):
        if call not in sql:
            raise RuntimeError(f"the statement does not call {call}")
        sql = sql.replace(call, text)
    return sql


def condition(pattern: str) -> str:
    """Return the SQL for «the pattern matches name»; a plain text needs no regular expression."""
    plain = _PLAIN.fullmatch(pattern)
    if plain is None:
        return f"regexp_matches(name, {quote(pattern)})"
    text = quote(_ESCAPED.sub(r"\1", plain[1]))
    return f"name = {text}" if plain[2] else f"starts_with(name, {text})"


def _filled(template: str, pattern: str) -> str:
    """Return the SQL for a template whose groups are those of a pattern that matched ``name``."""
    parts = []
    for position, text in enumerate(_GROUP.split(template)):
        if position % 2:
            parts.append(f"regexp_extract(name, {quote(pattern)}, {text})")
        elif text:
            parts.append(quote(text))
    return " || ".join(parts)
