"""Reference pages of analyses: an index and one page per subject, from SQL headers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tracekit.analysis.catalog import Catalog, load_catalog
from tracekit.analysis.library import reads
from tracekit.analysis.relations import is_relation
from tracekit.analysis.spec import ColumnSpec, Param, Spec
from tracekit.schema import TABLES

from .markdown import console, link, prose, table
from .places import RUN_SAMPLES, SAMPLES, in_repo
from .sessions import opened_once, run
from .subjects import by_subject

FOLDER = "docs/reference/analyses"

_SCOPES = {
    "trace": "one trace at a time",
    "run": "the traces of one run together",
    "runs": "runs, from their manifests, without reading traces",
}
_MAX_LINES = 24
# `--limit` in examples of analyses that have this option.
_LIMIT = 3
# Sample and options in the examples of analyses with required options.
_EXAMPLES = {
    "why": ("docs/samples/made_up_step.json", " --event-id 24"),
    "waited_for": ("docs/samples/made_up_step.json", " --event-id 24"),
}


def analysis_pages(folder: Path) -> dict[str, str]:
    """Return the pages by their path from the root of the repository.

    Args:
        folder: temporary folder for the stores of the samples.
    """
    catalog = load_catalog()
    with opened_once():
        pages = {
            page_of(subject.name): "\n".join(
                [
                    f"# {subject.title}\n",
                    f"{prose(subject.sentence)}\n",
                    *(_section(spec, folder) for spec in specs),
                ]
            )
            for subject, specs in by_subject(catalog.analyses.values()).items()
        }
    return {f"{FOLDER}/index.md": _index(catalog)} | pages


def page_of(subject: str) -> str:
    """Return the path of a subject's page, relative to the repository."""
    return f"{FOLDER}/{subject}.md"


def link_target(spec: Spec) -> str:
    """Return the page and anchor of an analysis, relative to the repository."""
    return f"{page_of(spec.subject)}#{spec.name}"


def options(params: tuple[Param, ...]) -> str:
    """Return the table of an analysis's options."""
    rows = []
    for param in params:
        flag = _flag(param.name)
        kind = " or ".join(f"`{choice}`" for choice in param.choices) or param.type
        default = "required" if param.is_required else _default(param)
        rows.append((flag, kind, default, prose(param.meaning)))
    return table(("option", "value", "default", "meaning"), rows)


def columns(spec: Spec) -> str:
    """Return the table of an SQL file's columns."""
    return table(
        ("column", "type", "meaning"),
        ((f"`{c.name}`", _type(c), prose(c.meaning)) for c in spec.columns),
    )


def _type(column: ColumnSpec) -> str:
    """Return the type of a column, and the column that it joins, if any."""
    return f"{column.type} → `{column.key}`" if column.key else column.type


def dependency_links(spec: Spec, page: str) -> str:
    """Return links to the relations and functions that an SQL file reads."""
    links = dict.fromkeys(_link_to(name, page) for name in reads(spec.name))
    return ", ".join(filter(None, links)) or "nothing else"


def _flag(name: str) -> str:
    return f"`--{name.replace('_', '-')}`"


def _default(param: Param) -> str:
    return "" if param.default in (None, "NULL") else f"`{param.default}`"


def _link_to(name: str, page: str) -> str:
    catalog = load_catalog()
    if name.endswith("()") or is_relation(name):
        return link(f"`{name}`", link_target(catalog.analysis(name.removesuffix("()"))), page)
    homes = {
        "docs/reference/derived.md": {**catalog.tables, **catalog.views},
        "docs/reference/macros.md": catalog.functions,
        "docs/reference/tables.md": {table.name for table in TABLES},
    }
    for home, names in homes.items():
        if name in names:
            return link(f"`{name}`", f"{home}#{name}", page)
    return ""


def _index(catalog: Catalog) -> str:
    page = f"{FOLDER}/index.md"
    parts = [
        "# Analyses\n",
        (
            "An analysis is an SQL query. Run it with `tracekit query NAME TRACE`, or in Python"
            " with `trace.query(NAME)`. This page is generated from the SQL headers.\n"
        ),
        "The scope names the input of an analysis: "
        + "; ".join(f"`{scope}`: {meaning}" for scope, meaning in _SCOPES.items())
        + ".\n",
    ]
    for subject, specs in by_subject(catalog.analyses.values()).items():
        parts.append(f"## {subject.title}\n\n{prose(subject.sentence)}\n")
        rows = (
            (link(f"`{s.name}`", link_target(s), page), s.scope or "", prose(s.question))
            for s in specs
        )
        parts.append(table(("analysis", "scope", "description"), rows))
    return "\n".join(parts)


def _section(spec: Spec, folder: Path) -> str:
    page = page_of(spec.subject)
    sql = in_repo(spec.path)
    parts = [
        f"## {spec.name}\n",
        f"**{prose(spec.question)}**\n",
        *([f"{prose(spec.description)}\n"] if spec.description else []),
        f"Scope `{spec.scope}`: {_SCOPES[spec.scope or 'trace']}.\n",
        f"Based on: {dependency_links(spec, page)}.\n",
        *(f"{prose(note[0].upper() + note[1:])}.\n" for note in spec.notes),
        *(
            ["Message without rows: " + prose("; ".join(why for _, why in spec.empty)) + ".\n"]
            if spec.empty
            else []
        ),
        columns(spec),
        *_narrow_columns(spec),
    ]
    if spec.params:
        parts += [options(spec.params)]
    if spec.needs:
        parts += [f"At least one of {' and '.join(map(_flag, spec.needs))} is required.\n"]
    if spec.invariants:
        parts += ["Each row satisfies:\n", *(f"- `{text}`" for text in spec.invariants), ""]
    parts += [_example(spec, folder)]
    words = load_catalog().analyses.words(spec.name)
    parts += [f"SQL: {link(sql, sql, page)}, also `tracekit query {words} --explain`\n"]
    return "\n".join(parts)


def _narrow_columns(spec: Spec) -> list[str]:
    """Return a sentence with the columns that narrow terminals omit last."""
    if not spec.keep:
        return []
    names = ", ".join(f"`{name}`" for name in spec.keep)
    return [f"Narrow terminals omit the columns {names} last; `--wide` shows all columns.\n"]


def _example(spec: Spec, folder: Path) -> str:
    options = f" --limit {_LIMIT}" if any(param.name == "limit" for param in spec.params) else ""
    samples: Iterable[str] = RUN_SAMPLES if spec.scope == "runs" else SAMPLES
    if spec.name in _EXAMPLES:
        sample, options = _EXAMPLES[spec.name]
        samples = [sample]
    for sample in samples:
        words = load_catalog().analyses.words(spec.name)
        command = f"tracekit query {words} {sample}{options}"
        output = run(command, folder)
        if _has_rows(output):
            break
    else:
        return "No bundled sample has rows for this analysis.\n"
    if output.count("\n") > _MAX_LINES:
        command += f" | head -n {_MAX_LINES}"
        output = "".join(output.splitlines(keepends=True)[:_MAX_LINES])
    return console(command, output)


def _has_rows(output: str) -> bool:
    lines = output.splitlines()
    return not any(line == "no rows" or line.startswith("error: ") for line in lines)
