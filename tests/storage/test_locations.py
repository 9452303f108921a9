"""Locations behave the same on a disk and on a real S3 server."""

import os
import pickle
import re
import sys
import threading
from pathlib import Path

import pytest

import tracekit
from tracekit.errors import TraceError, UsageError
from tracekit.storage import Location, natural


def names(places):
    return [place.name for place in places]


def test_write_and_read(folder):
    file = folder / "deep/er/name.txt"
    assert not file.exists()
    file.write_bytes(b"one")
    file.write_bytes(b"two!")
    assert file.exists()
    assert file.is_file()
    assert not file.is_dir()
    assert file.parent.is_dir()
    assert file.read_bytes() == b"two!"
    assert file.size_bytes() == 4
    assert (file.name, file.suffix, file.parent.name) == ("name.txt", ".txt", "er")


def test_write_new_replaces_no_file(folder):
    file = folder / "manifest.json"
    file.write_new(b"first")
    with pytest.raises(FileExistsError) as caught:
        file.write_new(b"second")
    assert file.read_bytes() == b"first"
    assert caught.value.filename == str(file)
    assert names(folder.entries()) == ["manifest.json"]


def test_of_many_writers_at_once_one_succeeds(folder):
    file = folder / "manifest.json"
    file.parent.join("ready").write_bytes(b"")
    outcomes = []
    begin = threading.Barrier(8)

    def write(number):
        begin.wait()
        try:
            file.write_new(f"writer {number}".encode())
            outcomes.append(number)
        except FileExistsError:
            outcomes.append(None)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [number for number in outcomes if number is not None]
    assert len(outcomes) == 8
    assert file.read_bytes() == f"writer {winner}".encode()


def test_folders_are_listed_in_natural_order(folder):
    for name in ("rank10.json", "rank2.json", "rank1.json", "logs/a.txt", "logs/b/c.txt"):
        (folder / name).write_bytes(name.encode())
    assert names(folder.entries()) == ["logs", "rank1.json", "rank2.json", "rank10.json"]
    assert [place.is_dir() for place in folder.entries()] == [True, False, False, False]
    below = ["a.txt", "b", "c.txt", "logs", "rank1.json", "rank2.json", "rank10.json"]
    assert sorted(names((folder / "**/*").glob()), key=natural) == below
    assert folder.entries()[1].size_bytes() == len("rank1.json")
    assert folder.entries()[1].identity() == (folder / "rank1.json").identity()
    assert folder.holds("rank2.json")
    assert not folder.holds("rank3.json")
    assert not folder.holds("logs")
    assert (folder / "nothing").entries() == []
    assert (folder / "nothing/**").glob() == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("rank*.json", ["rank1.json", "rank2.json", "rank10.json"]),
        ("rank?.json", ["rank1.json", "rank2.json"]),
        ("rank[!2].json", ["rank1.json"]),
        ("node*/x.json", ["node1/x.json", "node2/x.json"]),
        ("node*", ["node1", "node2"]),
        ("**/x.json", ["deep/er/x.json", "node1/x.json", "node2/x.json"]),
        ("node1/*", ["node1/x.json", "node1/y.json"]),
        ("d*/e*", ["deep/er"]),
        ("none*", []),
        ("rank1.json", []),
    ],
)
def test_globs(folder, pattern, expected):
    for name in ("rank10.json", "rank2.json", "rank1.json"):
        (folder / name).write_bytes(b"")
    for name in ("node1/x.json", "node1/y.json", "node2/x.json", "deep/er/x.json"):
        (folder / name).write_bytes(b"")
    found = (folder / pattern).glob()
    if pattern == "rank1.json" and folder.local_path is not None:
        # On a disk, a pattern without a wildcard means itself.
        expected = ["rank1.json"]
    assert [str(place).removeprefix(f"{folder}/") for place in found] == expected


def test_delete(folder):
    (folder / "a").write_bytes(b"a")
    (folder / "b/c").write_bytes(b"c")
    (folder / "a").delete()
    (folder / "a").delete()
    assert not (folder / "a").exists()
    folder.delete_tree()
    folder.delete_tree()
    assert (folder / "**/*").glob() == []


