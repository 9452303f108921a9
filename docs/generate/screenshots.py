"""Pictures of reports, of the bundled samples: ``PYTHONPATH=docs python -m generate.screenshots``.

They are looked at before they are committed: a browser draws letters as its machine has them, so no
test holds them against anything. It takes playwright and a Chromium (TRACEKIT_CHROMIUM names it).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import tracekit
from tracekit.report import report, runs_page, write

from .places import DOCS, REPO

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = os.environ.get("TRACEKIT_CHROMIUM") or "/usr/bin/chromium"

# Files of this size load at once on a slow line, too.
MAX_BYTES = 200_000

Shot = Callable[["Page"], bytes]


def main() -> None:
    """Write the pictures into the manual."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True)
        for picture, html, width, shot in (
            ("report", _report("pretrain_R+Z3"), 1100, _top),
            ("report-requests", _report("serve_transformers"), 1100, _figure("request_life")),
            ("report-timeline", _report("pretrain_R+Z3"), 1100, _timeline),
            ("paper-figures", _figures(), 1100, _section_top("methods", 760)),
        ):
            file = Path(name) / f"{picture}.html"
            write(html, file)
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready]")
            image = shot(page)
            if len(image) > MAX_BYTES:
                raise RuntimeError(f"{picture}.png has {len(image):,} bytes: show less")
            (DOCS / "images" / f"{picture}.png").write_bytes(image)
            sys.stdout.write(f"{picture}.png: {len(image):,} bytes\n")
        browser.close()


def _report(sample: str) -> str:
    with tracekit.open(REPO / "sample_traces" / sample) as trace:
        return report(trace, [f"sample_traces/{sample}"])


def _figures() -> str:
    with tracekit.open(REPO / "sample_traces", traces=False) as runs:
        return runs_page(runs, ["sample_traces"])


def _top(page: Page) -> bytes:
    page.wait_for_selector("[data-chart=timeline] svg rect")
    return page.screenshot(clip={"x": 0, "y": 0, "width": 1100, "height": 730})


def _figure(name: str) -> Shot:
    def shot(page: Page) -> bytes:
        figure = page.locator(f"figure[data-chart={name}]")
        figure.scroll_into_view_if_needed()
        figure.locator("svg svg > *").first.wait_for()
        return figure.screenshot()

    return shot


def _section_top(name: str, height: int) -> Shot:
    def shot(page: Page) -> bytes:
        page.wait_for_selector(f"#{name} svg svg > *")
        box = page.locator(f"#{name}").bounding_box()
        y = box["y"] if box else 0
        return page.screenshot(
            full_page=True, clip={"x": 0, "y": y, "width": 1100, "height": height}
        )

    return shot


def _timeline(page: Page) -> bytes:
    place = page.locator("#events-view")
    place.scroll_into_view_if_needed()
    page.wait_for_selector("#events-view[data-events]")
    page.locator("#events-view select").select_option("phase")
    page.locator("#events-view input").fill("all_gather")
    page.locator("#events-view input").press("Enter")
    page.evaluate("document.getElementById('events-view').timeline.zoom(40)")
    page.wait_for_timeout(300)
    return place.screenshot()


if __name__ == "__main__":
    main()
