"""The page for those who come from other tools: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import click

from tracekit.analysis.catalog import load_catalog
from tracekit.cli._main import group

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "coming-from.md"


def test_every_command_is_there() -> None:
    commands = re.findall(r"tracekit ([a-z]+)(?: ([a-z_]+))?", PAGE.read_text("utf-8"))
    assert len(commands) > 40
    asked = {name for command, name in commands if command == "query"}
    assert asked <= load_catalog().analyses.keys()
    known = group.list_commands(click.Context(group))
    assert {command for command, _ in commands} <= {*known}
    formats = {name for command, name in commands if command == "export"}
    assert formats == {"chrome", "speedscope"}
