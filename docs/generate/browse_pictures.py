"""SVG pictures of `tracekit browse` on an 80-column screen, after a sequence of keys."""

from __future__ import annotations

import asyncio
import re

from msgspec import Struct
from textual.widgets import Static

import tracekit
from tracekit.browse.app import Browser

from .places import REPO

# References to web fonts, removed because pages load nothing from the network.
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)


class Walk(Struct, frozen=True):
    """Keys to press for a picture, and the sample to open."""

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
    """Return the screen after all keys of a walk, as SVG."""
    path = f"sample_traces/{walk.sample}"

    async def screenshot() -> str:
        with tracekit.open(REPO / path) as trace:
            browser = Browser(trace, [path])
            async with browser.run_test(size=(80, 24)) as pilot:
                for key in ("", *walk.keys):
                    if key:
                        await pilot.press(key)
                    # The status line shows the number of rows once they are loaded.
                    while browser.workers or not str(
                        browser.screen.query_one("#status", Static).render()
                    ).startswith(("rows", "no rows")):
                        await pilot.pause(0.02)
                await pilot.pause(0.2)
                return browser.export_screenshot(title=f"tracekit browse {path}")

    return _FONTS.sub("", asyncio.run(screenshot()))
