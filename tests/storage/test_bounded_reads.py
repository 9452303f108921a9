"""Files that are read whole have a bound, of this machine and behind URLs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import os
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

LONGER = "longer than 100 bytes, the most that is read of such a file"


def test_a_longer_file_is_not_read_whole(folder: Location) -> None:
    file = folder / "run.json"
    file.write_bytes(b"x" * 100)
    assert file.read_bytes(100) == b"x" * 100
    file.write_bytes(b"x" * 101)
    with pytest.raises(OSError, match=LONGER) as caught:
        file.read_bytes(100)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(file))


def test_a_longer_file_of_a_web_server_is_not_read_whole(web: WebServer) -> None:
    web.files["run.json"] = b"x" * 101
    with pytest.raises(OSError, match=LONGER) as caught:
        Location.of(f"{web.url}run.json").read_bytes(100)
    assert caught.value.errno == errno.EFBIG


@pytest.fixture
def endless() -> Path:
    """Return a file without an end, of which reading all would end only with the memory."""
    path = Path("/dev/zero")
    if not path.exists():
        pytest.skip("there is no /dev/zero")
    return path


def test_an_endless_manifest_is_refused(endless: Path) -> None:
    with pytest.raises(TraceError, match=r"the manifest cannot be read: longer than 32,000,000"):
        manifest.read(endless)


def test_endless_rules_and_pyproject_are_refused(endless: Path) -> None:
    with pytest.raises(UsageError, match=r"longer than 32,000,000 bytes"):
        rules.load_rules(endless)
    assert not rules.has_rules(endless)


def test_an_endless_baseline_is_refused(endless: Path, tmp_path: Path) -> None:
    link = tmp_path / f"x{baseline.SUFFIX}"
    link.symlink_to(endless)
    with pytest.raises(StoreError, match=r"cannot be read: longer than 64,000,000 bytes"):
        baseline.load(str(link), tmp_path)


def test_an_endless_file_of_a_web_server_is_refused(web: WebServer) -> None:
    web.files["run.json"] = b"x" * 10_000
    web.is_endless = True
    with pytest.raises(OSError, match=r"longer than 32,000,000 bytes"):
        Location.of(f"{web.url}run.json").read_bytes()


def test_a_dripping_body_ends_with_the_limit(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.files["run.json"] = b"{}"
    web.is_endless, web.drip_s = True, 0.05
    monkeypatch.setenv("TRACEKIT_URL_LIMIT_S", "1")
    file = Location.of(f"{web.url}run.json")
    with pytest.raises(OSError, match=r"not all of it came within 1 s; TRACEKIT_URL_LIMIT_S"):
        file.read_bytes()
    # It is not asked for again.
    assert len(web.requests) == 1


def test_an_endless_trace_ends_with_the_limit(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.files["rank0.json"] = b" " * 10_000
    web.is_endless = True
    monkeypatch.setenv("TRACEKIT_URL_LIMIT_S", "1")
    with (
        Location.of(f"{web.url}rank0.json").open() as stream,
        pytest.raises(OSError, match=r"not all of it came within 1 s"),
    ):
        stream.read()


@pytest.mark.parametrize("packing", ["gzip", "x-gzip", "deflate"])
def test_what_a_server_packs_is_inflated(web: WebServer, packing: str) -> None:
    content = os.urandom(3_000_000)
    pack = zlib.compress if packing == "deflate" else gzip.compress
    web.packing = packing
    web.files["run.json"] = pack(content)
    file = Location.of(f"{web.url}run.json")
    assert file.read_bytes() == content
    assert file.read_range(0, 10) == content[:10]
    assert file.read_range(1000, 1010) == content[1000:1010]
    if pack is gzip.compress:
        # Two members, as `cat` joins two files.
        web.files["run.json"] = pack(content) + pack(b"more")
        assert file.read_bytes() == content + b"more"


def test_a_packed_file_that_is_cut_off_or_damaged_is_an_error(
    web: WebServer, no_waiting: None
) -> None:
    web.packing = "gzip"
    packed = gzip.compress(os.urandom(10_000))
    for sent, reason in (
        (packed[:-100], "was cut off"),
        (packed + b"xyz", "what it sends is damaged"),
        (b"xyz", "what it sends is damaged"),
    ):
        web.files["run.json"] = sent
        with pytest.raises(OSError, match=reason):
            Location.of(f"{web.url}run.json").read_bytes()
    web.packing = "br"
    with pytest.raises(OSError, match="packs it in a way that is not read"):
        Location.of(f"{web.url}run.json").read_bytes()


def test_a_packed_body_is_inflated_no_further_than_it_is_read(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousandfold: all of a received piece at once would be far more than was asked for."""
    web.packing = "gzip"
    web.files["run.json"] = gzip.compress(bytes(200_000_000), 1)
    longest = 0

    class Inflater:
        def __init__(self, bits: int) -> None:
            self._inner = decompressobj(bits)

        def decompress(self, data: bytes, most: int) -> bytes:
            nonlocal longest
            piece = self._inner.decompress(data, most)
            longest = max(longest, len(piece))
            return piece

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

    decompressobj = zlib.decompressobj
    monkeypatch.setattr(web_files.zlib, "decompressobj", Inflater)
    with pytest.raises(OSError, match=LONGER):
        Location.of(f"{web.url}run.json").read_bytes(100)
    assert 0 < longest <= web_files.PIECE_BYTES


def test_an_endless_page_of_a_folder_is_refused(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_files, "PAGE_BYTES", 100_000)
    web.files["run/"] = b'<a href="rank0.json">rank0.json</a>\n'
    web.kind = "text/html"
    folder = Location.of(f"{web.url}run/")
    assert [place.name for place in folder.entries()] == ["rank0.json"]
    web.is_endless = True
    with pytest.raises(OSError, match=r"the page is longer than 100,000 bytes") as caught:
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
    # Of one endless line no part is kept.
    monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 1000)
    web.files["requests.jsonl"] = text * 1000
    web.is_endless = True
    with (
        contextlib.closing(duckdb.connect()) as connection,
        pytest.raises(json_lines.UnreadableFileError, match=r"longer than 100 b|more than 100 l"),
    ):
        json_lines.load_lines(
            connection, Location.of(f"{web.url}requests.jsonl"), REQUESTS, "run", tmp_path
        )


def test_an_object_of_a_store_ends_with_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that drips, which no timeout of a socket sees."""
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
    monkeypatch.setenv("TRACEKIT_URL_LIMIT_S", "1")
    place = Location.of("s3://bucket/run.json")
    told: list[Came] = []
    for read in (place.read_bytes, lambda: place.read_range(5, 9), lambda: place.open().read()):
        with (
            telling(told.append),
            pytest.raises(OSError, match=r"not all of it came within 1 s; TRACEKIT_URL_LIMIT_S"),
        ):
            read()
    # None is asked for again; each was told of while it lasted.
    assert Store.asked == 3
    assert {came.name for came in told} == {"s3://bucket/run.json"}
    assert {came.count_bytes for came in told} == {0, 5}


def test_a_dripping_file_is_told_of_while_it_comes(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.files["run.json"] = b"{}"
    web.is_endless, web.drip_s = True, 0.05
    monkeypatch.setenv("TRACEKIT_URL_LIMIT_S", "1")
    told: list[Came] = []
    with telling(told.append), pytest.raises(OSError, match=r"not all of it came"):
        Location.of(f"{web.url}run.json").read_bytes()
    assert {came.name for came in told} == {f"{web.url}run.json"}
    counts = [came.count_bytes for came in told]
    assert counts == sorted(counts)
    assert counts[-1] > 5
