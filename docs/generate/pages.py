"""Every page and picture that is generated."""

from __future__ import annotations

from pathlib import Path

from .analyses import analysis_pages
from .command_line import command_line_page
from .manifest import manifest_page
from .picture import picture
from .python_api import python_page
from .tables import table_pages


def generated(folder: Path) -> dict[str, str]:
    """Return the text of every generated file by its path from the root of the repository.

    Args:
        folder: where the stores of the samples are kept meanwhile.
    """
    return {
        **table_pages(),
        **manifest_page(),
        **python_page(),
        **command_line_page(folder),
        **analysis_pages(folder),
        **picture(folder),
    }
