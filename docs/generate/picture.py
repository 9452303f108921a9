"""The picture of a breakdown in colour, as SVG."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

import tracekit
from tracekit.render._breakdown import breakdown_lines

from .places import REPO
from .sessions import WIDTH, environment

PATH = "docs/images/breakdown.svg"
SAMPLE = "sample_traces/serve_transformers"
_LINES = 44
_THEME = TerminalTheme(
    (27, 31, 36),
    (214, 220, 226),
    [
        (27, 31, 36),
        (224, 108, 117),
        (120, 190, 120),
        (220, 180, 100),
        (97, 160, 230),
        (190, 130, 210),
        (90, 180, 190),
        (170, 178, 186),
    ],
)
# The ends of lines, and references to clippings that the frame of rich's own picture defines.
_LEFT_OVER = re.compile(r' clip-path="url\(#[^)]*\)"|<text [^>]*>\n</text>')
# Without the frame of a window, and without fonts from elsewhere: no page fetches anything.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {terminal_height}">
<style>
.{unique_id}-matrix {{ font: {char_height}px monospace; line-height: {line_height}px;
white-space: pre; }}
{styles}
</style>
<rect width="100%" height="100%" fill="#1b1f24"/>
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</svg>
"""


def picture(folder: Path) -> dict[str, str]:
    """Return the picture of the first lines of a breakdown by its path in the repository.

    Args:
        folder: where the store of the sample is kept meanwhile.
    """
    console = Console(record=True, width=WIDTH, file=io.StringIO(), markup=False, highlight=False)
    with environment(folder), tracekit.open(REPO / SAMPLE) as trace:
        lines = list(breakdown_lines(trace.breakdown(), WIDTH, full=False))
    for line in lines[:_LINES]:
        console.print(line, crop=False, no_wrap=True)
    svg = console.export_svg(title="", theme=_THEME, code_format=_FORMAT, unique_id="breakdown")
    return {PATH: _LEFT_OVER.sub("", svg)}
