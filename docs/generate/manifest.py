"""Reference page of `run.json`, from the classes that write and read it."""

from __future__ import annotations

import inspect
import re

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from tracekit import manifest

from .markdown import link, prose, table
from .places import REPO, in_repo

PAGE = "docs/reference/manifest.md"
_SOURCE = in_repo(inspect.getfile(manifest.Manifest))


def manifest_page() -> dict[str, str]:
    """Return the page: every member of a manifest with its type and default."""
    parts = [
        "# The manifest: run.json\n",
        f"{prose(inspect.getdoc(manifest) or '')}\n",
        (
            f"This page is generated from the classes in {link(_SOURCE, _SOURCE, PAGE)}."
            f" `schema_version` is {manifest.SCHEMA_VERSION}. It increases if the meaning of a"
            " member changes, and tracekit rejects manifests with a later version. In SQL, each"
            f" manifest is a row of table {link('`run`', 'docs/reference/tables.md#run', PAGE)}.\n"
        ),
    ]
    for described in _classes(manifest.Manifest):
        rows = (
            (f"`{member.name}`", _type(member), _default(member)) for member in fields(described)
        )
        parts += [
            f"## {described.__name__}\n",
            f"{prose(inspect.getdoc(described) or '')}\n",
            table(("member", "type", "default"), rows),
        ]
    parts += ["## Outcomes\n", "How a run ended:\n", _outcomes()]
    return {PAGE: "\n".join(parts)}


def _classes(first: type) -> list[type]:
    """Return a class and the classes of its members, recursively, each once."""
    classes = [first]
    for described in classes:
        for member in fields(described):
            for name in re.findall(r"\b[A-Z]\w+", str(member.type)):
                inner = getattr(manifest, name, None)
                if isinstance(inner, type) and issubclass(inner, Struct):
                    classes += [inner] if inner not in classes else []
    return classes


def _type(member: FieldInfo) -> str:
    text = str(member.type).replace("|", "\\|")
    return re.sub(r"\b([A-Z]\w+)\b", _linked, f"{text}")


def _linked(match: re.Match[str]) -> str:
    name = match[1]
    inner = getattr(manifest, name, None)
    if isinstance(inner, type) and issubclass(inner, Struct):
        return f"[{name}](#{name.lower()})"
    return f"[{name}](#outcomes)" if name == "Outcome" else name


def _default(member: FieldInfo) -> str:
    if member.default is not NODEFAULT:
        return f"`{member.default!r}`" if member.default is not None else "null"
    if member.default_factory is not NODEFAULT:
        return "empty" if not member.default_factory() else "see below"
    return "required"


def _outcomes() -> str:
    """Return the list of outcomes from the docstring of their type."""
    sources = [*REPO.glob("tracekit/manifest*.py"), *REPO.glob("tracekit/manifest/*.py")]
    text = "\n".join(source.read_text("utf-8") for source in sorted(sources))
    (docstring,) = re.findall(r'^Outcome = [^\n]*\n"""(.*?)"""', text, re.MULTILINE | re.DOTALL)
    return str(docstring).partition("\n\n")[2].strip() + "\n"
