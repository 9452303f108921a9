"""A page for each subject of analyses, and the list of them, from the headers of the SQL files."""

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
    "trace": "each trace by itself",
    "run": "the traces of one run together",
    "runs": "runs, from their manifests; no trace is read",
}
_MAX_LINES = 24
# So many rows of an analysis that takes a limit.
_LIMIT = 3
# Of what must be asked for something, the sample and what is asked for.
_ASKED = {
    "why": ("docs/samples/made_up_step.json", " --event-id 24"),
    "waited_for": ("docs/samples/made_up_step.json", " --event-id 24"),
}


def analysis_pages(folder: Path) -> dict[str, str]:
    """Return the pages by their path from the root of the repository.

    Args:
        folder: where the stores of the samples are kept meanwhile.
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
    """Return the page of a subject, from the root of the repository."""
    return f"{FOLDER}/{subject}.md"


def place_of(spec: Spec) -> str:
    """Return where an analysis stands: its page from the root of the repository, and its anchor."""
    return f"{page_of(spec.subject)}#{spec.name}"


def options(params: tuple[Param, ...]) -> str:
    """Return the table of an analysis' options."""
    rows = []
    for param in params:
        flag = _flag(param.name)
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


def _type(column: ColumnSpec) -> str:
    """Return the type of a column, and what it joins where the header says so."""
    return f"{column.type} → `{column.key}`" if column.key else column.type


def rests_on(spec: Spec, page: str) -> str:
    """Return links to what a SQL file is made of."""
    links = dict.fromkeys(_link_to(name, page) for name in reads(spec.name))
    return ", ".join(filter(None, links)) or "nothing else"


def _flag(name: str) -> str:
    return f"`--{name.replace('_', '-')}`"


def _default(param: Param) -> str:
    return "" if param.default in (None, "NULL") else f"`{param.default}`"


def _link_to(name: str, page: str) -> str:
    catalog = load_catalog()
    if name.endswith("()") or is_relation(name):
        return link(f"`{name}`", place_of(catalog.analysis(name.removesuffix("()"))), page)
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
            "An analysis is one SQL query. `tracekit query NAME TRACE` runs it; from Python it"
            " is `trace.query(NAME)`. Each subject has a page, made from its SQL files.\n"
        ),
        "Scope says what a row is computed from: "
        + "; ".join(f"`{scope}`: {meaning}" for scope, meaning in _SCOPES.items())
        + ".\n",
    ]
    for subject, specs in by_subject(catalog.analyses.values()).items():
        parts.append(f"## {subject.title}\n\n{prose(subject.sentence)}\n")
        rows = (
            (link(f"`{s.name}`", place_of(s), page), s.scope or "", prose(s.question))
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
        f"Scope `{spec.scope}`: {_SCOPES[spec.scope or 'trace']}. {_made_of(spec, page)}\n",
        *(f"{prose(note[0].upper() + note[1:])}.\n" for note in spec.notes),
        *(
            ["Without rows, its reason: " + prose("; ".join(why for _, why in spec.empty)) + ".\n"]
            if spec.empty
            else []
        ),
        columns(spec),
        *_kept(spec),
    ]
    if spec.params:
        parts += [options(spec.params)]
    if spec.needs:
        parts += [f"One at least of {' and '.join(map(_flag, spec.needs))} must be given.\n"]
    if spec.invariants:
        parts += ["True in every row:\n", *(f"- `{text}`" for text in spec.invariants), ""]
    parts += [_example(spec, folder)]
    words = load_catalog().analyses.words(spec.name)
    parts += [f"SQL: {link(sql, sql, page)}, also `tracekit query {words} --explain`\n"]
    return "\n".join(parts)


def _made_of(spec: Spec, page: str) -> str:
    """Return the sentences that say what an analysis reads."""
    return f"Based on: {rests_on(spec, page)}."


def _kept(spec: Spec) -> list[str]:
    """Return the sentence about the columns that a narrow terminal shows longest."""
    if not spec.keep:
        return []
    names = ", ".join(f"`{name}`" for name in spec.keep)
    return [f"On a narrow terminal the last to go are {names}; `--wide` shows all.\n"]


def _example(spec: Spec, folder: Path) -> str:
    options = f" --limit {_LIMIT}" if any(param.name == "limit" for param in spec.params) else ""
    samples: Iterable[str] = RUN_SAMPLES if spec.scope == "runs" else SAMPLES
    if spec.name in _ASKED:
        sample, options = _ASKED[spec.name]
        samples = [sample]
    for sample in samples:
        words = load_catalog().analyses.words(spec.name)
        command = f"tracekit query {words} {sample}{options}"
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
