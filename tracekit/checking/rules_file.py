"""Rules in a TOML file, or in a project's `pyproject.toml` under `[tool.tracekit.check]`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tracekit.checking.rule import Rule, parse_rule
from tracekit.errors import UsageError
from tracekit.storage import Location

PROJECT_FILE = "pyproject.toml"

_HINT = 'for example: rules = ["step_time <= +3%"], or rules = {slow = "step_time <= +3%"}'


def load_rules(path: Path) -> tuple[list[Rule], dict[str, Any]]:
    """Read a file of rules.

    Args:
        path: a TOML file with `rules`, a list of texts or a table of texts by name; of a
            `pyproject.toml` the table `tool.tracekit.check`.

    Returns:
        The rules in their order, and what the file sets besides (`against`, `inconclusive`, …).

    Raises:
        UsageError: the file cannot be read, or holds no rules.
    """
    try:
        content = _content(path)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if path.name == PROJECT_FILE:
        content = content.get("tool", {}).get("tracekit", {}).get("check", {})
    found = content.pop("rules", None)
    if isinstance(found, list) and all(isinstance(text, str) for text in found):
        return [_parsed(path, text, None) for text in found], content
    if isinstance(found, dict) and all(isinstance(text, str) for text in found.values()):
        return [_parsed(path, text, name) for name, text in found.items()], content
    raise UsageError(f"{path}: no rules are in it", hint=_HINT)


def _content(path: Path) -> dict[str, Any]:
    return tomllib.loads(Location.of(path).read_bytes().decode())


def _parsed(path: Path, text: str, name: str | None) -> Rule:
    try:
        return parse_rule(text, name)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from error


def has_rules(path: Path) -> bool:
    """Whether a project's file is there and has a table of rules."""
    try:
        content = _content(path)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return False
    return "check" in content.get("tool", {}).get("tracekit", {})
