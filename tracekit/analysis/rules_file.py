"""Reads a rules file of the user's: TOML with tables of rules, of a bounded size."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from tracekit.errors import UsageError
from tracekit.units import MB

MAX_BYTES = 1 * MB
"""A longer file is no rules file; a device that never ends is none either."""

MAX_RULES = 1_000
"""As many of each kind are applied in bounded time: each is a condition for every name."""

_DEEP_KEY = re.compile(rb"""(?:[\w"'-]+[ \t]*\.[ \t]*){50}""")
"""Python's reader takes the square of the length of such a key."""

TABLES = ("rule", "range", "role", "kinds")
"""What a rules file may hold: three kinds of rules, and the kinds of classes."""


def read_rules_file(path: Path) -> dict[str, Any]:
    """Read a rules file.

    Returns:
        Its tables by name; those of rules are lists of tables.

    Raises:
        UsageError: it cannot be read, is no TOML, or holds something else than rules.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise UsageError(f"{path}: the rules file is longer than {MAX_BYTES:,} bytes")
        if _DEEP_KEY.search(text):
            raise UsageError(f"{path}: the rules file cannot be read: a key has too many parts")
        content = tomllib.loads(text.decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}: the rules file cannot be read: {reason}") from error
    except RecursionError as error:
        raise UsageError(
            f"{path}: the rules file cannot be read: it is nested too deeply"
        ) from error
    unknown = sorted(set(content) - {*TABLES})
    if unknown or not set(content) & {"rule", "range", "role"}:
        raise UsageError(
            f"{path}: " + (f"unknown key {unknown[0]!r}" if unknown else "there is no rule in it"),
            hint="rules are tables of these: [[rule]], [[range]], [[role]]; and [kinds]",
        )
    for name in ("rule", "range", "role"):
        rules = content.get(name, [])
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise UsageError(f"{path}: {name} is no list of tables", hint=f"write [[{name}]]")
        if len(rules) > MAX_RULES:
            raise UsageError(
                f"{path}: there are {len(rules):,} tables [[{name}]], {MAX_RULES:,} are the most",
                hint="one pattern may name many kernels: a|b|c",
            )
    return content
