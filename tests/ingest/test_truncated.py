"""A file cut off anywhere: never a crash, all complete events kept, and it is said."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tracekit.errors import TraceError
from tracekit.ingest.byte_stream import ByteStream

EVENTS: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "ts": 1.5, "pid": 7, "args": {"name": 'p "q" \\'}},
    {"ph": "X", "cat": "cpu_op", "name": "f({a, [b}", "pid": 7, "tid": 8, "ts": 10, "dur": 5}
    | {"args": {"External id": 3, "Input Dims": [[2], [], [[1]]], "note": "}, {", "e": "é"}},
    {"ph": "s", "id": 9, "pid": 7, "tid": 8, "ts": 11, "cat": "ac2g", "name": "ac2g"},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 14, "dur": 1, "args": {}},
]
BEFORE = {"schemaVersion": 1, "distributedInfo": {"rank": 1, "world_size": 2}}
BEHIND = {"x": [1, {"y": "]}"}], "traceName": "t.json"}


def written(indent: int | None) -> str:
    return json.dumps(
        {**BEFORE, "traceEvents": EVENTS, **BEHIND}, indent=indent, ensure_ascii=False
    )


LAYOUTS = {
    "one line": written(None),
    "indented": written(1),
    "bare": json.dumps(EVENTS, indent=1),
}


def complete_events(text: str) -> list[int]:
    """Where each event ends in the encoded text."""
    decoder = json.JSONDecoder()
    at = text.index("[") if text.startswith("[") else text.index('"traceEvents": [') + 15
    ends = []
    for _ in EVENTS:
        at = text.index("{", at)
        _, at = decoder.raw_decode(text, at)
        ends.append(len(text[:at].encode()))
    return ends


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("block_bytes", [1 << 20, 100])
def test_cut_at_every_byte(split: Callable[..., Any], layout: str, block_bytes: int) -> None:
    text = LAYOUTS[layout]
    data = text.encode()
    ends = complete_events(text)
    array = data.index(b"[") + 1 if layout == "bare" else data.index(b'"traceEvents": [') + 16
    for cut in range(len(data)):
        found = split(data[:cut], block_bytes=block_bytes, chunk_bytes=max(64, block_bytes))
        kept = sum(end <= cut for end in ends)
        assert [event for _, event in found.events] == EVENTS[:kept], cut
        assert found.text.found_array == (cut >= array)
        if cut < array:
            continue
        assert found.text.truncation is not None, (cut, data[:cut][-30:])
        assert found.repaired == [], cut
        # What is there of the event that the cut goes through is set aside, in one piece.
        begun = data[(ends[kept - 1] if kept else array) : cut].lstrip(b" \n,")
        if kept < len(EVENTS) and begun:
            assert found.rejected == [(cut - len(begun), "cut off")]
            assert found.faults.rejected[0].text == begun.decode("utf-8", "replace").rstrip(", \n")
        else:
            assert found.rejected == [], cut
        if layout != "bare":
            assert found.metadata.items() >= BEFORE.items()
    whole = split(data)
    assert whole.text.truncation is None
    assert [event for _, event in whole.events] == EVENTS


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_metadata_before_the_cut_is_kept(split: Callable[..., Any], layout: str) -> None:
    text = LAYOUTS[layout].encode()
    if layout == "bare":
        pytest.skip("a bare array has no metadata")
    behind = text.index(b'"traceName"')
    for cut in range(behind, len(text)):
        assert split(text[:cut]).metadata["x"] == BEHIND["x"]


def kept_of(text: bytes, ends: list[int]) -> list[dict[str, Any]]:
    return EVENTS[: sum(end <= len(text) for end in ends)]


def inflated(data: bytes) -> bytes:
    """What zlib gets out of a stream, byte by byte, before it breaks."""
    inflater = zlib.decompressobj(31)
    out = b""
    for at in range(len(data)):
        try:
            out += inflater.decompress(data[at : at + 1])
        except zlib.error:
            break
        if inflater.eof:
            return out + (inflated(data[at + 1 :]) if data[at + 1 :] else b"")
    return out


@pytest.mark.parametrize("members", [1, 3])
def test_gzip_cut_at_every_byte(
    split_file: Callable[..., Any], tmp_path: Path, members: int
) -> None:
    text = LAYOUTS["indented"]
    data = text.encode()
    size = -(-len(data) // members)
    packed = b"".join(
        gzip.compress(data[at : at + size], 1, mtime=0) for at in range(0, len(data), size)
    )
    ends = complete_events(text)
    path = tmp_path / "trace.json.gz"
    for cut in range(len(packed)):
        path.write_bytes(packed[:cut])
        found = split_file(path)
        readable = inflated(packed[:cut])
        assert [event for _, event in found.events] == kept_of(readable, ends), cut
        if found.text.found_array:
            assert found.text.truncation is not None, cut
            if packed[cut : cut + 3] != b"\x1f\x8b\x08":  # Between two members nothing is missing.
                assert found.text.truncation == "the gzip stream ends before its end mark"
    path.write_bytes(packed)
    assert split_file(path).text.truncation is None


def test_gzip_with_a_damaged_byte_anywhere(split_file: Callable[..., Any], tmp_path: Path) -> None:
    """What can be inflated in front of the damage is read; nothing crashes."""
    text = LAYOUTS["indented"]
    ends = complete_events(text)
    packed = gzip.compress(text.encode(), mtime=0)
    path = tmp_path / "trace.json.gz"
    said = 0
    for at in range(10, len(packed)):
        damaged = packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :]
        path.write_bytes(damaged)
        found = split_file(path)
        readable = inflated(damaged)
        if text.encode().startswith(readable):
            assert [event for _, event in found.events] == kept_of(readable, ends), at
        said += found.text.truncation is not None
    assert said > 0.9 * (len(packed) - 10)


def test_a_wrong_checksum_loses_nothing(load: Callable[..., Any]) -> None:
    packed = bytearray(gzip.compress(LAYOUTS["one line"].encode()))
    packed[-6] ^= 1
    loaded = load(bytes(packed), "trace.json.gz")
    assert loaded.sql("SELECT event_count, rejected_count FROM trace") == [(4, 0)]
    assert loaded.truncation is not None
    assert loaded.truncation.startswith("the gzip stream is damaged")


@pytest.mark.parametrize("junk", [b"junk", b"\x1e", b"\0\0\0junk", b"{}" * 5000])
def test_junk_behind_a_gzip_stream_is_said(load: Callable[..., Any], junk: bytes) -> None:
    packed = gzip.compress(LAYOUTS["one line"].encode())
    loaded = load(packed + junk, "trace.json.gz")
    assert loaded.sql("SELECT event_count FROM trace") == [(4,)]
    ((byte_offset, event_id, reason),) = loaded.rejected
    offset = len(packed) + len(junk) - len(junk.lstrip(b"\0"))
    assert (byte_offset, event_id) == (len(LAYOUTS["one line"].encode()), None)
    assert reason.endswith(f"something else follow the gzip stream at file offset {offset}")


def test_a_large_gzip_stream_damaged_in_the_middle(
    split_file: Callable[..., Any], tmp_path: Path
) -> None:
    noise = random.Random(7)
    texts = [
        json.dumps({"ph": "X", "name": f"k{at}", "ts": at, "dur": 1, "x": noise.random()})
        for at in range(40_000)
    ]
    packed = gzip.compress(("[" + ",\n".join(texts) + "]").encode(), 1)
    assert len(packed) > 500_000
    path = tmp_path / "trace.json.gz"
    at = len(packed) * 2 // 3
    path.write_bytes(packed[:at] + bytes(64) + packed[at + 64 :])
    found = split_file(path)
    names = [event["name"] for _, event in found.events]
    # Nearly all of what lies in front of the damage. Behind it, zlib may make text of anything.
    sure = len(texts) * 13 // 20
    assert names[:sure] == [f"k{at}" for at in range(sure)]
    assert found.text.truncation.startswith("the gzip stream is damaged")


def test_a_truncated_file_loads(load: Callable[..., Any]) -> None:
    data = LAYOUTS["one line"].encode()
    cut = complete_events(LAYOUTS["one line"])[2] + 20
    loaded = load(data[:cut])
    assert loaded.sql("SELECT event_count, rejected_count, rank, world_size FROM trace") == [
        (3, 1, 1, 2)
    ]
    assert loaded.truncation == "the file ends inside an event"
    assert [reason for _, _, reason in loaded.rejected] == ["cut off"]


def test_a_real_trace_cut_off(split: Callable[..., Any], sample_trace: Path) -> None:
    data = gzip.decompress(sample_trace.read_bytes())
    whole = split(data)
    cuts = random.Random(3)
    for _ in range(3):
        cut = cuts.randrange(3000, len(data))
        found = split(data[:cut], block_bytes=1 << 18)
        assert found.events == whole.events[: len(found.events)]
        assert whole.events[len(found.events)][0] + 40 > cut - 20_000
        assert found.text.truncation is not None
        assert len(found.rejected) <= 1


# -- the file itself -------------------------------------------------------------------------------


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "no", "No such file")):
        with pytest.raises(TraceError, match=f"{path}: cannot be read: {reason}"):
            list(ByteStream(path))


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    path.write_text("[]")
    path.chmod(0)
    try:
        path.read_bytes()
    except PermissionError:
        with pytest.raises(TraceError, match=f"^{path}: cannot be read: Permission denied$"):
            list(ByteStream(path))
    else:
        pytest.skip("this user may read any file")
    finally:
        path.chmod(0o600)


def test_progress_is_in_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    noise = random.Random(1)
    text = json.dumps([noise.random() for _ in range(200_000)]).encode()
    path.write_bytes(gzip.compress(text, 1))
    seen: list[tuple[int, int]] = []
    stream = ByteStream(path, lambda s: seen.append((s.file_bytes_read, s.file_bytes)))
    assert b"".join(stream) == text
    size = path.stat().st_size
    assert size > 1 << 20
    assert seen[-1] == (size, size)
    assert [read for read, _ in seen] == sorted({read for read, _ in seen})
    assert stream.text_bytes == len(text)


@pytest.mark.parametrize(("category", "is_cut"), [("COLL", False), ("kernel", True)])
def test_files_of_nccl_have_no_end(tmp_path: Path, category: str, is_cut: bool) -> None:
    """NCCL's profiler plugin never closes its array."""
    ends = [
        {"ph": ph, "cat": category, "name": "AllReduce", "id": 1, "pid": 1, "tid": 1, "ts": ts}
        | {"args": {"CommHash": 7}}
        for ph, ts in (("b", 10), ("e", 30))
    ]
    path = tmp_path / "trace.json"
    path.write_text("[" + "".join(f"{json.dumps(one)},\n" for one in ends))
    with tracekit.open(path, cache=False) as trace:
        assert trace.query("trace").column("is_truncated") == [is_cut]
