"""The page of `run.json`, from the classes that write and read it."""

from __future__ import annotations

import dataclasses
import inspect
import re

from tracekit import manifest

from .markdown import link, prose, table
from .places import REPO, in_repo

PAGE = "docs/reference/manifest.md"
_SOURCE = in_repo(inspect.getfile(manifest.Manifest))


def manifest_page() -> dict[str, str]:
    """Return the page: every member of a manifest with its type and what it is if left out."""
    parts = [
        "# The manifest: run.json\n",
        f"{prose(inspect.getdoc(manifest) or '')}\n",
        (
            f"Members are those of the classes in {link(_SOURCE, _SOURCE, PAGE)}, which this page"
            f" is made from. `schema_version` is {manifest.SCHEMA_VERSION}: it is raised when a"
            " member changes its meaning, and a manifest of a later version is refused. SQL sees a"
            f" manifest as a row of table {link('`run`', 'docs/reference/tables.md#run', PAGE)}.\n"
        ),
    ]
    for described in _classes(manifest.Manifest):
        rows = (
            (f"`{member.name}`", _type(member), _default(member))
            for member in dataclasses.fields(described)
        )
        parts += [
            f"## {described.__name__}\n",
            f"{prose(inspect.getdoc(described) or '')}\n",
            table(("member", "type", "if left out"), rows),
        ]
    parts += ["## Outcomes\n", "How a run ended:\n", _outcomes()]
    return {PAGE: "\n".join(parts)}


def _classes(first: type) -> list[type]:
    """Return a class and those that its members are made of, each once, in their order."""
    found = [first]
    for described in found:
        for member in dataclasses.fields(described):
            for name in re.findall(r"\b[A-Z]\w+", str(member.type)):
                inner = getattr(manifest, name, None)
                if isinstance(inner, type) and dataclasses.is_dataclass(inner):
                    found += [inner] if inner not in found else []
    return found


def _type(member: dataclasses.Field[object]) -> str:
    text = str(member.type).replace("|", "\\|")
    return re.sub(r"\b([A-Z]\w+)\b", _linked, f"{text}")


def _linked(found: re.Match[str]) -> str:
    name = found[1]
    inner = getattr(manifest, name, None)
    if isinstance(inner, type) and dataclasses.is_dataclass(inner):
        return f"[{name}](#{name.lower()})"
    return f"[{name}](#outcomes)" if name == "Outcome" else name


def _default(member: dataclasses.Field[object]) -> str:
    if member.default is not dataclasses.MISSING:
        return f"`{member.default!r}`" if member.default is not None else "null"
    if member.default_factory is not dataclasses.MISSING:
        return "empty" if not member.default_factory() else "as below"
    return "needed"


def _outcomes() -> str:
    """Return the list of outcomes from the text that stands below their type."""
    sources = [*REPO.glob("tracekit/manifest*.py"), *REPO.glob("tracekit/manifest/*.py")]
    text = "\n".join(source.read_text("utf-8") for source in sorted(sources))
    (found,) = re.findall(r'^Outcome = .*\n"""(.*?)"""', text, re.MULTILINE | re.DOTALL)
    return str(found).partition("\n\n")[2].strip() + "\n"