def test_a_large_file_is_uploaded_in_parts_and_read_in_ranges(folder, tmp_path):
    content = os.urandom(17_000_000)
    source = tmp_path / "large.bin"
    source.write_bytes(content)
    target = folder / "large.bin"
    target.upload(source)
    assert target.size_bytes() == len(content)
    for start in (0, 1, 4_000_000, len(content) - 7, len(content), len(content) + 1):
        with target.open(start) as file:
            assert file.read() == content[start:]
    with target.open() as file:
        assert [file.read(3), file.tell()] == [content[:3], 3]
    end = len(content)
    for begin, stop in ((0, 5), (end - 5, end), (end - 5, end + 99), (7, 7), (end, end + 5)):
        assert target.read_range(begin, stop) == content[begin:stop]


def test_errors_of_missing_files_name_them(folder):
    for ask in ("read_bytes", "size_bytes", "identity", "open"):
        with pytest.raises(FileNotFoundError) as caught:
            getattr(folder / "nothing.txt", ask)()
        assert caught.value.filename == str(folder / "nothing.txt")
    assert not (folder / "nothing.txt").exists()
    assert not (folder / "nothing.txt").is_dir()


def test_locations_can_be_pickled(folder):
    (folder / "a").write_bytes(b"a")
    (listed,) = folder.entries()
    copy = pickle.loads(pickle.dumps(listed))
    assert copy == listed == folder / "a"
    assert len({copy, listed}) == 1
    assert copy.read_bytes() == b"a"


def test_a_url_of_a_file_is_a_path():
    assert Location.of("file:///a%20b/c").local_path == Path("/a b/c")
    assert Location.of("some/path").local_path == Path("some/path")


@pytest.mark.parametrize("text", ["ftp://host/x", "s3:///key", "s3://AKIA1:geheim@bucket/key"])
def test_unusable_urls_are_refused(text):
    with pytest.raises(UsageError) as caught:
        Location.of(text)
    assert "geheim" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("url", ["s3://bucket/a//b", "http://a b/x", "http://127.0.0.1:99999/x"])
def test_urls_that_no_client_can_use_are_named(url, monkeypatch):
    pytest.importorskip("obstore", reason="the extra remote is not installed")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    with pytest.raises(OSError, match="URL") as caught:
        Location.of(url).read_bytes()
    assert caught.value.filename == url


@pytest.mark.usefixtures("cache")
def test_traces_in_a_bucket(uploaded, ranks):
    """The smoke test of a real S3 server: a folder, a glob, and a file next to a local one."""
    place = uploaded(ranks)
    question = "SELECT file_name, rank, path FROM trace ORDER BY trace_id"
    with tracekit.open(place) as trace:
        rows = trace.sql(question).rows
        assert trace.query("timeline").column("busy_ns") == [10_000, 11_000, 12_000, 20_000]
    assert rows == [(f"rank{n}.json.gz", n, f"{place}/rank{n}.json.gz") for n in (0, 1, 2, 10)]
    some = [f"{place}/rank[01]*.json.gz"]
    for given, found in ((some, [0, 1, 10]), ([rows[1][2], ranks / "rank2.json.gz"], [1, 2])):
        with tracekit.open(*given) as trace:
            assert [row[1] for row in trace.sql(question).rows] == found


def test_the_hint_without_the_extra_is_to_install_it(clients_anew, monkeypatch):
    for package in ("obstore", "botocore.session"):
        with monkeypatch.context() as context, clients_anew():
            context.setitem(sys.modules, package, None)
            with pytest.raises(UsageError) as caught:
                tracekit.open("s3://bucket/rank0.json")
    assert "[remote]" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("url", "variables"), [("s3://bucket/run", "AWS_*"), ("az://container/run", "AZURE_STORAGE_*")]
)
@pytest.mark.parametrize("text", ["", "AccountKey=c2VjcmV0"])
def test_missing_credentials_are_reported_without_a_request(
    url, variables, text, clients_anew, monkeypatch
):
    pytest.importorskip("obstore", reason="the extra remote is not installed")
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_"))]:
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    with clients_anew(), pytest.raises(TraceError, match=re.escape(variables)):
        tracekit.open(url, cache=False)


def test_credentials_from_a_profile(web, clients_anew, monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    secret = "aws_access_key_id = AKIAOFPROFILE\naws_secret_access_key = geheim\n"
    (tmp_path / "credentials").write_text(f"[default]\n{secret}")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", web.url.rstrip("/"))
    web.files["bucket/run.json"] = b"{}"
    with clients_anew():
        assert Location.of("s3://bucket/run.json").read_bytes() == b"{}"
        web.failures = [403] * 10
        with pytest.raises(PermissionError) as caught:
            Location.of("s3://bucket/run.json").read_bytes()
    assert "AWS_*" in str(caught.value)
    assert "geheim" not in repr(caught.value)
    assert "AKIA" not in repr(caught.value)
