"""The rules that classify device work, from data to SQL.

A rules file is TOML: ``[[rule]]`` tables in order, each with ``class``, ``applies_to`` (``device``
or ``cpu``), ``pattern`` (RE2, searched in the name), optionally ``category`` (RE2, searched in the
category), ``source`` and ``example``; the first rule that matches wins. ``[kinds]`` gives the kind
of every class. Rules of a user's file come before the built-in ones and may use new classes, whose
kind is compute unless its own ``[kinds]`` says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.analysis.name_rules import NameRules
from tracekit.analysis.rule_loader import RuleForm, builtin_content, load_rule_tables
from tracekit.analysis.rules_file import read_rules_file
from tracekit.database import SCRATCH, execute
from tracekit.errors import UsageError
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    import duckdb

KINDS = ("compute", "comm", "memcpy")
APPLIES_TO = ("device", "cpu")
FORM = RuleForm(
    file_name="kernel_class.toml",
    table="rule",
    required=("class", "pattern"),
    texts=("class", "pattern", "category", "source", "example", "trace"),
    choices={"applies_to": APPLIES_TO},
    patterns=("pattern", "category"),
    filled=("class", "pattern"),
)
RULED_WORK = "ruled_work"
"""The table of what the rules say; what SQL files that read it write under ``Requires``."""

REQUIRES = ("device_work",)
"""What must be in the store before it is filled."""

_NAMES = """
SELECT category, name, CASE WHEN bool_or(device <> 'cpu') THEN 'device' ELSE 'cpu' END AS applies_to
FROM device_work
GROUP BY category, name
"""

_COLUMNS = {
    "rule_id": "INTEGER",
    "class": "VARCHAR",
    "kind": "VARCHAR",
    "applies_to": "VARCHAR",
    "pattern": "VARCHAR",
    "category": "VARCHAR",
    "source": "VARCHAR",
}


@dataclass(frozen=True, slots=True)
class KernelRule:
    """One rule: names that match ``pattern`` are of ``kernel_class`` and so of ``kind``."""

    kernel_class: str
    kind: str
    applies_to: str
    pattern: str
    category: str | None
    source: str


def load_rules(user_file: Path | None = None) -> list[KernelRule]:
    """Read the rules in the order in which they are tried.

    Args:
        user_file: a rules file whose rules come before the built-in ones.

    Raises:
        UsageError: the user's file cannot be read, or a rule of it is not valid.
    """
    kinds: dict[str, str] = dict(builtin_content(FORM.file_name)["kinds"])
    if user_file is not None:
        kinds |= _kinds(user_file, read_rules_file(user_file).get("kinds", {}), kinds)
    return [
        KernelRule(
            rule["class"],
            kinds.get(rule["class"], "compute"),
            rule.get("applies_to", "device"),
            rule["pattern"],
            rule.get("category"),
            rule.get("source", ""),
        )
        for rule in load_rule_tables(FORM, user_file)
    ]


def _kinds(path: Path, given: Any, known: dict[str, str]) -> dict[str, str]:
    if not isinstance(given, dict):
        raise UsageError(f"{path}: [kinds] must be a table of class = kind")
    for kernel_class, kind in given.items():
        if not isinstance(kind, str) or kind not in KINDS:
            raise UsageError(
                f"{path}: class {kernel_class} has the kind {kind!r}",
                hint="a kind is one of: " + ", ".join(KINDS),
            )
        if known.get(kernel_class, kind) != kind:
            raise UsageError(
                f"{path}: class {kernel_class} is of kind {known[kernel_class]}, not {kind}",
                hint="use a class name of your own",
            )
    return given


def create_rules(connection: duckdb.DuckDBPyConnection, rules: list[KernelRule]) -> None:
    """Create table ``kernel_rule``: the rules in the order in which they are tried."""
    table = [
        (
            rule_id,
            rule.kernel_class,
            rule.kind,
            rule.applies_to,
            rule.pattern,
            rule.category,
            rule.source,
        )
        for rule_id, rule in enumerate(rules, start=1)
    ]
    execute(connection, f"CREATE TABLE kernel_rule AS {select_rows(_COLUMNS, table)}")


def rule_names(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill the table ``ruled_work`` of the database ``scratch``: names of work, and their rules.

    Args:
        connection: a store with table ``kernel_rule`` and view ``device_work``.
    """
    rules = connection.execute(
        "SELECT rule_id, applies_to, pattern, category FROM kernel_rule ORDER BY rule_id"
    ).fetchall()
    _name_rules(tuple(rules)).apply(connection)


def drop_names(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop that table."""
    connection.execute(f"DROP TABLE {SCRATCH}.{RULED_WORK}")


@lru_cache(maxsize=4)
def _name_rules(rules: tuple[tuple[int, str, str, str | None], ...]) -> NameRules:
    """Return the rules as one CASE of constant patterns for each kind of work.

    DuckDB compiles each pattern of it once, where a join of names and rules would compile it for
    every pair, and a macro once more when it is created.
    """
    branches: dict[str, list[str]] = {place: [] for place in APPLIES_TO}
    for rule_id, applies_to, pattern, category in rules:
        condition = f"regexp_matches(name, {quote(pattern)})"
        if category is not None:
            condition = f"regexp_matches(category, {quote(category)}) AND {condition}"
        branches[applies_to].append(f"WHEN {condition} THEN {rule_id}")
    return NameRules(
        RULED_WORK,
        _NAMES,
        {"rule_id": "INTEGER"},
        {
            place: "SELECT category, name, "
            + (f"CASE {' '.join(cases)} END" if cases else "NULL::INTEGER")
            + " AS rule_id FROM given"
            for place, cases in branches.items()
        },
    )
