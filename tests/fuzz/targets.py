"""Fuzzing targets: each generates random inputs and checks the result.

An input is bytes, and is added to the corpus if the check fails. A check fails with an
AssertionError, or with any error that is not a TracekitError. To add a target, write a generator
and a check, and add them to TARGETS.
"""

import functools
import gzip
import importlib
import json
import pickle
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from formats_by_hand import ODD_EVENTS as EVENTS
from formats_by_hand import gpu_space, rocprof_process

import tracekit
from tracekit.analysis.library import library_file
from tracekit.analysis.names.rules import check_rules
from tracekit.database.building import build_temporary
from tracekit.errors import TraceError, TracekitError, UsageError
from tracekit.export.perfetto import export_perfetto
from tracekit.ingest.load import load_trace
from tracekit.ingest.reading import Reading
from tracekit.opening import ingest

REPO = Path(__file__).resolve().parents[2]
SAMPLE = REPO / "tests" / "traces" / "cpu_llama_lora" / "rank0.json.gz"

PIECES = (
    rb"""" \ { } [ ] , : NaN "} {" }] }} ], },{ "ph": ,{"ph":"X" }]} [[[[ "x":[{ /* """
    rb""""traceEvents":["""
).split()
PIECES += [b"\n", b"\0", b"\xff", b" ", b"\\ud800", b"9" * 30, b"-0", b"1e999", b"null", b"true"]


def mutated(chance, text, pieces=PIECES):
    """Damage a text: insert, delete, repeat, and overwrite pieces."""
    data = bytearray(text)
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        at = chance.randrange(len(data) + 1)
        size = chance.choice([1, 2, 8, 60, 400])
        match chance.randrange(6):
            case 0:
                data[at:at] = chance.choice(pieces)
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = bytes(data[at : at + size]) * chance.choice([1, 2, 30])
            case 3:
                data[at : at + 1] = chance.randbytes(1)
            case 4:
                source = chance.randrange(len(data) + 1)
                data[at : at + size] = data[source : source + size]
            case _:
                data[at:at] = chance.choice(pieces) * chance.choice([2, 50, 1500])
    return bytes(data)


def one_line(error):
    """Check that an error is one line."""
    assert "\n" not in error.message


@contextmanager
def folder():
    """Yield a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="tracekit-fuzz-") as name:
        yield Path(name)


# -- traces ----------------------------------------------------------------------------------------


def make_trace(chance):
    """Return a trace, mostly damaged, and sometimes compressed."""
    events = chance.choices(EVENTS, k=chance.choice([1, 5, 30]))
    indent = chance.choice([None, None, 1])
    text = json.dumps(
        {"schemaVersion": 1, "traceEvents": events, "traceName": "t"},
        ensure_ascii=chance.random() < 0.5,
        indent=indent,
    ).encode()
    if chance.random() < 0.9:
        text = mutated(chance, text)
    if chance.random() < 0.2:
        text = gzip.compress(text, mtime=0)
        if chance.random() < 0.5:
            text = mutated(chance, text)
    return text


def check_trace(data):
    """Every event that Python's json reads is in a table or rejected."""
    with folder() as place:
        path = place / "trace.json"
        path.write_bytes(data)
        found = _tables(path)
    try:
        value = json.loads(data)
        events = value["traceEvents"] if isinstance(value, dict) else value
        # Events that only one of two parsers accepts do not count.
        known = msgspec.json.decode(data)
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError):
        return
    if not isinstance(events, list) or data.count(b'"traceEvents"') > 1 or known is None:
        return
    whole = [event for event in events if isinstance(event, dict)]
    if found is None:
        # A trace is rejected only if all of its events are unreadable.
        assert not any(_is_plain(event) for event in whole), "a readable trace was refused"
        return
    kept, rejected = found
    assert len(kept | rejected) == len(whole), "an event is neither read nor rejected"
    for event_id, event in enumerate(whole):
        assert event_id in kept or not _is_plain(event), f"event {event_id} was not read"


def _is_plain(event):
    """Return whether an event must be readable; False if that is not obvious."""
    if not isinstance(event, dict) or event.get("ph") not in ("i", "C", "X"):
        return False
    times = [event.get("ts"), event.get("dur") if event["ph"] == "X" else 0]
    return all(type(time) is int and 0 <= time < 10**9 for time in times)


