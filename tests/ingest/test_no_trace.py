"""What is no trace at all is one error that says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracekit.errors import TraceError


def event(name: str, **more: Any) -> str:
    shown = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    return json.dumps({**shown, "args": {"stream": 7, "Input Dims": [[2], []]}, **more})


FIRST, LAST = event("first"), event("last")

NO_ARRAY = (
    "not a Chrome trace: it has no array of trace events",
    'a trace is {"traceEvents": [...]} or [...], as torch.profiler exports it',
)

AGAIN = "collect the trace again, or copy it again"

INACTIVE = ("the trace holds no event", "was the profiler active for at least one step?")

UNREADABLE: dict[str, tuple[bytes, str, str | None]] = {
    "empty": (b"", "the file is empty", AGAIN),
    "white space": (b" \n", *NO_ARRAY),
    "object": (b'{"a": 1}', *NO_ARRAY),
    "number": (b"5", *NO_ARRAY),
    "null": (b"null", *NO_ARRAY),
    "text": (b'"traceEvents"', *NO_ARRAY),
    "events that are no array": (b'{"traceEvents": {"a": 1}}', *NO_ARRAY),
    "nested": (b'{"a": {"traceEvents": [{"ph": "X"}]}}', *NO_ARRAY),
    "web page": (b"<!DOCTYPE html><html><body>404</body></html>", *NO_ARRAY),
    "events on lines": (FIRST.encode() + b"\n" + LAST.encode(), *NO_ARRAY),
    "binary": (bytes(range(256)) * 10, *NO_ARRAY),
    "cut off in the header": (b'{"schemaVersion": 1, "traceEv', *NO_ARRAY),
    "no events": (b'{"traceEvents": []}', *INACTIVE),
    "no events in a bare array": (b"[]", *INACTIVE),
    "cut off before the first event": (b'{"traceEvents": [', *INACTIVE),
    "numbers": (
        b"[1, 2]",
        "no readable event; the first one, at byte 1, is unreadable: an event that is no object",
        AGAIN,
    ),
    "cut off in the first event": (
        b'{"traceEvents": [{"ph": "X", "na',
        "no readable event; the first one, at byte 17, is unreadable: cut off",
        AGAIN,
    ),
    "no times": (
        b'[{"ph": "X"}, {"ph": "X", "ts": "a"}]',
        "no readable event; the first one, at byte 1, is unreadable: no ts",
        AGAIN,
    ),
    "zstd": (
        b"\x28\xb5\x2f\xfd\x04\x00",
        "this is a zstd file, which is not read",
        "unpack it first: zstd -d FILE",
    ),
    "zip": (
        b"PK\x03\x04\x14\x00",
        "this is a zip file, which is not read",
        "unpack it first: unzip FILE",
    ),
    "bzip2": (
        b"BZh91AY&SY",
        "this is a bzip2 file, which is not read",
        "unpack it first: bunzip2 FILE",
    ),
    "xz": (
        b"\xfd7zXZ\x00\x00",
        "this is a xz file, which is not read",
        "unpack it first: unxz FILE",
    ),
    "UTF-16": (
        "\ufeff[{}]".encode("utf-16-le"),
        "this is a UTF-16 file, which is not read",
        "convert it first: iconv -f UTF-16 -t UTF-8 FILE",
    ),
    "gzip of nothing": (
        bytes.fromhex("1f8b08000000000000ff03000000000000000000"),
        "the file is empty",
        AGAIN,
    ),
    "gzip cut in its header": (b"\x1f\x8b\x08", "the gzip stream ends before its end mark", AGAIN),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_what_is_no_trace_is_one_error(
    load: Callable[..., Any], tmp_path: Path, case: str, name: str
) -> None:
    content, message, hint = UNREADABLE[case]
    with pytest.raises(TraceError) as raised:
        load(content, name)
    assert raised.value.message == f"{tmp_path / name}: {message}"
    assert raised.value.hint == hint
    assert raised.value.exit_code == 3
