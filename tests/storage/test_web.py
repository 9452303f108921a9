"""Files of a web server that disconnects, is busy, or supports no ranges."""

import os
import signal
import socket
import threading
import time

import pytest
from traces_by_hand import kernel

import tracekit
from tracekit.storage import Location

# More than is in flight at any time, so a disconnect loses data.
CONTENT = os.urandom(4_000_000)
BREAK_BYTES = 1_000_000


@pytest.fixture(autouse=True)
def at_once(no_waiting):
    pass


@pytest.fixture
def file(web):
    web.files["run/x.bin"] = CONTENT
    return Location.of(f"{web.url}run/x.bin")


def test_a_file_is_read_in_one_request(web, file):
    with file.open() as stream:
        assert stream.read() == CONTENT
    assert web.requests == [("/run/x.bin", None)]
    assert (file.size_bytes(), file.name, file.is_file(), file.is_dir()) == (
        *(len(CONTENT), "x.bin", True, False),
    )


@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.parametrize("start", [0, 1000])
def test_a_broken_connection_is_resumed(web, file, has_ranges, start):
    web.has_ranges = has_ranges
    web.break_after_bytes, web.break_count = BREAK_BYTES, 2
    with file.open(start) as stream:
        assert stream.read() == CONTENT[start:]
    if has_ranges:
        # Each request continues where the last one ended.
        firsts = [
            int((range_header or "bytes=0-").removeprefix("bytes=").partition("-")[0])
            for _, range_header in web.requests
        ]
        assert firsts == [start, start + BREAK_BYTES, start + 2 * BREAK_BYTES]


def test_retries_without_progress_are_bounded(web, file):
    web.break_after_bytes, web.break_count = 0, 1000
    with file.open() as stream, pytest.raises(OSError, match=r"x\.bin") as caught:
        stream.read()
    assert caught.value.filename == str(file)
    assert len(web.requests) < 30


@pytest.mark.parametrize("status", [503, 429, 500])
def test_requests_to_a_busy_server_are_retried(web, file, status):
    web.failures = [status] * 3
    assert file.read_bytes() == CONTENT
    web.failures = [status]
    assert file.size_bytes() == len(CONTENT)
    web.failures = [status]
    assert file.read_range(5, 10) == CONTENT[5:10]
    web.failures = [status] * 100
    with pytest.raises(OSError, match=str(status)):
        file.read_bytes()


@pytest.mark.parametrize(
    ("status", "kind"), [(403, PermissionError), (401, PermissionError), (404, FileNotFoundError)]
)
def test_permanent_errors_are_not_retried(web, file, status, kind):
    web.failures = [status]
    with pytest.raises(kind):
        file.read_bytes()
    assert len(web.requests) == 1


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_file_that_changes_while_it_is_read(web, file, has_ranges):
    web.has_ranges = has_ranges
    web.break_after_bytes, web.break_count = 3 * BREAK_BYTES, 1
    with file.open() as stream:
        stream.read(10)
        web.files["run/x.bin"] = os.urandom(len(CONTENT))
        with pytest.raises(OSError, match="changed"):
            stream.read()


@pytest.mark.parametrize("has_ranges", [True, False])
def test_ranges(web, file, has_ranges):
    web.has_ranges = has_ranges
    end = len(CONTENT)
    for start, stop in ((0, 1), (1000, 2000), (end - 3, end + 100), (5, 5), (end, end + 1)):
        assert file.read_range(start, stop) == CONTENT[start:stop]


def test_an_empty_file_is_empty(web):
    web.files["empty"] = b""
    file = Location.of(f"{web.url}empty")
    assert (file.read_bytes(), file.size_bytes()) == (b"", 0)


def test_an_unusable_length_is_named_as_the_reason(web, file):
    web.more = {"Content-Range": "bytes 0-0/" + 5000 * "9"}
    with pytest.raises(OSError, match="header"):
        file.size_bytes()


def test_a_file_without_a_length(web, file):
    web.files["run/x.bin"], web.has_length = b"abc", False
    assert (file.size_bytes(), file.read_bytes(), file.read_range(1, 2)) == (None, b"abc", b"b")


def test_a_folder_lists_the_links_of_its_page(web):
    for name in ("run/rank10.json", "run/rank2.json", "run/run.json", "other/x.json"):
        web.files[name] = b"{}"
    folder = Location.of(f"{web.url}run/")
    assert folder.is_dir()
    web.failures = [503] * 3
    assert [place.name for place in folder.entries()] == ["rank2.json", "rank10.json", "run.json"]
    globbed = Location.of(f"{web.url}run/rank*.json").glob()
    assert [place.name for place in globbed] == ["rank2.json", "rank10.json"]
    assert folder.holds("run.json")
    assert not folder.holds("requests.jsonl")


def test_links_of_any_length_are_listed(web):
    web.kind, name = "text/html", 5000 * "9"
    web.files["run/"] = f'<a href="{name}"><a href="x"><a href="?C=N"><a href="/other/y">'.encode()
    assert [place.name for place in Location.of(f"{web.url}run/").entries()] == [name, "x"]


def test_a_web_server_is_read_only(web, tmp_path):
    place = Location.of(f"{web.url}x")
    (tmp_path / "x").write_bytes(b"x")
    for write in (
        lambda: place.write_bytes(b""),
        lambda: place.write_new(b""),
        lambda: place.upload(tmp_path / "x"),
        place.delete,
    ):
        with pytest.raises(OSError, match=web.url):
            write()


def test_an_unreachable_server_is_an_error():
    with pytest.raises(OSError, match="127"):
        Location.of("http://127.0.0.1:9/x").read_bytes()


def test_ctrl_c_ends_the_wait_for_a_silent_server():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = Location.of(f"http://127.0.0.1:{silent.getsockname()[1]}/x")
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begin_s = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            place.read_bytes()
        assert time.monotonic() - begin_s < 30
        timer.join()


@pytest.mark.usefixtures("cache")
def test_a_trace_on_an_unreliable_server(web, tiny_trace):
    events = [kernel(f"k{n}", 10 * n, 10 * n + 3, n) for n in range(5000)]
    path = tiny_trace(events, "rank0.json")
    web.files["rank0.json"] = path.read_bytes()
    web.break_after_bytes, web.break_count, web.failures = 100_000, 3, [503]
    with tracekit.open(path) as local, tracekit.open(f"{web.url}rank0.json?sig=geheim") as remote:
        assert remote.query("timeline").rows == local.query("timeline").rows
        assert remote.sql("SELECT path FROM trace").rows == [(f"{web.url}rank0.json",)]
        kept = remote.store_path
    assert b"geheim" not in kept.read_bytes()
    count = len(web.requests)
    # With a new signature it is the same file, and its store is used.
    with tracekit.open(f"{web.url}rank0.json?sig=anders") as again:
        assert again.store_path == kept
    assert all(range_header == "bytes=0-0" for _, range_header in web.requests[count:])
    # Without an ETag, changes cannot be detected: no store is cached.
    web.has_tags = False
    with tracekit.open(f"{web.url}rank0.json") as unkept:
        assert unkept.store_path is None
