"""Truncated files: no crash, every complete event is read, and the truncation is reported."""

import gzip
import json
import random
import tracemalloc
import zlib

import pytest

import tracekit
from tracekit.errors import TraceError
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.faults import Faults
from tracekit.ingest.trace_metadata import OutsideText

EVENTS = [
    {"ph": "M", "name": "process_name", "ts": 1.5, "pid": 7, "args": {"name": 'p "q" \\'}},
    {"ph": "X", "cat": "cpu_op", "name": "f({a, [b}", "pid": 7, "tid": 8, "ts": 10, "dur": 5}
    | {"args": {"External id": 3, "Input Dims": [[2], [], [[1]]], "note": "}, {", "e": "é"}},
    {"ph": "s", "id": 9, "pid": 7, "tid": 8, "ts": 11, "cat": "ac2g", "name": "ac2g"},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 14, "dur": 1, "args": {}},
]
NAMES = [event["name"] for event in EVENTS]
BEFORE = {"schemaVersion": 1, "distributedInfo": {"rank": 1, "world_size": 2}}
AFTER = {"x": [1, {"y": "]}"}], "traceName": "t.json"}
_WHOLE = {**BEFORE, "traceEvents": EVENTS, **AFTER}
LAYOUTS = {
    "one line": json.dumps(_WHOLE, ensure_ascii=False),
    "indented": json.dumps(_WHOLE, indent=1, ensure_ascii=False),
    "bare": json.dumps(EVENTS, indent=1),
}


def event_ends(text):
    """Return where each event ends in the encoded text."""
    at = text.index("[") if text.startswith("[") else text.index('"traceEvents": [') + 15
    ends = []
    for _ in EVENTS:
        _, at = json.JSONDecoder().raw_decode(text, text.index("{", at))
        ends.append(len(text[:at].encode()))
    return ends


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("block_bytes", [1 << 20, 100])
def test_truncation_anywhere(split, layout, block_bytes):
    text = LAYOUTS[layout]
    data = text.encode()
    whole, ends = split(data), event_ends(text)
    assert (whole.names, whole.text.truncation) == (NAMES, None)
    array = data.index(b"[") + 1 if layout == "bare" else data.index(b'"traceEvents": [') + 16
    for cut in range(0, len(data), 2 if layout == "one line" and block_bytes == 100 else 5):
        found = split(data[:cut], block_bytes=block_bytes, chunk_bytes=max(64, block_bytes))
        kept = sum(end <= cut for end in ends)
        assert found.rows == whole.rows[:kept], cut
        assert found.text.found_array == (cut >= array)
        if cut < array:
            continue
        assert found.text.truncation is not None, (cut, data[:cut][-30:])
        assert found.repaired == [], cut
        # The beginning of the event at the cut is rejected in one piece.
        begun = data[(ends[kept - 1] if kept else array) : cut].lstrip(b" \n,")
        if kept < len(EVENTS) and begun:
            assert found.rejected == [(cut - len(begun), "cut off")]
            assert found.faults.rejected[0].text == begun.decode("utf-8", "replace").rstrip(", \n")
        else:
            assert found.rejected == [], cut
        if layout != "bare":
            assert found.metadata.items() >= BEFORE.items()
            if b'"traceName"' in data[:cut]:
                assert found.metadata["x"] == AFTER["x"]


