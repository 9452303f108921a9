"""Files that are read completely have limits of size and time, locally and at URLs."""

import contextlib
import errno
import re
from pathlib import Path

import duckdb
import pytest

from tracekit import manifest
from tracekit.checking import baseline, rules
from tracekit.errors import StoreError, TraceError, UsageError
from tracekit.ingest import json_lines
from tracekit.ingest.json_lines import REQUESTS
from tracekit.storage import Location
from tracekit.storage import web as web_files
from tracekit.storage.stream import progress_reports

TOO_LARGE = re.escape(f"[Errno {errno.EFBIG}]")
LIMIT = "TRACEKIT_URL_LIMIT_S"


@pytest.fixture
def file(web):
    web.files["run.json"] = b"x" * 101
    return Location.of(f"{web.url}run.json")


@pytest.fixture
def one_second(monkeypatch):
    monkeypatch.setenv(LIMIT, "1")


def test_a_file_beyond_the_limit_is_refused(folder, file):
    local = folder / "run.json"
    local.write_bytes(b"x" * 100)
    assert local.read_bytes(100) == b"x" * 100
    local.write_bytes(b"x" * 101)
    for one in (local, file):
        with pytest.raises(OSError, match=TOO_LARGE) as caught:
            one.read_bytes(100)
        assert caught.value.filename == str(one)


def test_endless_files_are_refused(tmp_path, web, file):
    endless = Path("/dev/zero")
    with pytest.raises(TraceError, match="regular"):
        manifest.read(endless)
    with pytest.raises(UsageError, match="regular"):
        rules.load_rules(endless)
    link = tmp_path / f"x{baseline.SUFFIX}"
    link.symlink_to(endless)
    with pytest.raises(StoreError, match="regular"):
        baseline.load(str(link), tmp_path)
    web.files["run.json"] = b"x" * 10_000
    web.is_endless = True
    with pytest.raises(OSError, match="32,000,000"):
        file.read_bytes()


@pytest.mark.usefixtures("one_second")
def test_a_slow_body_reports_progress_and_ends_at_the_time_limit(web, file):
    web.is_endless, web.drip_s = True, 0.05
    progress = []
    with progress_reports(progress.append), pytest.raises(OSError, match=LIMIT):
        file.read_bytes()
    assert len(web.requests) <= 2  # No retry: the second one is without a length.
    assert {came.name for came in progress} == {str(file)}
    counts = [came.count_bytes for came in progress]
    assert counts == sorted(counts)
    assert counts[-1] > 5
    web.drip_s = None
    with file.open() as stream, pytest.raises(OSError, match=LIMIT):
        stream.read()


@pytest.mark.usefixtures("one_second")
def test_an_object_ends_at_the_time_limit(web, monkeypatch):
    """No socket timeout notices a store that sends slowly."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", web.url.rstrip("/"))
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    web.files["bucket/run.json"], web.drip_s = b"x" * 1000, 0.05
    place = Location.of("s3://bucket/run.json")
    for read in (place.read_bytes, lambda: place.open().read()):
        web.requests.clear()
        with pytest.raises(OSError, match=LIMIT) as caught:
            read()
        assert caught.value.filename == "s3://bucket/run.json"
        assert len(web.requests) == 1  # No retry.


@pytest.mark.usefixtures("one_second")
def test_the_page_of_a_folder_ends_at_the_time_limit(web):
    web.files["run/"], web.kind, web.drip_s = 1000 * b" ", "text/html", 0.05
    with pytest.raises(OSError, match=LIMIT):
        Location.of(f"{web.url}run/").entries()


def test_an_endless_page_of_a_folder_is_refused(web, monkeypatch):
    monkeypatch.setattr(web_files, "PAGE_BYTES", 100_000)
    web.files["run/"] = b'<a href="rank0.json">rank0.json</a>\n'
    web.kind = "text/html"
    folder = Location.of(f"{web.url}run/")
    assert [place.name for place in folder.entries()] == ["rank0.json"]
    web.is_endless = True
    with pytest.raises(OSError, match="100,000") as caught:
        folder.entries()
    assert caught.value.filename == str(folder)


@pytest.mark.parametrize(
    ("bound", "text"),
    [("MAX_FILE_BYTES", b"\n"), ("MAX_FILE_BYTES", b"{"), ("MAX_LINES", b"no request\n")],
)
def test_an_endless_file_of_lines_is_refused(web, monkeypatch, tmp_path, text, bound):
    monkeypatch.setattr(json_lines, bound, 100)
    # No part of an endless line is stored.
    monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 1000)
    web.files["requests.jsonl"] = text * 1000
    web.is_endless = True
    place = Location.of(f"{web.url}requests.jsonl")
    with (
        contextlib.closing(duckdb.connect()) as connection,
        pytest.raises(json_lines.UnreadableFileError, match="100"),
    ):
        json_lines.load_lines(connection, place, REQUESTS, "run", tmp_path)
