"""A page for each analysis, and the list of them, from the headers of the SQL files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tracekit.analysis.catalog import Catalog, load_catalog
from tracekit.analysis.spec import ColumnSpec, Param, Spec
from tracekit.schema import SESSION_TABLES, TABLES

from .markdown import console, link, prose, table
from .places import RUN_SAMPLES, SAMPLES, in_repo
from .sessions import run

FOLDER = "docs/reference/analyses"

_SCOPES = {
    "trace": "each trace by itself",
    "run": "the traces of one run together",
    "runs": "runs, from their manifests; no trace is read",
}
_MAX_LINES = 24
# So many rows of an analysis that takes a limit.
_LIMIT = 3


def analysis_pages(folder: Path) -> dict[str, str]:
    """Return the pages by their path from the root of the repository.

    Args:
        folder: where the stores of the samples are kept meanwhile.
    """
    catalog = load_catalog()
    pages = {f"{FOLDER}/{spec.name}.md": _page(spec, folder) for spec in catalog.analyses.values()}
    return {f"{FOLDER}/index.md": _index(catalog)} | pages


def subjects(specs: Mapping[str, Spec], root: str) -> dict[str, list[Spec]]:
    """Return SQL files by the folder below `queries/<root>/` that they lie in, "" for none."""
    found: dict[str, list[Spec]] = {}
    for spec in specs.values():
        parts = PurePosixPath(in_repo(spec.path)).parent.parts
        below = parts[parts.index(root) + 1 :] if root in parts else parts[1:]
        found.setdefault("/".join(below), []).append(spec)
    return dict(sorted(found.items()))


def options(params: tuple[Param, ...]) -> str:
    """Return the table of an analysis' options."""
    rows = []
    for param in params:
        flag = f"`--{param.name.replace('_', '-')}`"
        kind = " or ".join(f"`{choice}`" for choice in param.choices) or param.type
        default = "needed" if param.is_required else _default(param)
        rows.append((flag, kind, default, prose(param.meaning)))
    return table(("option", "value", "default", "meaning"), rows)


def columns(spec: Spec) -> str:
    """Return the table of a SQL file's columns."""
    return table(
        ("column", "type", "meaning"),
        ((f"`{c.name}`", _type(c), prose(c.meaning)) for c in spec.columns),
    )


def is_private(spec: Spec) -> bool:
    """Whether a SQL file is marked as one that only helps others."""
    return bool(getattr(spec, "is_private", False))


def _type(column: ColumnSpec) -> str:
    """Return the type of a column, and what it joins where the header says so."""
    key = getattr(column, "key", None)
    return f"{column.type} → `{key}`" if key else column.type


def rests_on(spec: Spec, page: str) -> str:
    """Return links to what a SQL file is made of."""
    return ", ".join(_link_to(name, page) for name in spec.requires) or "nothing else"


def _default(param: Param) -> str:
    return "" if param.default in (None, "NULL") else f"`{param.default}`"


def _link_to(name: str, page: str) -> str:
    catalog = load_catalog()
    homes = {
        "docs/reference/derived.md": {**catalog.tables, **catalog.views},
        "docs/reference/macros.md": catalog.macros,
        "docs/reference/tables.md": {table.name for table in (*TABLES, *SESSION_TABLES)},
    }
    for home, names in homes.items():
        if name in names:
            return link(f"`{name}`", f"{home}#{name}", page)
    return f"`{name}`"


def _index(catalog: Catalog) -> str:
    page = f"{FOLDER}/index.md"
    parts = [
        "# Analyses\n",
        (
            "An analysis answers one question. `tracekit query NAME TRACE` runs it; from Python it"
            " is `trace.query(NAME)`. Each has a page here, made from the header of its SQL file.\n"
        ),
        "Scope says what a row is computed from: "
        + "; ".join(f"`{scope}`: {meaning}" for scope, meaning in _SCOPES.items())
        + ".\n",
    ]
    for subject, specs in subjects(catalog.analyses, "analyses").items():
        if subject:
            parts.append(f"## {subject.replace('/', ': ').replace('_', ' ').capitalize()}\n")
        rows = (
            (link(f"`{s.name}`", f"{FOLDER}/{s.name}.md", page), s.scope or "", prose(s.question))
            for s in specs
        )
        parts.append(table(("analysis", "scope", "question"), rows))
    return "\n".join(parts)


def _page(spec: Spec, folder: Path) -> str:
    page = f"{FOLDER}/{spec.name}.md"
    sql = in_repo(spec.path)
    parts = [
        f"# {spec.name}\n",
        f"**{prose(spec.question)}**\n",
        *([f"{prose(spec.description)}\n"] if spec.description else []),
        (
            f"Scope `{spec.scope}`: {_SCOPES[spec.scope or 'trace']}. Rests on: "
            f"{rests_on(spec, page)}.\n"
        ),
        *(f"{prose(note[0].upper() + note[1:])}.\n" for note in spec.notes),
        "## Columns\n",
        columns(spec),
    ]
    if spec.params:
        parts += ["## Options\n", options(spec.params)]
    if spec.invariants:
        parts += ["## True in every row\n", *(f"- `{text}`" for text in spec.invariants), ""]
    parts += ["## Example\n", _example(spec, folder), "## SQL\n"]
    parts += [f"{link(sql, sql, page)}, also: `tracekit query {spec.name} --explain`\n"]
    parts += [f"<!-- sql: {sql} -->\n"]
    return "\n".join(parts)


def _example(spec: Spec, folder: Path) -> str:
    limit = f" --limit {_LIMIT}" if any(param.name == "limit" for param in spec.params) else ""
    for sample in RUN_SAMPLES if spec.scope == "runs" else SAMPLES:
        command = f"tracekit query {spec.name} {sample}{limit}"
        output = run(command, folder)
        if _says_something(output):
            break
    else:
        return "None of the bundled samples has what this is about.\n"
    if output.count("\n") > _MAX_LINES:
        command += f" | head -n {_MAX_LINES}"
        output = "".join(output.splitlines(keepends=True)[:_MAX_LINES])
    return console(command, output)


def _says_something(output: str) -> bool:
    lines = output.splitlines()
    return not any(line == "no rows" or line.startswith("error: ") for line in lines)
