"""`make docs-pictures`: screenshots of reports and of `tracekit browse` for the bundled samples.

Review the pictures before you commit them: fonts differ between machines, so no test compares them.
Requires playwright and Chromium (set its path with TRACEKIT_CHROMIUM). Arguments select pictures by
name.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

import tracekit
from tracekit.report import overview_page, report, runs_page, several_runs, write

from .browse_pictures import WALKS, Walk, screen
from .places import DOCS, REPO

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = os.environ.get("TRACEKIT_CHROMIUM") or "/usr/bin/chromium"

# Keeps pages fast on slow connections.
MAX_BYTES = 200_000

WIDTH_PX = 1100

Shot = Callable[["Page"], bytes]


class Picture(Struct, frozen=True):
    """A screenshot: its name, a function that creates the page, and one that takes the shot."""

    name: str
    html: Callable[[], str]
    shot: Shot


def pictures() -> tuple[Picture, ...]:
    """Return all pictures."""
    training = partial(_report, "pretrain_R+Z3")
    serving = partial(_report, "serve_transformers")
    return (
        Picture("report", partial(_report, "h200_finetune_L"), _top),
        Picture("report-requests", serving, _figure("request_life")),
        Picture("report-timeline", training, _timeline),
        Picture("report-runs", _overview, _top),
        Picture("paper-figures", _figures, _section_top("methods", 760)),
        *(Picture(walk.name, partial(_screen, walk), _svg) for walk in WALKS),
    )


def main(names: Sequence[str]) -> None:
    """Write the pictures into the manual.

    Args:
        names: pictures to write; if empty, all.
    """
    from playwright.sync_api import sync_playwright

    # Create the pages first, because textual cannot run inside playwright's event loop.
    wanted = [one for one in pictures() if not names or one.name in names]
    pages = {one.name: one.html() for one in wanted}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True)
        for one in wanted:
            file = Path(folder) / f"{one.name}.html"
            write(pages[one.name], file)
            page = browser.new_page(viewport={"width": WIDTH_PX, "height": 800})
            page.goto(file.as_uri())
            image = one.shot(page)
            page.close()
            _keep(one.name, image)
        browser.close()


def _keep(name: str, image: bytes) -> None:
    if len(image) > MAX_BYTES:
        raise RuntimeError(f"{name}.png has {len(image):,} bytes: show less")
    (DOCS / "images" / f"{name}.png").write_bytes(image)
    sys.stdout.write(f"{name}.png: {len(image):,} bytes\n")


def _screen(walk: Walk) -> str:
    return f'<!DOCTYPE html><html data-ready="yes"><body>{screen(walk)}</body></html>'


def _svg(page: Page) -> bytes:
    return page.locator("svg").first.screenshot()


def _report(sample: str) -> str:
    with tracekit.open(REPO / "sample_traces" / sample) as trace:
        return report(trace, [f"sample_traces/{sample}"])


def _overview() -> str:
    paths = ["sample_traces"]
    with tracekit.open(REPO / "sample_traces", traces=False) as runs:
        several = several_runs(runs, [str(REPO / "sample_traces")])
        named = [replace(run, named=f"sample_traces/{run.name}") for run in several]
        links = {run.named: f"overview-runs/{run.name}.html" for run in named}
        return overview_page(runs, paths, named, links)


def _figures() -> str:
    with tracekit.open(REPO / "sample_traces", traces=False) as runs:
        return runs_page(runs, ["sample_traces"])


def _top(page: Page) -> bytes:
    page.wait_for_selector("[data-chart] svg rect")
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
    view = page.locator("#events-view")
    view.scroll_into_view_if_needed()
    page.wait_for_selector("#events-view[data-events]")
    page.locator("#events-view select").select_option("phase")
    page.locator("#events-view input[type=search]").fill("all_gather")
    page.locator("#events-view input[type=search]").press("Enter")
    page.evaluate("document.getElementById('events-view').timeline.zoom(40)")
    page.wait_for_timeout(300)
    return view.screenshot()


if __name__ == "__main__":
    main(sys.argv[1:])
