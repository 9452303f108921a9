"""Pages of what SQL sees: ingested tables, derived tables and views, macros."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.spec import Spec
from tracekit.schema import TABLES, Table

from .analyses import columns, rests_on
from .event_members import TITLE, event_members
from .markdown import link, prose, slug, table
from .places import in_repo
from .subjects import by_subject

TABLES_PAGE = "docs/reference/tables.md"
DERIVED_PAGE = "docs/reference/derived.md"
MACROS_PAGE = "docs/reference/macros.md"

_SCHEMA = in_repo(inspect.getfile(Table))
_MACRO = re.compile(r"^CREATE OR REPLACE MACRO (\w+)\(([^)]*)\)", re.MULTILINE)


def table_pages() -> dict[str, str]:
    """Return the pages by their path from the root of the repository."""
    return {
        TABLES_PAGE: _ingested(),
        DERIVED_PAGE: _derived(),
        MACROS_PAGE: _macros(),
    }


def _ingested() -> str:
    page = TABLES_PAGE
    parts = [
        "# Ingested tables\n",
        (
            "What the files said, typed, nothing thrown away. Names carry their units: `_ns`"
            " nanoseconds, `_bytes`, `_pct` 0 to 100, `_count`, `_per_s`. The"
            f" {link('derived tables and views', DERIVED_PAGE, page)} say what it means. This page"
            f" is made from {link(_SCHEMA, _SCHEMA, page)}. Which member or argument of an event"
            f" goes where: [{TITLE}](#{slug(TITLE)}).\n"
        ),
        table(
            ("table", "a row is"),
            ((f"[`{t.name}`](#{t.name})", prose(t.row)) for t in TABLES),
        ),
    ]
    parts += map(_ingested_table, TABLES)
    return "\n".join([*parts, event_members(page)])


def _ingested_table(described: Table) -> str:
    rows = ((f"`{c.name}`", c.type, prose(c.meaning)) for c in described.columns)
    return (
        f"## {described.name}\n\nA row is {prose(described.row)}.\n\n"
        f"{table(('column', 'type', 'meaning'), rows)}"
    )


def _derived() -> str:
    page = DERIVED_PAGE
    catalog = load_catalog()
    specs = {**catalog.tables, **catalog.views}
    parts = [
        "# Derived tables and views\n",
        (
            f"What the {link('ingested tables', TABLES_PAGE, page)} mean. Most tables are made"
            " with a store; others when SQL first names them, and they go with the connection;"
            " views are read anew each time. Any SQL may use all of them:"
            ' `tracekit sql TRACE "SELECT …"`. This page is made from the headers of the SQL'
            " files.\n"
        ),
        *_listed("name", specs.values()),
    ]
    for _, spec in sorted(specs.items()):
        parts += [
            f"## {spec.name}\n",
            _about(spec, page),
            columns(spec),
            *(f"- always: `{text}`" for text in spec.invariants),
        ]
        parts += [""] if spec.invariants else []
    return "\n".join(parts)


def _macros() -> str:
    page = MACROS_PAGE
    macros = load_catalog().functions
    parts = [
        "# Macros\n",
        (
            "Functions for SQL: intervals, rates, forms of ops. A file may hold several; a"
            " statement of yours has those whose file's name it calls. This page is made from the"
            " headers of the SQL files.\n"
        ),
        *_listed("file", macros.values()),
    ]
    for _, spec in sorted(macros.items()):
        calls = [f"`{name}({args})`" for name, args in _MACRO.findall(spec.sql)]
        rows = ((f"`{p.name}`", p.type, prose(p.meaning)) for p in spec.params)
        parts += [f"## {spec.name}\n", _about(spec, page), ", ".join(calls) + "\n"]
        parts += [table(("parameter", "type", "meaning"), rows)] if spec.params else []
        parts += [columns(spec)] if spec.columns else []
    return "\n".join(parts)


def _listed(title: str, specs: Iterable[Spec]) -> list[str]:
    """Return a list of SQL files by subject, those first that are for everybody."""
    parts = []
    for subject, inside in by_subject(specs).items():
        shown = sorted(inside, key=lambda spec: (spec.is_private, spec.name))
        parts += [f"**{subject.title}**: {prose(subject.meaning)}\n"]
        parts += [
            table(
                (title, "kind", "description"),
                ((f"[`{s.name}`](#{s.name})", _kind(s), prose(s.question)) for s in shown),
            )
        ]
    return parts


def _kind(spec: Spec) -> str:
    return f"{spec.kind}, private" if spec.is_private else spec.kind


def _about(spec: Spec, page: str) -> str:
    sql = in_repo(spec.path)
    about = " ".join(filter(None, [f"**{prose(spec.question)}**", prose(spec.description)]))
    if spec.is_private:
        about += " It is private: it helps others, and may change with any version."
    return f"{about}\n\nSQL: {link(sql, sql, page)}. Based on: {rests_on(spec, page)}.\n"
