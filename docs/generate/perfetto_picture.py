"""The picture of a trace in Perfetto, with our tracks above those of the file."""

from __future__ import annotations

import re
import tempfile
from typing import TYPE_CHECKING

import tracekit
from tracekit.export.perfetto import export_perfetto
from tracekit.export.selection import Selection
from tracekit.export.viewer import serving

from .places import REPO

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SAMPLE = "sample_traces/pretrain_R+Z3"

# The engine reads the trace in the browser, which takes a while on a busy machine.
_PATIENCE_MS = 240_000


def perfetto(browser: Browser) -> bytes:
    """Return the picture as PNG."""
    with tempfile.TemporaryFile() as file:
        with tracekit.open(REPO / SAMPLE) as trace:
            export_perfetto(trace, file.write, Selection())
        file.flush()
        with serving(file, "pretrain_R+Z3", None) as served:
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.goto(served.address)
            page.wait_for_function(
                "window.app && app.trace && !app.isLoadingTrace", timeout=_PATIENCE_MS
            )
            page.keyboard.press("Control+b")  # without the bar at the side
            # Ranks and devices are unfolded when the view opens; the threads of the host are not.
            page.wait_for_timeout(3_000)
            page.get_by_text(re.compile(r"\(CPU\)$"), exact=True).first.click()
            page.wait_for_timeout(3_000)
            image = page.screenshot()
            page.close()
    return image
