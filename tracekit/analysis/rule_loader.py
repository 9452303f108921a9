"""Loads rules that are data: those that come with tracekit, and before them those of a user's file.

A rules file is TOML: tables of rules in order, the first that matches wins. Each kind of rule says
what its tables may hold; what is wrong with one is said in one form.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from tracekit.analysis.rule_patterns import check_pattern
from tracekit.analysis.rules_file import read_rules_file
from tracekit.errors import UsageError


@dataclass(frozen=True, slots=True)
class RuleForm:
    """What the tables of one kind of rule hold; every value is a text.

    Attributes:
        file_name: the file of the built-in rules, in ``queries/rules``.
        table: the name of the tables, as ``range`` in ``[[range]]``.
        required: the keys that every rule has.
        texts: the keys of any text.
        choices: the keys of a few words, with these.
        patterns: which of the texts are regular expressions.
        filled: the keys that no rule has empty.
    """

    file_name: str
    table: str
    required: tuple[str, ...]
    texts: tuple[str, ...]
    choices: Mapping[str, tuple[str, ...]]
    patterns: tuple[str, ...] = ("pattern",)
    filled: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What a rule is called in a message."""
        return "rule" if self.table == "rule" else f"{self.table} rule"

    def check(self, where: str, rule: Mapping[str, Any]) -> None:
        """Make sure that a rule is one of this form; its patterns are not looked at.

        Raises:
            UsageError: it is not.
        """
        for key, value in rule.items():
            if key not in self.choices and key not in self.texts:
                raise UsageError(
                    f"{where} has an unknown key {key!r}",
                    hint="keys are: " + ", ".join(sorted((*self.choices, *self.texts))),
                )
            if not isinstance(value, str):
                raise UsageError(f"{where}: {key} is no text")
            if key in self.choices and value not in self.choices[key]:
                raise UsageError(
                    f"{where}: {key} is {value!r}", hint="one of: " + ", ".join(self.choices[key])
                )
        for key in self.required:
            if key not in rule or (key in self.filled and not rule[key]):
                raise UsageError(f"{where} has no {key}")


def builtin_text(file_name: str) -> str:
    """Return the text of a file of ``queries/rules``."""
    return (files("tracekit.queries") / "rules" / file_name).read_text("utf-8")


@cache
def builtin_content(file_name: str) -> dict[str, Any]:
    """Return what a file of ``queries/rules`` holds: its tables by name."""
    return tomllib.loads(builtin_text(file_name))


def load_rule_tables(form: RuleForm, user_file: Path | None) -> list[dict[str, str]]:
    """Read the rules of one form in the order in which they are tried.

    Args:
        form: their form.
        user_file: a rules file whose rules come before the built-in ones.

    Raises:
        UsageError: the user's file cannot be read, or a rule of it is not valid.
    """
    rules = []
    if user_file is not None:
        for number, rule in enumerate(read_rules_file(user_file).get(form.table, []), start=1):
            where = f"{user_file}: {form.title} {number}"
            form.check(where, rule)
            for key in form.patterns:
                if key in rule:
                    check_pattern(where, rule[key])
            rules.append(rule)
    for number, rule in enumerate(builtin_content(form.file_name)[form.table], start=1):
        # The built-in patterns are checked by a test, not again in every run.
        form.check(f"{form.file_name}: {form.title} {number}", rule)
        rules.append(rule)
    return rules
