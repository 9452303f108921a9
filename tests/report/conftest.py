"""A browser, once for all tests of reports; pages of traces, each opened once."""

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tracekit.report import report, write

CHROMIUM = Path(os.environ.get("TRACEKIT_CHROMIUM") or "/usr/bin/chromium")

_MAX_SCROLLS = 50


@dataclass
class Opened:
    """A report in the browser, with its console messages and requests."""

    page: Any
    file: Path
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def show_all(self):
        """Scroll to the end, so that every picture and table is made."""
        # Polled from here, because the page's policy prevents repeated evaluation of a condition.
        for _ in range(_MAX_SCROLLS):
            self.page.evaluate(
                """async () => {
                    for (let y = 0; y < document.documentElement.scrollHeight; y += 500) {
                        scrollTo(0, y);
                        await new Promise((done) => setTimeout(done, 20));
                    }
                    scrollTo(0, 0);
                }"""
            )
            if self.page.evaluate(
                "[...document.querySelectorAll('[data-chart], [data-rows], #events-view')]"
                ".every((place) => place.dataset.filled || !place.getClientRects().length)"
            ):
                return
        raise AssertionError("some picture or table is never made")


@pytest.fixture(scope="session")
def page_data():
    """Return a function that returns the data of a page."""

    def data_of(html):
        return json.loads(re.search(r'id="page-data">(.*?)</script>', html, re.DOTALL)[1])

    return data_of


@pytest.fixture(scope="module")
def browser():
    """Return a browser without network access; skip if none is installed.

    It is closed after each test file, because its event loop runs on this thread and would block
    other event loops.
    """
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.is_file():
        pytest.skip(f"no browser at {CHROMIUM} (set TRACEKIT_CHROMIUM)")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=str(CHROMIUM),
            headless=True,
            args=["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-dev-shm-usage"],
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def in_browser(browser, tmp_path_factory):
    """Return a function that opens the report of a trace, or a page, with everything shown."""

    def open_report(trace, name="trace.json"):
        file = tmp_path_factory.mktemp("report") / "report.html"
        write(trace if isinstance(trace, str) else report(trace, [name]), file)
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        opened = Opened(page, file)
        page.on("console", lambda message: opened.messages.append(message.text))
        page.on("pageerror", lambda error: opened.messages.append(str(error)))
        page.on("request", lambda request: opened.requests.append(request.url))
        page.on("dialog", lambda dialog: opened.messages.append(f"dialog {dialog.message}"))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        opened.show_all()
        return opened

    return open_report
