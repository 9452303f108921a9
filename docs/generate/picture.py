"""SVG picture of a breakdown in color."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

import tracekit
from tracekit.analysis.breakdown import of_steps
from tracekit.render.table import breakdown_lines

from .places import REPO
from .sessions import WIDTH, environment

PATH = "docs/images/breakdown.svg"
SAMPLE = "sample_traces/h200_finetune_L"
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
    [(110, 118, 129)] * 8,
)
# Line ends, and references to clip paths that only rich's default frame defines.
_INDENTED = re.compile(
    r'x="(?P<x>[^"]+)" y="(?P<y>[^"]+)" textLength="(?P<length>[^"]+)">'
    r"(?P<spaces>(?:&#160;)+)(?P<text>[^<\s][^<]*)</text>"
)
_LEFT_OVER = re.compile(r' clip-path="url\(#[^)]*\)"|<text [^>]*>\n</text>')
# Like rich's default format, but without a window frame and web fonts.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -10 {width} {height}">
<style>
.{unique_id}-matrix {{ font: {char_height}px monospace; line-height: {line_height}px;
white-space: pre; }}
{styles}
</style>
<rect x="-8" y="-10" width="100%" height="100%" fill="#1b1f24"/>
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</svg>
"""


def picture(folder: Path) -> dict[str, str]:
    """Return the picture of a breakdown by its path, relative to the repository.

    Args:
        folder: temporary folder for the store of the sample.
    """
    console = Console(record=True, width=WIDTH, file=io.StringIO(), markup=False, highlight=False)
    with environment(folder), tracekit.open(REPO / SAMPLE) as trace:
        results = trace.breakdown()
        results |= trace.results(of_steps(results))
        for line in breakdown_lines(results, WIDTH, full=False):
            console.print(line, crop=False, no_wrap=True)
    svg = console.export_svg(title="", theme=_THEME, code_format=_FORMAT, unique_id="breakdown")
    return {PATH: _INDENTED.sub(_moved, _LEFT_OVER.sub("", svg))}


def _moved(match: re.Match[str]) -> str:
    """Replace leading spaces by a larger x, because some image viewers ignore these spaces."""
    spaces = match["spaces"].count("&#160;")
    length = float(match["length"])
    cell = length / len(html.unescape(match["spaces"] + match["text"]))
    x, rest = float(match["x"]) + spaces * cell, length - spaces * cell
    return f'x="{x:.1f}" y="{match["y"]}" textLength="{rest:.1f}">{match["text"]}</text>'