def _tables(path):
    """Return the ids of readable and rejected events."""
    try:
        with build_temporary(library_file()) as build, Reading(path) as reading:
            build.connection.execute("SET threads = 1")
            load_trace(build.connection, reading, 0)
            kept, rejected = (
                {event_id for (event_id,) in build.connection.execute(sql).fetchall()}
                for sql in (
                    "SELECT event_id FROM record",
                    "SELECT event_id FROM rejected WHERE event_id IS NOT NULL",
                )
            )
    except TraceError:
        return None
    return kept, rejected


# -- traces of other formats -----------------------------------------------------------------------


def _perfetto():
    with folder() as place:
        (place / "t.json").write_text(json.dumps(EVENTS))
        parts = []
        with tracekit.open(place / "t.json", cache=False) as trace:
            export_perfetto(trace, lambda part: parts.append(bytes(part)))
    return b"".join(parts)


@functools.cache
def _other_formats():
    entry = {"action": "alloc", "addr": 5, "size": 8, "stream": 0, "time_us": 3, "frames": []}
    history = {"segments": [], "device_traces": [[entry, entry | {"action": "free_completed"}]]}
    timeline = b"[[-1, 1, 8, 0], [5, 2, 16, 3], [9, 3, -16, 3]]"
    rocprof = json.dumps({"rocprofiler-sdk-tool": [rocprof_process()]}).encode()
    return [gpu_space().data(), rocprof, _perfetto(), pickle.dumps(history), timeline]


def make_format(chance):
    """Return a trace of another format, damaged after its first bytes."""
    whole = chance.choice(_other_formats())
    data = whole[:8] + mutated(chance, whole[8:])
    return gzip.compress(data, mtime=0) if chance.random() < 0.1 else data


def check_format(data):
    """The file is read, or refused in one line."""
    with folder() as place:
        path = place / "trace"
        path.write_bytes(data)
        try:
            with build_temporary(library_file()) as build, Reading(path) as reading:
                build.connection.execute("SET threads = 1")
                load_trace(build.connection, reading, 0)
        except TraceError as error:
            one_line(error)


# -- stores ----------------------------------------------------------------------------------------


@functools.cache
def _store():
    with folder() as place:
        source = place / "t.json"
        source.write_text(json.dumps(EVENTS))
        return ingest([source], place / "s.duckdb").read_bytes()


def make_store(chance):
    """Return a list of edits of a store: position, size, and new bytes."""
    edits = [
        [chance.random(), chance.choice([0, 1, 16, 4096, 1 << 18]), chance.randbytes(4).hex()]
        for _ in range(chance.choice([1, 1, 3, 20]))
    ]
    if chance.random() < 0.3:
        # The headers and the catalog are at the two ends.
        edits = [[at * 0.02 + chance.choice([0, 0.98]), *rest] for at, *rest in edits]
    return json.dumps(edits).encode()


def check_store(data):
    """A damaged store answers or is refused."""
    store = bytearray(_store())
    for place, size, text in json.loads(data):
        at = int(place * len(store))
        if size == 0:
            del store[at:]
        else:
            new = (bytes.fromhex(text) * size)[:size]
            store[at : at + size] = new[: len(store) - at]
    with folder() as where:
        path = where / "s.duckdb"
        path.write_bytes(store)
        try:
            with tracekit.open(path) as trace:
                trace.breakdown()
                trace.sql("SELECT max(args), max(name) FROM record")
        except TracekitError as error:
            one_line(error)


# -- rules, manifests, SQL -------------------------------------------------------------------------

RULES = b"""[class]
mine = {kind = "comm"}
[[rule]]
class = "mine"
applies_to = "device"
pattern = "k<.*>"
[[range]]
applies_to = "call"
means = "module"
pattern = "^my: (.*)$"
label = "\\\\1"
[[role]]
role = "q"
applies_to = "leaf"
pattern = "q_proj"
"""
TOML = (
    rb"""[[ ]] = " ' . 1 true [1] {a=1} [[rule]] [[range]] ( ) \\ * {1,900} \\1 \u0000 \" """
).split()


def make_rules(chance):
    """Return a damaged rules file."""
    return mutated(chance, RULES, TOML)


