"""The rules that say what the names of CPU-side ranges, calls and ops mean, from data to SQL.

``queries/rules/ranges.toml`` describes the form of a rule. Rules of a user's file come before the
built-in ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis.name_rules import NameRules
from tracekit.analysis.rule_loader import RuleForm, load_rule_tables
from tracekit.database import SCRATCH, execute
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    import duckdb

APPLIES_TO = ("range", "call", "op")
MEANS = (
    *("module", "backward", "frame", "part", "step", "recompute", "node", "derivative"),
    *("range", "span"),
)
PHASES = (
    *("forward", "backward", "recompute", "optimizer", "evaluation", "generation", "data"),
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

RULED_RANGE = "ruled_range"
"""The table of what the rules say; what SQL files that read it write under ``Requires``."""

REQUIRES = ("device_mark",)
"""What must be in the store before it is filled."""

_RULES = "SELECT rule_id, applies_to, pattern, label, class FROM range_rule ORDER BY rule_id"

# Of Python calls there are very many, and a rule for few of them.
_NAMES = """
SELECT DISTINCT
    category,
    name,
    CASE
        WHEN is_op(category) THEN 'op' WHEN is_annotation(category) THEN 'range' ELSE 'call'
    END AS applies_to
FROM event
WHERE is_op(category) OR is_annotation(category) OR (is_python_call(category) AND {is_marked_call})
"""
"""The names that rules may be for."""


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


def rule_names(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill the table ``ruled_range`` of the database ``scratch``: names of ranges, and their rules.

    Args:
        connection: a store with the tables ``range_rule`` and ``event_kind``; its events are there.
    """
    rules = connection.execute(_RULES).fetchall()
    (has_calls,) = connection.execute(
        "SELECT bool_or(is_python_call(category)) FROM event_kind"
    ).fetchone() or (None,)
    # Without calls, the patterns that choose among them need not be compiled.
    _name_rules(tuple(rule for rule in rules if has_calls or rule[1] != "call")).apply(connection)


def drop_names(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop that table."""
    connection.execute(f"DROP TABLE {SCRATCH}.{RULED_RANGE}")


@lru_cache(maxsize=4)
def _name_rules(
    rules: tuple[tuple[int, str, str, str | None, str | None], ...],
) -> NameRules:
    """Return the rules as CASEs of constant patterns, which DuckDB compiles once."""
    selects = {}
    calls = [pattern for _, applies_to, pattern, _, _ in rules if applies_to == "call"]
    for place in APPLIES_TO:
        decide, labels, classes = [], [], []
        for rule_id, applies_to, pattern, label, module_class in rules:
            if applies_to != place:
                continue
            decide.append(f"WHEN {condition(pattern)} THEN {rule_id}")
            if _GROUP.search(label or ""):
                labels.append(f"WHEN {rule_id} THEN {_filled(label or '', pattern)}")
            if _GROUP.search(module_class or ""):
                classes.append(f"WHEN {rule_id} THEN {_filled(module_class or '', pattern)}")
        # Each name has its rule looked for once, whatever is asked of the rule.
        selects[place] = (
            "SELECT category, name, rule_id, "
            + (f"CASE rule_id {' '.join(labels)} END" if labels else "NULL::VARCHAR")
            + " AS label, "
            + (f"CASE rule_id {' '.join(classes)} END" if classes else "NULL::VARCHAR")
            + " AS module_class FROM (WITH ruled AS MATERIALIZED (SELECT category, name, "
            + (f"CASE {' '.join(decide)} END" if decide else "NULL::INTEGER")
            + " AS rule_id FROM given) FROM ruled)"
        )
    is_marked_call = "|".join(f"(?:{pattern})" for pattern in calls)
    names = _NAMES.format(
        is_marked_call=f"regexp_matches(name, {quote(is_marked_call)})" if calls else "FALSE"
    )
    answers = {"rule_id": "INTEGER", "label": "VARCHAR", "module_class": "VARCHAR"}
    return NameRules(RULED_RANGE, names, answers, selects)


@lru_cache(maxsize=1024)
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
