"""A place is asked in the same words wherever it lies: a disk and a real S3 server answer alike."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import pytest

from tracekit.errors import UsageError
from tracekit.storage import Location
from tracekit.storage.ranges import RANGE_BYTES


def names(places: list[Location]) -> list[str]:
    return [place.name for place in places]


def test_what_is_written_is_read_back(folder: Location) -> None:
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


def test_a_file_is_written_only_if_none_is_there(folder: Location) -> None:
    file = folder / "manifest.json"
    file.write_new(b"first")
    with pytest.raises(FileExistsError) as caught:
        file.write_new(b"second")
    assert file.read_bytes() == b"first"
    assert caught.value.filename == str(file)
    assert names(folder.entries()) == ["manifest.json"]


def test_of_many_writers_at_once_one_succeeds(folder: Location) -> None:
    file = folder / "manifest.json"
    file.parent.join("ready").write_bytes(b"")
    outcomes: list[int | None] = []
    begin = threading.Barrier(8)

    def write(number: int) -> None:
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


def test_a_folder_lists_itself_as_people_count(folder: Location) -> None:
    for name in ("rank10.json", "rank2.json", "rank1.json", "logs/a.txt", "logs/b/c.txt"):
        (folder / name).write_bytes(name.encode())
    assert names(folder.entries()) == ["logs", "rank1.json", "rank2.json", "rank10.json"]
    assert [place.is_dir() for place in folder.entries()] == [True, False, False, False]
    assert names(folder.files()) == ["a.txt", "c.txt", "rank1.json", "rank2.json", "rank10.json"]
    assert folder.entries()[1].size_bytes() == len("rank1.json")
    assert folder.entries()[1].identity() == (folder / "rank1.json").identity()
    assert folder.holds("rank2.json")
    assert not folder.holds("rank3.json")
    assert not folder.holds("logs")
    assert (folder / "nothing").entries() == []
    assert (folder / "nothing").files() == []


@pytest.mark.parametrize(
    ("pattern", "meant"),
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
def test_a_glob_means_the_same_everywhere(folder: Location, pattern: str, meant: list[str]) -> None:
    for name in ("rank10.json", "rank2.json", "rank1.json"):
        (folder / name).write_bytes(b"")
    for name in ("node1/x.json", "node1/y.json", "node2/x.json", "deep/er/x.json"):
        (folder / name).write_bytes(b"")
    found = (folder / pattern).glob()
    if pattern == "rank1.json" and folder.local_path is not None:
        # On a disk, a pattern without a wildcard means itself.
        meant = ["rank1.json"]
    assert [str(place).removeprefix(f"{folder}/") for place in found] == meant


def test_what_is_deleted_is_gone(folder: Location) -> None:
    (folder / "a").write_bytes(b"a")
    (folder / "b/c").write_bytes(b"c")
    (folder / "a").delete()
    (folder / "a").delete()
    assert not (folder / "a").exists()
    folder.delete_tree()
    folder.delete_tree()
    assert folder.files() == []


def test_a_large_file_goes_up_in_parts_and_comes_back_in_ranges(
    folder: Location, tmp_path: Path
) -> None:
    content = os.urandom(4 * RANGE_BYTES + 12345)
    source = tmp_path / "large.bin"
    source.write_bytes(content)
    target = folder / "large.bin"
    target.upload(source)
    assert target.size_bytes() == len(content)
    for start in (0, 1, RANGE_BYTES, len(content) - 7, len(content), len(content) + 1):
        with target.open(start) as file:
            assert file.read() == content[start:]
    with target.open() as file:
        assert [file.read(3), file.tell()] == [content[:3], 3]
    end = len(content)
    for begin, stop in ((0, 5), (end - 5, end), (end - 5, end + 99), (7, 7), (end, end + 5)):
        assert target.read_range(begin, stop) == content[begin:stop]


def test_an_object_that_changes_under_the_reader_is_an_error(
    bucket: Location, tmp_path: Path
) -> None:
    file = bucket / "changing.bin"
    before, after = (os.urandom(6 * RANGE_BYTES) for _ in range(2))
    file.write_bytes(before)
    with file.open() as stream:
        stream.read(10)
        Location.of(f"{file}").write_bytes(after)
        with pytest.raises(OSError, match="changed while it was read"):
            stream.read()


def test_a_place_that_is_not_there_says_so(folder: Location) -> None:
    for ask in ("read_bytes", "size_bytes", "identity", "open"):
        with pytest.raises(FileNotFoundError) as caught:
            getattr(folder / "nothing.txt", ask)()
        assert caught.value.filename == str(folder / "nothing.txt")
    assert not (folder / "nothing.txt").exists()
    assert not (folder / "nothing.txt").is_dir()


def test_a_place_can_be_taken_to_another_process(folder: Location) -> None:
    (folder / "a").write_bytes(b"a")
    (listed,) = folder.entries()
    copy = pickle.loads(pickle.dumps(listed))
    assert copy == listed == folder / "a"
    assert len({copy, listed}) == 1
    assert copy.read_bytes() == b"a"


def test_a_url_of_a_file_is_a_path() -> None:
    assert Location.of("file:///a%20b/c").local_path == Path("/a b/c")
    assert Location.of("some/path").local_path == Path("some/path")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://host/x", "ftp://: URLs of this kind are not read"),
        ("s3:///key", "s3:///key: names no place"),
        ("s3://AKIA1:geheim@bucket/key", "s3://bucket/key: credentials in a URL are not used"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Location.of(text)
    assert caught.value.message == message
    assert "geheim" not in f"{caught.value.hint}"