def check_rules_file(data):
    """A rules file is applied, or refused in one line."""
    with folder() as place:
        path, trace = place / "rules.toml", place / "t.json"
        path.write_bytes(data)
        trace.write_text(json.dumps(EVENTS))
        try:
            check_rules(path)
        except UsageError as error:
            one_line(error)
            return
        with tracekit.open(trace, cache=False, rules=path) as opened:
            opened.query("kernel_classes")


MANIFEST = {
    "run_id": "a", "tracekit_version": "0.1.0", "created_at": "2026-01-31T12:00:00Z",
    "stage": "serve", "engine": "e", "batch_size": 4, "tokens_per_s_mean": 1.5,
    "model": {"name": "m", "config": {"a": [1, 2.5, None]}},
    "repeats": [{"tokens_per_s": 1.0, "wall_ns": 5, "step_ns": [1, 2]}],
    "peak_memory": [{"rank": 0, "host_bytes": 5}],
    "environment": {"devices": ["d"], "packages": {"torch": "2"}},
    "load": {"request_count": 1, "prompt_token_count": 2, "max_new_token_count": 3},
    "notes": ["n"], "traces": ["rank0.json"],
}  # fmt: skip


def make_manifest(chance):
    """Return a damaged run.json."""
    return mutated(chance, json.dumps(MANIFEST, indent=chance.choice([None, 2])).encode())


def check_manifest(data):
    """A manifest is read, or becomes a row with the reason."""
    with folder() as place:
        (place / "run.json").write_bytes(data)
        (place / "requests.jsonl").write_text('{"request_id": 1, "outcome": "ok"}\n')
        (place / "rank0.json").write_text(json.dumps(EVENTS))
        with tracekit.open(place, cache=False) as trace:
            assert len(trace.query("run")) == 1
            trace.query("health")
            trace.query("requests")


SQL = """
SELECT FROM event WHERE GROUP BY ORDER LIMIT 5 count(*) name dur_ns ( ) , ; * 'a' COPY TO
'/dev/null' ATTACH INSTALL LOAD read_text('/etc/passwd') SET CREATE TABLE VIEW MACRO AS DROP UNION
ALL WITH RECURSIVE x JOIN PIVOT DESCRIBE SHOW TABLES -- /* PRAGMA CALL CAST INTERVAL 1 MONTH
TIMESTAMP_NS NULL [1,2] {'a':1} ::BLOB ' é ::DECIMAL(38,9) range(9) unnest $1 ? " \\ \0
"""


def make_sql(chance):
    """Return words of SQL."""
    text = " ".join(chance.choices(SQL.split(), k=chance.choice([1, 4, 8, 16])))
    return (text if chance.random() < 0.5 else "SELECT " + text).encode()


@functools.cache
def _trace():
    with folder() as place:
        source = place / "t.json"
        source.write_text(json.dumps(EVENTS))
        return tracekit.open(source, cache=False)


def check_sql(data):
    """A statement returns rows or an error of one line, and reads no file."""
    trace = _trace()
    try:
        result, _ = trace.stream_sql(data.decode("utf-8", "surrogateescape"), timeout_s=10).first(
            100
        )
        assert "root:" not in repr(result.rows)
    except TracekitError as error:
        one_line(error)
    finally:
        trace.connection.abort()
    assert trace.sql("SELECT 1").rows == [(1,)]


# -- servers ---------------------------------------------------------------------------------------


@functools.cache
def _hostile():
    sys.path.insert(0, str(REPO / "tests" / "collectors" / "serving"))
    return importlib.import_module("_hostile")


def make_server(chance):
    """Return the seed of a hostile server."""
    return str(chance.randrange(10**12)).encode()


def check_server(data):
    """A run against a hostile server leaves a readable run folder, or one error."""
    hostile = _hostile()
    with folder() as place:
        hostile.attack(hostile.hostile_of(random.Random(int(data))), place)


class Target(NamedTuple):
    """A pair of functions."""

    make: Callable[[random.Random], bytes]
    check: Callable[[bytes], None]


TARGETS = {
    "trace": Target(make_trace, check_trace),
    "format": Target(make_format, check_format),
    "store": Target(make_store, check_store),
    "rules": Target(make_rules, check_rules_file),
    "manifest": Target(make_manifest, check_manifest),
    "sql": Target(make_sql, check_sql),
    "server": Target(make_server, check_server),
}
