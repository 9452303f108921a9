"""The workflows of the page about CI: their commands are ones that this tracekit takes."""

import re
import shlex
import tomllib

import click
from every_trace import REPO

from tracekit.checking.rules import parse_rule
from tracekit.cli._main import group

PAGE = (REPO / "docs" / "how-to" / "ci.md").read_text("utf-8")


def _commands():
    found = []
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        joined = re.sub(r"run: >\n\s+", "run: ", block).replace("\n          >>", " >>")
        for line in re.findall(r"^\s*(?:- run:|-) (tracekit .*)$", joined, re.MULTILINE):
            found.append(shlex.split(line.partition(" >>")[0])[1:])
    return found


def test_every_command_of_the_workflows_is_understood():
    commands = _commands()
    assert [command[0] for command in commands] == [
        *("collect", "check"),
        *("collect", "check", "collect", "check"),
    ]
    for name, *arguments in commands:
        _, command, rest = group.resolve_command(click.Context(group), [name, *arguments])
        command.make_context(name, rest)


def test_every_rule_of_the_page_is_one():
    table = PAGE.partition("## Rules")[2].partition("\n\nA limit")[0]
    texts = [
        text
        for row in table.splitlines()[4:]
        for text in re.findall(r"`([^`]+)`", row.split("|")[1])
    ]
    assert len(texts) > 12
    for text in texts:
        parse_rule(text)
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    settings = tomllib.loads(block)["tool"]["tracekit"]["check"]
    for text in settings["rules"].values():
        parse_rule(text)
