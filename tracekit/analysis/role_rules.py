"""The rules that give device work its role in a decoder, from data to SQL.

``queries/rules/roles.toml`` describes the form of a rule. Rules of a user's file come before the
built-in ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis.rule_loader import RuleForm, load_rule_tables
from tracekit.database import execute
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
FORM = RuleForm(
    file_name="roles.toml",
    table="role",
    required=("role", "applies_to", "pattern"),
    texts=("role", "pattern", "source"),
    choices={"applies_to": APPLIES_TO, "inside": ("attention",)},
)

ROLE_CALL = "role_rule_of_"
"""How the macros begin that macros call which need the rules."""


@dataclass(frozen=True, slots=True)
class RoleRule:
    """One rule; the members are those of ``roles.toml``."""

    role: str
    applies_to: str
    pattern: str
    is_inside: bool


def load_role_rules(user_file: Path | None = None) -> list[RoleRule]:
    """Read the rules in the order in which they are tried.

    Args:
        user_file: a rules file whose ``[[role]]`` rules come before the built-in ones.

    Raises:
        UsageError: the user's file cannot be read, or a rule of it is not valid.
    """
    return [
        RoleRule(rule["role"], rule["applies_to"], rule["pattern"], "inside" in rule)
        for rule in load_rule_tables(FORM, user_file)
    ]


def create_role_rules(connection: duckdb.DuckDBPyConnection, rules: list[RoleRule]) -> None:
    """Create table ``role_rule``: the rules in the order in which they are tried."""
    table = [
        (rule_id, rule.role, rule.applies_to, rule.pattern, rule.is_inside)
        for rule_id, rule in enumerate(rules, start=1)
    ]
    execute(connection, f"CREATE TABLE role_rule AS {select_rows(_COLUMNS, table)}")


def role_macros(connection: duckdb.DuckDBPyConnection) -> str:
    """Return what makes the macros ``role_rule_of_leaf(name, is_inside)``, …: one of each kind.

    Each is one CASE of constant patterns, which DuckDB compiles once for each call, whatever of it
    is tried: one macro for all kinds would have all compiled each time. Compiling them takes time,
    and few analyses ask for roles: the macros are a connection's that asks, not the store's.

    Args:
        connection: to a store, whose table ``role_rule`` holds the rules.
    """
    branches: dict[str, list[str]] = {kind: [] for kind in APPLIES_TO}
    for rule_id, applies_to, pattern, is_inside in connection.execute(
        "SELECT rule_id, applies_to, pattern, is_inside FROM role_rule ORDER BY rule_id"
    ).fetchall():
        inside = "is_inside AND " if is_inside else ""
        case = f"WHEN {inside}regexp_matches(name, {quote(pattern)}) THEN {rule_id}"
        # A store may be anybody's, and its rules of any kind: others would be tried by nobody.
        branches.get(applies_to, []).append(case)
    return ";\n".join(
        f"CREATE OR REPLACE TEMP MACRO {ROLE_CALL}{kind}(name, is_inside) AS "
        + (f"CASE {' '.join(cases)} END" if cases else "NULL::INTEGER")
        for kind, cases in branches.items()
    )
