"""The viewer in a browser: the trace loads, our tracks are there, its engine gives our numbers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from perfetto_engine import engine_folder
from perfetto_read_back import exported

import tracekit
from tracekit.export.viewer import serving

REPO = Path(__file__).resolve().parents[2]
_TIMELINE = (
    "SELECT slice.name AS name, sum(slice.dur) AS total FROM slice "
    "JOIN track ON slice.track_id = track.id WHERE track.name = 'timeline' GROUP BY 1 ORDER BY 1"
)
_ASK = """async (sql) => {
    const rows = [];
    const result = await app.trace.engine.query(sql);
    for (const it = result.iter({name: 'str', total: 0}); it.valid(); it.next()) {
        rows.push([it.name, it.total]);
    }
    return rows;
}"""


@pytest.mark.slow
def test_the_trace_opens_in_the_ui_without_network(
    opened: Callable[[Path], tracekit.Trace], tmp_path: Path
) -> None:
    engine_folder()
    api = pytest.importorskip("playwright.sync_api")
    browser_path = shutil.which("chromium")
    if browser_path is None:
        pytest.skip("Chromium is not installed")
    trace = opened(REPO / "sample_traces" / "pretrain_Naive")
    path = exported(trace, tmp_path / "x.pftrace")
    expected: dict[str, int] = {}
    for row in trace.query("timeline").to_dicts():
        for kind in ("compute", "exposed_comm", "idle"):
            name = kind.replace("_", " ")
            expected[name] = expected.get(name, 0) + row[f"{kind}_ns"]
    with path.open("rb") as file, serving(file, "two ranks") as served, api.sync_playwright() as p:
        browser = p.chromium.launch(
            executable_path=browser_path,
            headless=True,
            args=["--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"],
        )
        page = browser.new_page()
        asked: list[str] = []
        page.on("requestfinished", lambda request: asked.append(request.url))
        page.goto(served.address)
        page.wait_for_function("window.app && app.trace && !app.isLoadingTrace", timeout=240_000)
        assert dict(page.evaluate(_ASK, _TIMELINE)) == expected
        assert page.get_by_text("rank 1", exact=True).count() > 0
        # Ranks and devices lie open: without that one would see a line for each rank, and nothing.
        page.get_by_text("idle causes", exact=True).first.wait_for()
        parts = urlsplit(served.address)
        here = f"{parts.scheme}://{parts.netloc}/"
        assert [url for url in asked if not url.startswith((here, "blob:", "data:"))] == []
        browser.close()
