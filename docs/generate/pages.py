"""All pages of the reference, and the page that documents each source file."""

from __future__ import annotations

from pathlib import Path

from tracekit.analysis.catalog import load_catalog

from .analyses import analysis_pages, link_target, page_of
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
    """Return the text of every reference page by its path, relative to the repository.

    Args:
        folder: temporary folder for the stores of the samples.
    """
    return {
        **table_pages(),
        **manifest_page(),
        **python_page(),
        **command_line_page(folder),
        **analysis_pages(folder),
    }


def pages_of_sources() -> dict[str, str]:
    """Return the page and anchor that document each source file, by the path of the file."""
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
        **{in_repo(spec.path): link_target(spec) for spec in catalog.analyses.values()},
    }
