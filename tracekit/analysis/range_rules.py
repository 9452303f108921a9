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
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    import duckdb

APPLIES_TO = ("range", "call", "op")
MEANS = (*("module", "backward", "frame", "part", "step", "recompute", "node", "range", "span"),)
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
    """Create table ``range_rule`` and the macros that apply the rules.

    ``range_rule_of(applies_to, name)`` gives the rule of a name, ``is_marked_call(name)`` tells
    quickly whether any rule for calls matches, ``range_label_of(rule_id, name)`` and
    ``range_class_of(rule_id, name)`` give what the groups of a pattern say of the module's name and
    class. Each is made of constant patterns, which DuckDB compiles once.
    """
    table, decide, labels, classes = [], dict[str, list[str]](), [], []
    for rule_id, rule in enumerate(rules, start=1):
        table.append(
            (
                rule_id,
                rule.applies_to,
                rule.means,
                rule.pattern,
                rule.phase,
                rule.row_name,
                rule.is_weak,
                rule.layer,
                None if _GROUP.search(rule.label) else rule.label or None,
                None if _GROUP.search(rule.module_class or "") else rule.module_class,
            )
        )
        decide.setdefault(rule.applies_to, []).append(
            f"WHEN {condition(rule.pattern)} THEN {rule_id}"
        )
        if _GROUP.search(rule.label):
            labels.append(f"WHEN {rule_id} THEN {_filled(rule.label, rule.pattern)}")
        if rule.module_class and _GROUP.search(rule.module_class):
            classes.append(f"WHEN {rule_id} THEN {_filled(rule.module_class, rule.pattern)}")
    connection.execute(f"CREATE TABLE range_rule AS {select_rows(_COLUMNS, table)}")
    by_kind = " ".join(
        f"WHEN {quote(kind)} THEN CASE {' '.join(branches)} END"
        for kind, branches in decide.items()
    )
    connection.execute(
        f"CREATE OR REPLACE MACRO range_rule_of(applies_to, name) AS CASE applies_to {by_kind} END"
    )
    calls = "|".join(f"(?:{rule.pattern})" for rule in rules if rule.applies_to == "call")
    connection.execute(
        f"CREATE OR REPLACE MACRO is_marked_call(name) AS regexp_matches(name, {quote(calls)})"
    )
    connection.execute(
        "CREATE OR REPLACE MACRO range_label_of(rule_id, name) AS "
        f"CASE rule_id {' '.join(labels)} END"
    )
    connection.execute(
        "CREATE OR REPLACE MACRO range_class_of(rule_id, name) AS "
        f"CASE rule_id {' '.join(classes)} END"
    )


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
