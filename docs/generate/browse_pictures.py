"""Pictures of `tracekit browse`: the screen of 80 columns as its keys lead to it, as SVG."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from textual.widgets import Static

import tracekit
from tracekit.browse.app import Browser

from .places import REPO

# Fonts from elsewhere, which no page fetches.
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Walk:
    """Which keys lead to a picture, and of which sample."""

    name: str
    sample: str
    keys: tuple[str, ...]


WALKS = (
    Walk("browse", "finetune_QL", ("4", "down", "down")),
    Walk("browse-collectives", "pretrain_R+Z3", ("8", "down")),
    Walk("browse-steps", "serve_transformers", ("9", "down")),
    Walk("browse-requests", "serve_transformers", ("0", "enter")),
)


def screen(walk: Walk) -> str:
    """Return the screen at the end of a walk as SVG."""
    path = f"sample_traces/{walk.sample}"

    async def walked() -> str:
        with tracekit.open(REPO / path) as trace:
            browser = Browser(trace, [path])
            async with browser.run_test(size=(80, 24)) as pilot:
                for key in ("", *walk.keys):
                    if key:
                        await pilot.press(key)
                    # Where its rows are there, the screen says how many.
                    while browser.workers or not str(
                        browser.screen.query_one("#status", Static).render()
                    ).startswith(("rows", "no rows")):
                        await pilot.pause(0.02)
                await pilot.pause(0.2)
                return browser.export_screenshot(title=f"tracekit browse {path}")

    return _FONTS.sub("", asyncio.run(walked()))
