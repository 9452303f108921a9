"""Interactive terminal browser of a trace, from the overview to single events and SQL."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.trace import Trace


def check_installed() -> None:
    if importlib.util.find_spec("textual") is None:
        raise UsageError("textual is not installed", hint="pip install '.[tui]'")


def browse(trace: Trace, traces: Sequence[str]) -> int:
    """Browse a trace in the terminal until the user quits."""
    check_installed()
    from tracekit.browse.app import Browser

    # Without mouse support, the terminal's own selection can copy text, even over SSH.
    browser = Browser(trace, traces)
    browser.run(mouse=False)
    return browser.return_code or 0
