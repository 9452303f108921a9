"""The pages of the reference, and which of them shows a source file."""

from __future__ import annotations

from pathlib import Path

from tracekit.analysis.catalog import load_catalog

from .analyses import analysis_pages, page_of, place_of
from .command_line import command_line_page
from .event_members import DESCRIPTION, TITLE
from .manifest import PAGE as MANIFEST_PAGE
from .manifest import manifest_page
from .markdown import slug
from .places import in_repo
from .python_api import PAGE as PYTHON_PAGE
from .python_api import python_page
from .subjects import by_subject
from .tables import DERIVED_PAGE, MACROS_PAGE, TABLES_PAGE, table_pages


def reference(folder: Path) -> dict[str, str]:
    """Return the text of every page of the reference by its path from the root of the repository.

    Args:
        folder: where the stores of the samples are kept meanwhile.
    """
    return {
        **table_pages(),
        **manifest_page(),
        **python_page(),
        **command_line_page(folder),
        **analysis_pages(folder),
    }


def pages_of_sources() -> dict[str, str]:
    """Return where the reference shows a source file, by the file's path in the repository."""
    catalog = load_catalog()
    analyses = by_subject(catalog.analyses.values())
    derived = {**catalog.tables, **catalog.views}
    return {
        "tracekit/schema.py": TABLES_PAGE,
        "tracekit/manifest.py": MANIFEST_PAGE,
        "tracekit/__init__.py": PYTHON_PAGE,
        DESCRIPTION: f"{TABLES_PAGE}#{slug(TITLE)}",
        **{f"queries/{subject.name}": page_of(subject.name) for subject in analyses},
        **{in_repo(spec.path): f"{MACROS_PAGE}#{name}" for name, spec in catalog.functions.items()},
        **{in_repo(spec.path): f"{DERIVED_PAGE}#{name}" for name, spec in derived.items()},
        **{in_repo(spec.path): place_of(spec) for spec in catalog.analyses.values()},
    }
