"""Files that are read completely have limits of size and time, on this machine and behind URLs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import os
import re
import zlib
from pathlib import Path

import duckdb
import pytest
from web_server import WebServer

from tracekit import manifest
from tracekit.checking import baseline, rules
from tracekit.errors import StoreError, TraceError, UsageError
from tracekit.ingest import json_lines
from tracekit.ingest.line_kinds import REQUESTS
from tracekit.storage import Location, remote
from tracekit.storage import web as web_files
from tracekit.storage.requests import Came, telling

TOO_LARGE = re.escape(f"[Errno {errno.EFBIG}]")
LIMIT = "TRACEKIT_URL_LIMIT_S"


@pytest.fixture
def file(web: WebServer) -> Location:
    web.files["run.json"] = b"x" * 101
    return Location.of(f"{web.url}run.json")


@pytest.fixture
def one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "1")


def test_a_file_beyond_the_limit_is_refused(folder: Location, file: Location) -> None:
    local = folder / "run.json"
    local.write_bytes(b"x" * 100)
    assert local.read_bytes(100) == b"x" * 100
    local.write_bytes(b"x" * 101)
    for one in (local, file):
        with pytest.raises(OSError, match=TOO_LARGE) as caught:
            one.read_bytes(100)
        assert caught.value.filename == str(one)


def test_endless_files_are_refused(tmp_path: Path, web: WebServer, file: Location) -> None:
    endless = Path("/dev/zero")
    with pytest.raises(TraceError, match="32,000,000"):
        manifest.read(endless)
    with pytest.raises(UsageError, match="32,000,000"):
        rules.load_rules(endless)
    assert not rules.has_rules(endless)
    link = tmp_path / f"x{baseline.SUFFIX}"
    link.symlink_to(endless)
    with pytest.raises(StoreError, match="64,000,000"):
        baseline.load(str(link), tmp_path)
    web.files["run.json"] = b"x" * 10_000
    web.is_endless = True
    with pytest.raises(OSError, match="32,000,000"):
        file.read_bytes()


@pytest.mark.usefixtures("one_second")
def test_a_slow_body_reports_progress_and_ends_at_the_time_limit(
    web: WebServer, file: Location
) -> None:
    web.is_endless, web.drip_s = True, 0.05
    progress: list[Came] = []
    with telling(progress.append), pytest.raises(OSError, match=LIMIT):
        file.read_bytes()
    assert len(web.requests) == 1  # No retry.
    assert {came.name for came in progress} == {str(file)}
    counts = [came.count_bytes for came in progress]
    assert counts == sorted(counts)
    assert counts[-1] > 5
    web.drip_s = None
    with file.open() as stream, pytest.raises(OSError, match=LIMIT):
        stream.read()


@pytest.mark.usefixtures("one_second")
def test_an_object_ends_at_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket timeout notices a store that sends slowly."""
    fsspec_asyn = pytest.importorskip("fsspec.asyn")

    class Store(fsspec_asyn.AsyncFileSystem):  # type: ignore[misc]
        asked = 0

        async def _info(self, path: str) -> dict[str, object]:
            return {"name": path, "type": "file", "size": 100, "ETag": "x"}

        async def _cat_file(self, *_: object, **__: object) -> bytes:
            Store.asked += 1
            await asyncio.sleep(600)
            raise AssertionError("unreachable")

    monkeypatch.setattr(remote, "filesystem", lambda _: Store(skip_instance_cache=True))
    place = Location.of("s3://bucket/run.json")
    progress: list[Came] = []
    for read in (place.read_bytes, lambda: place.read_range(5, 9), lambda: place.open().read()):
        with telling(progress.append), pytest.raises(OSError, match=LIMIT):
            read()
    assert Store.asked == 3  # No retry.
    assert {came.name for came in progress} == {"s3://bucket/run.json"}
    assert {came.count_bytes for came in progress} == {0, 5}


@pytest.mark.parametrize("packing", ["gzip", "x-gzip", "deflate"])
def test_compressed_responses(web: WebServer, file: Location, packing: str) -> None:
    content = os.urandom(3_000_000)
    pack = zlib.compress if packing == "deflate" else gzip.compress
    web.packing, web.files["run.json"] = packing, pack(content)
    assert file.read_bytes() == content
    assert file.read_range(1000, 1010) == content[1000:1010]
    if pack is gzip.compress:
        # Two members, as `cat` concatenates files.
        web.files["run.json"] = pack(content) + pack(b"more")
        assert file.read_bytes() == content + b"more"


@pytest.mark.usefixtures("no_waiting")
def test_damaged_and_unknown_compression_is_an_error(web: WebServer, file: Location) -> None:
    packed = gzip.compress(os.urandom(10_000))
    damaged = (packed[:-100], packed + b"xyz", b"xyz")
    for kind, sent in (*(("gzip", one) for one in damaged), ("br", packed)):
        web.packing, web.files["run.json"] = kind, sent
        with pytest.raises(OSError, match=r"run\.json"):
            file.read_bytes()


def test_a_compressed_body_is_decompressed_in_bounded_pieces(
    web: WebServer, file: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.packing, web.files["run.json"] = "gzip", gzip.compress(bytes(200_000_000), 1)
    decompressobj, sizes = zlib.decompressobj, [0]

    class Inflater:
        def __init__(self, bits: int) -> None:
            self._inner = decompressobj(bits)

        def decompress(self, data: bytes, most: int) -> bytes:
            piece = self._inner.decompress(data, most)
            sizes.append(len(piece))
            return piece

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

    monkeypatch.setattr(web_files.zlib, "decompressobj", Inflater)
    with pytest.raises(OSError, match=TOO_LARGE):
        file.read_bytes(100)
    assert 0 < max(sizes) <= web_files.PIECE_BYTES


def test_an_endless_page_of_a_folder_is_refused(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_an_endless_file_of_lines_is_refused(
    web: WebServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: bytes, bound: str
) -> None:
    monkeypatch.setattr(json_lines, bound, 100)
    # No part of an endless line is kept.
    monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 1000)
    web.files["requests.jsonl"] = text * 1000
    web.is_endless = True
    place = Location.of(f"{web.url}requests.jsonl")
    with (
        contextlib.closing(duckdb.connect()) as connection,
        pytest.raises(json_lines.UnreadableFileError, match="100"),
    ):
        json_lines.load_lines(connection, place, REQUESTS, "run", tmp_path)
