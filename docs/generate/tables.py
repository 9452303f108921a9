"""Reference pages of ingested tables, derived tables and views, and macros."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.spec import Spec
from tracekit.schema import TABLES, Table

from .analyses import columns, dependency_links
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
    """Return the pages by their paths, relative to the repository."""
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
            "The complete contents of the input files, with types. Names end in their unit: `_ns`"
            " (nanoseconds), `_bytes`, `_pct` (0 to 100), `_count`, `_per_s`."
            f" {link('Derived tables and views', DERIVED_PAGE, page)} interpret these tables."
            f" [{TITLE}](#{slug(TITLE)}) maps event fields to columns. This page is generated from"
            f" {link(_SCHEMA, _SCHEMA, page)}.\n"
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
            f"Tables and views that interpret the {link('ingested tables', TABLES_PAGE, page)}."
            " Most tables are created with the store. The others are created when an SQL"
            " statement first names them, and exist until the connection is closed. Use them in"
            ' any SQL statement: `tracekit sql TRACE "SELECT …"`. This page is generated from the'
            " SQL headers.\n"
        ),
        *_listed("name", specs.values()),
    ]
    for _, spec in sorted(specs.items()):
        parts += [
            f"## {spec.name}\n",
            _about(spec, page),
            columns(spec),
            *(f"- invariant: `{text}`" for text in spec.invariants),
        ]
        parts += [""] if spec.invariants else []
    return "\n".join(parts)


def _macros() -> str:
    page = MACROS_PAGE
    macros = load_catalog().functions
    parts = [
        "# Macros\n",
        (
            "SQL functions for intervals, rates, and op names and shapes. Each file defines one or"
            " more macros; your statement can use them if it calls the macro that has the name of"
            " the file. This page is generated from the SQL headers.\n"
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
    """Return tables of SQL files by subject, with private files last."""
    parts = []
    for subject, files in by_subject(specs).items():
        shown = sorted(files, key=lambda spec: (spec.is_private, spec.name))
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
        about += " It is private: a helper that may change with any version."
    return f"{about}\n\nSQL: {link(sql, sql, page)}. Based on: {dependency_links(spec, page)}.\n"