@pytest.mark.parametrize("characters", ["a", r"\n", "é"])
def test_an_endless_header_takes_memory_of_its_size(characters):
    size = 2_000_000
    header = OutsideText()
    header.add(0, ('{"rank":3,"x":"' + characters * (size // len(characters.encode()))).encode())
    tracemalloc.start()
    members, truncation = header.metadata(Faults())
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert members == {"rank": 3}
    assert truncation is not None
    assert peak_bytes < 10 * size


def inflated(data):
    """Return what zlib extracts from a stream, byte by byte, before it fails."""
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
def test_gzip_truncated_anywhere(split_file, tmp_path, members):
    data, ends = LAYOUTS["indented"].encode(), event_ends(LAYOUTS["indented"])
    size = -(-len(data) // members)
    packed = b"".join(
        gzip.compress(data[at : at + size], 1, mtime=0) for at in range(0, len(data), size)
    )
    path = tmp_path / "trace.json.gz"
    for cut in range(0, len(packed), members):
        path.write_bytes(packed[:cut])
        found = split_file(path)
        readable = len(inflated(packed[:cut]))
        assert found.names == NAMES[: sum(end <= readable for end in ends)], cut
        assert not found.text.found_array or found.text.truncation is not None, cut
    path.write_bytes(packed)
    assert split_file(path).text.truncation is None


def test_gzip_with_a_damaged_byte_anywhere(split_file, tmp_path):
    """Everything in front of the damage that can be decompressed is read."""
    text, ends = LAYOUTS["indented"].encode(), event_ends(LAYOUTS["indented"])
    packed = gzip.compress(text, mtime=0)
    path = tmp_path / "trace.json.gz"
    reported = 0
    for at in range(10, len(packed), 2):
        damaged = packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :]
        path.write_bytes(damaged)
        found = split_file(path)
        readable = inflated(damaged)
        if text.startswith(readable):
            assert found.names == NAMES[: sum(end <= len(readable) for end in ends)], at
        reported += found.text.truncation is not None
    assert reported > 0.9 * (len(packed) - 10) / 2


def test_a_wrong_checksum_loses_nothing(load):
    packed = bytearray(gzip.compress(LAYOUTS["one line"].encode()))
    packed[-6] ^= 1
    loaded = load(bytes(packed), "trace.json.gz")
    assert loaded.sql("SELECT event_count, rejected_count FROM trace") == [(4, 0)]
    assert loaded.truncation is not None


@pytest.mark.parametrize("junk", [b"junk", b"\x1e", b"\0\0\0junk", b"{}" * 5000])
def test_junk_after_a_gzip_stream_is_rejected(load, junk):
    packed = gzip.compress(LAYOUTS["one line"].encode())
    loaded = load(packed + junk, "trace.json.gz")
    assert loaded.sql("SELECT event_count FROM trace") == [(4,)]
    ((byte_offset, event_id, reason),) = loaded.rejected
    offset = len(packed) + len(junk) - len(junk.lstrip(b"\0"))
    assert (byte_offset, event_id) == (len(LAYOUTS["one line"].encode()), None)
    assert str(offset) in reason


@pytest.mark.nightly("small streams are in the gate")
def test_a_large_gzip_stream_damaged_in_the_middle(load):
    noise = random.Random(7)
    texts = [
        json.dumps({"ph": "X", "name": f"k{at}", "ts": at, "dur": 1, "x": noise.random()})
        for at in range(40_000)
    ]
    packed = gzip.compress(("[" + ",\n".join(texts) + "]").encode(), 1)
    assert len(packed) > 500_000
    at = len(packed) * 2 // 3
    loaded = load(packed[:at] + bytes(64) + packed[at + 64 :], "trace.json.gz")
    # Nearly everything in front of the damage. After it, zlib may turn anything into text.
    certain = len(texts) * 13 // 20
    assert loaded.names[:certain] == [f"k{at}" for at in range(certain)]
    assert loaded.truncation is not None


def test_a_real_trace_truncated(split, sample_trace):
    data = gzip.decompress(sample_trace.read_bytes())
    whole = split(data)
    for cut in (5_000, len(data) // 3, len(data) - 40_000):
        found = split(data[:cut], block_bytes=1 << 18)
        assert found.rows == whole.rows[: len(found.rows)]
        assert found.text.truncation is not None
        assert len(found.rejected) <= 1
        # No complete event is missing, because the rest is shorter than any event here.
        assert data[:cut].count(b'"ph":') - len(found.rows) <= 1


def test_a_folder_and_a_missing_file(tmp_path):
    for path in (tmp_path, tmp_path / "no"):
        with pytest.raises(TraceError) as raised:
            list(ByteStream(path))
        assert raised.value.message.startswith(f"{path}: ")


def test_a_file_without_read_permission(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("[]")
    path.chmod(0)
    try:
        path.read_bytes()
    except PermissionError:
        with pytest.raises(TraceError):
            list(ByteStream(path))
    else:
        pytest.skip("this user may read any file")
    finally:
        path.chmod(0o600)


def test_progress_is_in_bytes_of_the_file(tmp_path):
    path = tmp_path / "trace.json.gz"
    noise = random.Random(1)
    text = json.dumps([noise.random() for _ in range(200_000)]).encode()
    path.write_bytes(gzip.compress(text, 1))
    seen = []
    stream = ByteStream(path, lambda s: seen.append((s.file_bytes_read, s.file_bytes)))
    assert b"".join(stream) == text
    size = path.stat().st_size
    assert size > 1 << 20
    assert seen[-1] == (size, size)
    assert [read for read, _ in seen] == sorted({read for read, _ in seen})
    assert stream.text_bytes == len(text)


@pytest.mark.parametrize(("category", "is_cut"), [("COLL", False), ("kernel", True)])
def test_files_of_nccl_have_no_end(tmp_path, category, is_cut):
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
