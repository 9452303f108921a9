"""Names in the timeline are limited in size, and the page reports truncation."""

import base64
import gzip
import json

import pytest
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.report import events


@pytest.fixture
def packed(tiny_trace):
    def of_names(*names):
        work = [kernel(name, 10 * at, 10 * at + 5) for at, name in enumerate(names)]
        with tracekit.open(tiny_trace(work), cache=False) as trace:
            text = events.packed_events(trace.query("timeline_events"))
        return json.loads(gzip.decompress(base64.b64decode(text)))

    return of_names


def test_names_that_fit_are_complete(packed):
    content = packed("a" * 400, "b", "b")
    assert (sorted(content["names"]), content["cut"]) == (["a" * 400, "b"], 0)


def test_a_very_long_name_is_truncated_with_a_note(packed):
    content = packed("a" * 401, "b")
    assert (sorted(content["names"]), content["cut"]) == (["a" * 400, "b"], 400)


def test_many_long_names_share_the_room(packed, monkeypatch):
    """Of 100 characters 4 are for the short one; 96 are for three others, 32 for each."""
    monkeypatch.setattr(events, "MAX_NAMES", 100)
    long = [letter * 50 for letter in "abc"]
    content = packed("gemm", *long)
    assert content["cut"] == 32
    assert sorted(content["names"]) == sorted(["gemm", *(name[:32] for name in long)])
    # Two that are cut to the same are two still.
    content = packed("x" * 120 + "1", "x" * 120 + "2")
    (track,) = content["tracks"]
    assert content["names"] == ["x" * 50] * 2
    assert sorted(track["name"]) == [0, 1]


def test_events_on_the_critical_path_are_marked(tiny_trace):
    """The second stream's kernel ends before the first one's, so nothing waits for it."""
    work = [
        *(call(10 * at, 10 * at + 2, at + 1) for at in range(3)),
        kernel("a", 30, 80, 1),
        kernel("aside", 35, 60, 2, stream=20),
        kernel("b", 81, 120, 3),
    ]
    with tracekit.open(tiny_trace(work), cache=False) as trace:
        text = events.packed_events(trace.query("timeline_events"), trace.query("critical_path"))
    content = json.loads(gzip.decompress(base64.b64decode(text)))
    assert [track["path"] for track in content["tracks"]] == [[1, 1], [0]]


def test_ops_of_the_host_are_a_row_for_each_thread(tiny_trace):
    work = [
        span("cpu_op", "aten::mm", 0, 9),
        span("cpu_op", "aten::inner", 2, 8),
        *(call(10 * at + 1, 10 * at + 2, at + 1) for at in range(2)),
        kernel("a", 30, 80, 1),
        kernel("b", 81, 120, 2),
    ]
    with tracekit.open(tiny_trace(work), cache=False) as trace:
        host = trace.query("timeline_host", limit=1)
        text = events.packed_events(trace.query("timeline_events"), host=host)
    content = json.loads(gzip.decompress(base64.b64decode(text)))
    device, thread = content["tracks"]
    assert device["label"].endswith("stream 7")
    assert thread["label"].startswith("host · thread ")
    assert [content["names"][name] for name in thread["name"]] == ["aten::mm"]
    assert content["kinds"] == ["compute", "host"]
    assert len(content["colours"]["kind"]) == 2
