"""Files that are not traces are rejected with one error."""

import pytest

from tracekit.errors import TraceError

EVENT = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2}'

# Content of the file, and a word that only this case has in its message or hint.
UNREADABLE = {
    "empty": (b"", "empty"),
    "white space": (b" \n", "array"),
    "object": (b'{"a": 1}', "array"),
    "number": (b"5", "array"),
    "null": (b"null", "array"),
    "text": (b'"traceEvents"', "array"),
    "events that are not an array": (b'{"traceEvents": {"a": 1}}', "array"),
    "nested": (b'{"a": {"traceEvents": [{"ph": "X"}]}}', "array"),
    "web page": (b"<!DOCTYPE html><html><body>404</body></html>", "array"),
    "events on lines": (EVENT + b"\n" + EVENT, "array"),
    "binary": (bytes(range(256)) * 10, "array"),
    "cut off in the header": (b'{"schemaVersion": 1, "traceEv', "array"),
    "no events": (b'{"traceEvents": []}', "active"),
    "no events in a bare array": (b"[]", "active"),
    "cut off before the first event": (b'{"traceEvents": [', "active"),
    "numbers": (b"[1, 2]", "byte 1"),
    "cut off in the first event": (b'{"traceEvents": [{"ph": "X", "na', "byte 17"),
    "no times": (b'[{"ph": "X"}, {"ph": "X", "ts": "a"}]', "no ts"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04\x00", "zstd -d FILE"),
    "zip": (b"PK\x03\x04\x14\x00", "unzip FILE"),
    "bzip2": (b"BZh91AY&SY", "bunzip2 FILE"),
    "xz": (b"\xfd7zXZ\x00\x00", "unxz FILE"),
    "UTF-16": ("\ufeff[{}]".encode("utf-16-le"), "iconv"),
    "gzip of nothing": (bytes.fromhex("1f8b08000000000000ff03000000000000000000"), "empty"),
    "gzip cut in its header": (b"\x1f\x8b\x08", "gzip"),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_no_trace_is_one_error(load, tmp_path, case, name):
    content, word = UNREADABLE[case]
    with pytest.raises(TraceError) as raised:
        load(content, name)
    assert raised.value.message.startswith(f"{tmp_path / name}: ")
    assert "\n" not in raised.value.message
    assert raised.value.hint is not None
    assert word in f"{raised.value.message} {raised.value.hint}"
    assert raised.value.exit_code == 3
