"""The rules that classify device work, from data to SQL.

A rules file is TOML: ``[[rule]]`` tables in order, each with ``class``, ``applies_to`` (``device``
or ``cpu``), ``pattern`` (RE2, searched in the name), optionally ``category`` (RE2, searched in the
category), ``source`` and ``example``; the first rule that matches wins. ``[kinds]`` gives the kind
of every class. Rules of a user's file come before the built-in ones and may use new classes, whose
kind is compute unless its own ``[kinds]`` says otherwise.
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

KINDS = ("compute", "comm", "memcpy")
APPLIES_TO = ("device", "cpu")
_BUILTIN = Path("kernel_class.toml")
APPLIED_IN = "kernel_class"
"""The table whose statement applies the rules."""

_CALL = "kernel_rule_of(applies_to, category, name)"
_COLUMNS = {
    "rule_id": "INTEGER",
    "class": "VARCHAR",
    "kind": "VARCHAR",
    "applies_to": "VARCHAR",
    "pattern": "VARCHAR",
    "category": "VARCHAR",
    "source": "VARCHAR",
}
_MEMBERS = {"class", "applies_to", "pattern", "category", "source", "example", "trace"}


@dataclass(frozen=True, slots=True)
class KernelRule:
    """One rule: names that match ``pattern`` are of ``kernel_class`` and so of ``kind``."""

    kernel_class: str
    kind: str
    applies_to: str
    pattern: str
    category: str | None
    source: str


def builtin_rules_text() -> str:
    """Return the text of the built-in rules file."""
    return (files("tracekit.queries") / "rules" / "kernel_class.toml").read_text("utf-8")


def load_rules(user_file: Path | None = None) -> list[KernelRule]:
    """Read the rules in the order in which they are tried.

    Args:
        user_file: a rules file whose rules come before the built-in ones.

    Raises:
        UsageError: the user's file cannot be read, or a rule of it is not valid.
    """
    builtin = tomllib.loads(builtin_rules_text())
    kinds: dict[str, str] = dict(builtin["kinds"])
    rules = []
    if user_file is not None:
        user = read_rules_file(user_file)
        kinds |= _kinds(user_file, user.get("kinds", {}), kinds)
        rules += _rules(user_file, user, kinds)
    return rules + _rules(_BUILTIN, builtin, kinds)


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


def _rules(path: Path, content: dict[str, Any], kinds: dict[str, str]) -> list[KernelRule]:
    rules = []
    is_builtin = path == _BUILTIN
    for number, rule in enumerate(content.get("rule", []), start=1):
        where = f"{path}: rule {number}"
        unknown = set(rule) - _MEMBERS
        if unknown:
            raise UsageError(
                f"{where} has an unknown key {sorted(unknown)[0]!r}",
                hint="keys are: " + ", ".join(sorted(_MEMBERS)),
            )
        for key, value in rule.items():
            if not isinstance(value, str):
                raise UsageError(f"{where}: {key} is no text")
        for key in ("class", "pattern"):
            if not rule.get(key):
                raise UsageError(f"{where} has no {key}")
        applies_to = rule.get("applies_to", "device")
        if applies_to not in APPLIES_TO:
            raise UsageError(
                f"{where} applies to {applies_to!r}", hint="applies_to is device or cpu"
            )
        for key in ("pattern", "category"):
            # The built-in ones are checked by a test, not again in every run.
            if not is_builtin and key in rule:
                check_pattern(where, rule[key])
        rules.append(
            KernelRule(
                rule["class"],
                kinds.get(rule["class"], "compute"),
                applies_to,
                rule["pattern"],
                rule.get("category"),
                str(rule.get("source", "")),
            )
        )
    return rules


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
    connection.execute(f"CREATE TABLE kernel_rule AS {select_rows(_COLUMNS, table)}")


def with_rules(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Put the rules in the place of ``kernel_rule_of(...)`` in the statement that applies them.

    Only those that apply to work of the traces' accelerators, or to that of the CPU where there is
    none. They become one CASE of constant patterns: DuckDB compiles each pattern once, where a join
    of names and rules would compile it for every pair, and a macro once more when it is created.

    Args:
        connection: a store with the tables ``kernel_rule`` and ``accelerator``.
        sql: the statement; what it calls ``applies_to``, ``category`` and ``name`` is in scope.

    Raises:
        RuntimeError: the statement applies no rules, which is a bug in its file.
    """
    if _CALL not in sql:
        raise RuntimeError(f"the statement does not call {_CALL}")
    branches = dict[str, list[str]]()
    for rule_id, applies_to, pattern, category in connection.execute(
        "SELECT rule_id, applies_to, pattern, category FROM kernel_rule WHERE applies_to IN "
        "(SELECT CASE accelerator WHEN 'cpu' THEN 'cpu' ELSE 'device' END FROM accelerator) "
        "ORDER BY rule_id"
    ).fetchall():
        condition = f"regexp_matches(name, {quote(pattern)})"
        if category is not None:
            condition = f"regexp_matches(category, {quote(category)}) AND {condition}"
        branches.setdefault(applies_to, []).append(f"WHEN {condition} THEN {rule_id}")
    by_place = " ".join(
        f"WHEN {quote(place)} THEN CASE {' '.join(cases)} END" for place, cases in branches.items()
    )
    return sql.replace(_CALL, f"CASE applies_to {by_place} END" if by_place else "NULL::INTEGER")
