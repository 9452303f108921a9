"""The rules that give device work its role in a decoder, from data to SQL.

``queries/rules/roles.toml`` describes the form of a rule. Rules of a user's file come before the
built-in ones.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.analysis.rule_patterns import check_pattern
from tracekit.analysis.rules_file import read_rules_file
from tracekit.errors import UsageError
from tracekit.sql_text import quote, select_rows

if TYPE_CHECKING:
    import duckdb

APPLIES_TO = (
    *("part", "leaf", "path", "op", "class"),
    *("attention", "section", "landmark"),
)

_COLUMNS = {
    "rule_id": "INTEGER",
    "role": "VARCHAR",
    "applies_to": "VARCHAR",
    "pattern": "VARCHAR",
    "is_inside": "BOOLEAN",
}
_BUILTIN = Path("roles.toml")
_MEMBERS = ("role", "applies_to", "pattern", "inside", "source")


@dataclass(frozen=True, slots=True)
class RoleRule:
    """One rule; the members are those of ``roles.toml``."""

    role: str
    applies_to: str
    pattern: str
    is_inside: bool


def builtin_role_rules_text() -> str:
    """Return the text of the built-in rules file."""
    return (files("tracekit.queries") / "rules" / "roles.toml").read_text("utf-8")


def load_role_rules(user_file: Path | None = None) -> list[RoleRule]:
    """Read the rules in the order in which they are tried.

    Args:
        user_file: a rules file whose ``[[role]]`` rules come before the built-in ones.

    Raises:
        UsageError: the user's file cannot be read, or a rule of it is not valid.
    """
    rules = []
    if user_file is not None:
        rules += _rules(user_file, read_rules_file(user_file))
    return rules + _rules(_BUILTIN, tomllib.loads(builtin_role_rules_text()))


def _rules(path: Path, content: dict[str, Any]) -> list[RoleRule]:
    rules = []
    for number, rule in enumerate(content.get("role", []), start=1):
        where = f"{path}: role rule {number}"
        for key, value in rule.items():
            if key not in _MEMBERS:
                raise UsageError(
                    f"{where} has an unknown key {key!r}",
                    hint="keys are: " + ", ".join(sorted(_MEMBERS)),
                )
            if not isinstance(value, str):
                raise UsageError(f"{where}: {key} is no text")
        for key in ("role", "applies_to", "pattern"):
            if key not in rule:
                raise UsageError(f"{where} has no {key}")
        if rule["applies_to"] not in APPLIES_TO:
            raise UsageError(
                f"{where}: applies_to is {rule['applies_to']!r}",
                hint="one of: " + ", ".join(APPLIES_TO),
            )
        if rule.get("inside", "attention") != "attention":
            raise UsageError(f"{where}: inside is {rule['inside']!r}", hint="it can be attention")
        if path != _BUILTIN:
            # The built-in patterns are checked by a test, not again in every run.
            check_pattern(where, rule["pattern"])
        rules.append(RoleRule(rule["role"], rule["applies_to"], rule["pattern"], "inside" in rule))
    return rules


def create_role_rules(connection: duckdb.DuckDBPyConnection, rules: list[RoleRule]) -> None:
    """Create table ``role_rule`` and the macro ``role_rule_of(applies_to, name, is_inside)``.

    The macro is one CASE of constant patterns, which DuckDB compiles once.
    """
    table, branches = [], dict[str, list[str]]()
    for rule_id, rule in enumerate(rules, start=1):
        table.append((rule_id, rule.role, rule.applies_to, rule.pattern, rule.is_inside))
        inside = "is_inside AND " if rule.is_inside else ""
        branches.setdefault(rule.applies_to, []).append(
            f"WHEN {inside}regexp_matches(name, {quote(rule.pattern)}) THEN {rule_id}"
        )
    connection.execute(f"CREATE TABLE role_rule AS {select_rows(_COLUMNS, table)}")
    by_kind = " ".join(
        f"WHEN {quote(kind)} THEN CASE {' '.join(cases)} END" for kind, cases in branches.items()
    )
    connection.execute(
        "CREATE OR REPLACE MACRO role_rule_of(applies_to, name, is_inside) AS "
        f"CASE applies_to {by_kind} END"
    )
