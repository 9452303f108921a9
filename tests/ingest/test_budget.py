"""The size of a file limits the result of reading it.

Each file has at most some hundred kB. It describes gigabytes or endless work, or has an odd row
that must not affect the others.
"""

import gzip
import json
import pickle
import sqlite3
import time
from contextlib import closing
from itertools import pairwise

import pytest
from databases_by_hand import database
from export_by_hand import FIRST, ID, api, export, gemm, ranged

import tracekit
from tracekit.errors import TraceError
from tracekit.ingest import budget, byte_stream
from tracekit.wire import bytes_field, number_field


def refusal(path):
    """Check that a trace is refused in one bounded line that names it; return the line."""
    with pytest.raises(TraceError) as caught, tracekit.open(path, cache=False) as trace:
        trace.breakdown()
    message = caught.value.message
    assert message.startswith(f"{path}: ")
    assert len(message) < 600
    assert "\n" not in message
    return message


def shared(depth, leaf):
    """Return nested lists of ten references to the same list."""
    for _ in range(depth):
        leaf = [leaf] * 10
    return leaf


def entry(**more):
    return {"action": "alloc", "addr": 1, "size": 512, "time_us": 1, "frames": [], **more}


def history(*entries):
    return {"segments": [], "device_traces": [list(entries)]}


def flight(**more):
    call = {"time_created_ns": 1, "collective_seq_id": 1, "state": "scheduled", "retired": False}
    return {"entries": [{**call, "profiling_name": "nccl:all_reduce", **more}]}


def in_itself():
    found = []
    found.append(found)
    return found


def deep(depth, leaf=0):
    for _ in range(depth):
        leaf = [leaf]
    return leaf


def chain():
    """Return lists that are shallow individually and deep together."""
    found = [0]
    for _ in range(30):
        found.append(deep(50, found[-1]))
    return found


GROUP = {"desc": "x", "ranks": "[" + "0," * 100_000 + "0]"}
SEGMENT = {"total_size": 0, "blocks": [], "device": 0}

# Content of a pickle, and a word of the reason.
PICKLES = {
    "shared lists": (flight(input_sizes=shared(12, 1)), "events"),
    "shared texts": (flight(state=["x" * 10_000] * 100_000), "events"),
    "tuples as an action": (history(entry(action=tuple([shared(9, ())] * 10))), "events"),
    "shared frames": (
        history(entry(frames=shared(9, {"filename": "a", "line": 1, "name": "b"}))),
        "events",
    ),
    "a list in itself": (flight(state=in_itself()), "nested"),
    "a dictionary in itself": (history(entry(frames=in_itself())), "nested"),
    "deep lists": (flight(state=deep(150)), "nested"),
    "deep lists after others": (flight(input_sizes=chain()), "nested"),
    "one huge event": (flight(input_sizes=[["x" * 1_000_000] * 40]), "event"),
    "a time that is text": (history(entry(time_us="x" * 100_000)), "integer"),
    "a size that is a list": (history(entry(size=[1])), "integer"),
    "a number of many digits": (history(entry(size=1 << 1_000)), "64 bits"),
    "keys of one hash": (
        flight(state={number * (2**61 - 1): 0 for number in range(2, 100)}),
        "key",
    ),
    "shared ranks of groups": (
        {**flight(), "pg_config": dict.fromkeys(map(str, range(100)), GROUP)},
        "32 MiB",
    ),
    # Either is read once, however many there are of the other.
    "segments and devices": (
        {"segments": [SEGMENT] * 20_000, "device_traces": [[]] * 20_000},
        "x.pickle",
    ),
    # Bytes are the text of the pickle.
    "a persistent id": (
        pickle.dumps(shared(12, 1), protocol=2)[:-1] + pickle.BINPERSID + pickle.STOP,
        "x.pickle",
    ),
    "marks in marks": (b"\x80\x04" + pickle.MARK * 1_000_000 + pickle.STOP, "x.pickle"),
    **{
        f"many values of {opcode!r}": (
            b"\x80\x04]" + pickle.MARK + opcode * 100_000 + pickle.APPENDS + pickle.STOP,
            "values",
        )
        for opcode in (pickle.EMPTY_LIST, pickle.EMPTY_TUPLE + pickle.TUPLE1, pickle.NONE + b"\x94")
    },
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles(name, tmp_path):
    content, reason = PICKLES[name]
    path = tmp_path / "x.pickle"
    is_text = isinstance(content, bytes)
    path.write_bytes(content if is_text else pickle.dumps(content, protocol=4))
    assert reason in refusal(path)


def test_shared_frames_of_an_ordinary_history_are_read(tmp_path, load_file):
    frames = [{"filename": f"/src/{n}.py", "line": n, "name": "f" * 40} for n in range(60)]
    path = tmp_path / "x.pickle"
    entries = [entry(frames=frames, time_us=at, addr=at) for at in range(1, 1_001)]
    path.write_bytes(pickle.dumps(history(*entries)))
    assert load_file(path).sql("SELECT count(*) FROM memory") == [(1_000,)]


def shared_pages(path, table, depth):
    """Make the tree of a table of one page per level, to which all cells above point."""
    size = 512
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", [table]
        ).fetchone()
    text = bytearray(path.read_bytes())
    leaf = bytes(text[(root - 1) * size : root * size])
    first = len(text) // size + 1
    pages = [root, *range(first, first + depth)]
    text += bytes(size * depth)
    for page, below in pairwise(pages):
        cells = b"".join(below.to_bytes(4, "big") + bytes([n + 1]) for n in range(60))
        at = [size - len(cells) + 5 * n for n in range(60)]
        head = b"\x05\0\0" + (60).to_bytes(2, "big") + at[0].to_bytes(2, "big") + b"\0"
        head += below.to_bytes(4, "big") + b"".join(one.to_bytes(2, "big") for one in at)
        text[(page - 1) * size : page * size] = head.ljust(size - len(cells), b"\0") + cells
    text[(pages[-1] - 1) * size : pages[-1] * size] = leaf
    text[28:32] = (len(text) // size).to_bytes(4, "big")
    path.write_bytes(text)


def small_pages(path, tables):
    """Write a database with pages of 512 bytes."""
    database(path, tables)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA page_size = 512")
        db.execute("VACUUM")
    return path


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "META_DATA_EXPORT", "StringIds"])
def test_shared_pages(table, tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "FREE_S", 0.1)
    tables = export(CUPTI_ACTIVITY_KIND_KERNEL=[gemm(0, 10, 7, 1)])
    tables["StringIds"] = tables["StringIds"][:5]
    path = small_pages(tmp_path / "x.sqlite", tables)
    shared_pages(path, table, 6)
    refusal(path)


def test_rows_beyond_the_size_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "FREE_ROWS", 1_000)
    path = small_pages(
        tmp_path / "x.sqlite", export(NVTX_EVENTS=[ranged(0, 10, "x"), ranged(5, 6, "y")])
    )
    shared_pages(path, "NVTX_EVENTS", 3)
    refusal(path)


def test_a_repeated_string_id(tmp_path, load_file):
    """The first string of an id is used, and no kernel is counted twice."""
    kernels = [gemm(at, at + 5, 7, at + 1) for at in range(0, 2_000, 10)]
    tables = export(CUPTI_ACTIVITY_KIND_KERNEL=kernels)
    tables["StringIds"] = [
        *tables["StringIds"],
        *({"id": ID["void gemm<(int)2>(float*)"], "value": f"other {n}"} for n in range(2_000)),
    ]
    path = database(tmp_path / "x.sqlite", tables)
    rows = load_file(path).sql("SELECT name, count(*) FROM event GROUP BY name")
    assert rows == [("void gemm<(int)2>(float*)", 200)]


def test_metrics_of_one_number(tmp_path):
    samples = [{"timestamp": at, "typeId": 0, "metricId": 1, "value": 5} for at in (10, 20)]
    metrics = [{"typeId": 0, "metricId": 1, "metricName": f"m{n}"} for n in range(1_000)]
    kernels = {"CUPTI_ACTIVITY_KIND_KERNEL": [gemm(0, 30, 7, 1)]}
    tables = export(**kernels, GPU_METRICS=samples, TARGET_INFO_GPU_METRICS=metrics)
    with tracekit.open(database(tmp_path / "x.sqlite", tables), cache=False) as trace:
        assert trace.sql("SELECT name, value FROM counter_samples").rows == [("m0", 5)] * 2


def test_computed_columns_are_not_read(tmp_path, load_file):
    calls = {"CUPTI_ACTIVITY_KIND_RUNTIME": [api(0, 1, "cudaLaunchKernel_v7000", 1)]}
    tables = export(CUPTI_ACTIVITY_KIND_KERNEL=[gemm(0, 10, 7, 1)], **calls)
    path = database(tmp_path / "x.sqlite", tables)
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TABLE ThreadNames (globalTid, nameId AS (length(hex(zeroblob(40000000)))))"
        )
        db.execute(f"INSERT INTO ThreadNames VALUES ({FIRST | 101})")
        db.commit()
    assert len(load_file(path).names) == 2


def test_numbers_of_many_digits_in_names(tmp_path, load_file):
    tables = export(CUPTI_ACTIVITY_KIND_KERNEL=[gemm(0, 10, 7, 1)])
    tables["NVTX_EVENTS_V" + "1" * 5_000] = [ranged(0, 5, "x")]
    assert load_file(database(tmp_path / "x.sqlite", tables)).names
    tables["META_DATA_EXPORT"] = [{"name": "EXPORT_SCHEMA_VERSION", "value": "1" * 5_000}]
    refusal(database(tmp_path / "x.sqlite", tables))


ODD = [b"\xff\xfe", -(2**63), 2**63 - 1, 1e999, -0.5, None, "", "x" * 100]


@pytest.mark.parametrize("odd", ODD, ids=lambda value: f"{value!r:.12}")
def test_an_odd_row_affects_no_other(odd, tmp_path, load_file):
    kernel = gemm(0, 10, 7, 1, gridX=1, gridY=1, gridZ=1, registersPerThread=1)
    kernel |= {"blockX": 1, "blockY": 1, "blockZ": 1, "graphNodeId": 0, "graphId": 0}
    tables = export(
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel],
        CUPTI_ACTIVITY_KIND_MEMCPY=[{**kernel, "bytes": 4, "copyKind": 1, "srcKind": 0}],
        CUPTI_ACTIVITY_KIND_MEMSET=[{**kernel, "bytes": 4, "memKind": 0}],
        CUPTI_ACTIVITY_KIND_RUNTIME=[api(0, 1, "cudaLaunchKernel_v7000", 1)],
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[
            {**kernel, "eventId": 1, "eventSyncId": 1, "syncType": 1}
        ],
        CUPTI_ACTIVITY_KIND_CUDA_EVENT=[{**kernel, "eventId": 1, "eventSyncId": 1}],
        NVTX_EVENTS=[ranged(0, 10, "x"), {**ranged(0, 10, "y"), "eventType": 34}],
        PROCESSES=[{"globalPid": FIRST, "name": "p"}],
        ThreadNames=[{"globalTid": FIRST | 101, "nameId": 1}],
        TARGET_INFO_GPU=[{"id": 0, "name": "H100", "totalMemory": 1, "smCount": 132}],
        GPU_METRICS=[{"timestamp": 1, "typeId": 0, "metricId": 1, "value": 5}],
        TARGET_INFO_GPU_METRICS=[{"typeId": 0, "metricId": 1, "metricName": "m"}],
    )
    with_odd = {
        table: [*rows, *({**rows[0], column: odd} for column in rows[0])]
        for table, rows in tables.items()
        if table != "META_DATA_EXPORT"
    }
    path = database(tmp_path / "x.sqlite", {**tables, **with_odd})
    ((found,),) = load_file(path).sql(
        "SELECT count(*) FROM event WHERE ts_ns = 0 AND dur_ns = 10 AND "
        "name IN ('void gemm<(int)2>(float*)', 'x')"
    )
    assert found >= 2


def stat_names(count, text):
    """Return the names of statistics; number 0 is a text that they refer to."""
    names = [
        number_field(1, n) + bytes_field(2, number_field(1, n) + bytes_field(2, b"s%d" % n))
        for n in range(1, count + 1)
    ]
    names.append(number_field(1, 0) + bytes_field(2, bytes_field(2, text.encode())))
    return b"".join(bytes_field(5, name) for name in names)


def plane(stat_count, text, event_count):
    """Return an XSpace whose events share long statistics of their kind."""
    names = stat_names(stat_count, text)
    stats = b"".join(
        bytes_field(5, number_field(1, n) + number_field(7, 0)) for n in range(1, stat_count + 1)
    )
    kind = bytes_field(4, number_field(1, 1) + bytes_field(2, bytes_field(2, b"k") + stats))
    event = bytes_field(4, number_field(1, 1) + number_field(2, 1) + number_field(3, 1_000_000))
    line = bytes_field(3, number_field(1, 1) + bytes_field(2, b"Stream #7") + event * event_count)
    return bytes_field(1, bytes_field(2, b"/device:GPU:0") + names + kind + line)


def test_statistics_that_all_events_share(tmp_path, load_file):
    path = tmp_path / "x.xplane.pb"
    path.write_bytes(plane(1, "x" * 10_000, 20_000))
    refusal(path)
    path.write_bytes(plane(1_000, "x" * 100_000, 1))
    refusal(path)
    path.write_bytes(plane(2, "x" * 100, 2_000))
    assert load_file(path).sql("SELECT count(*) FROM event") == [(2_000,)]


@pytest.mark.parametrize("name", ["x.json.gz", "x.xplane.pb", "x.pickle", "x.csv.gz"])
def test_gzip_bombs_are_refused(name, tmp_path, monkeypatch, load_file):
    """A file that shrinks as traces do is read."""
    monkeypatch.setattr(byte_stream, "FREE_INFLATED_BYTES", 1 << 20)
    event = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d.%03d,"dur":1},\n'
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"[" + event % (1, 2) * 100_000, mtime=0))
    assert "gzip" in refusal(path)
    if name == "x.json.gz":
        text = b"".join(event % (at * 7919 % 100_003, at % 997) for at in range(30_000))
        path.write_bytes(gzip.compress(b"[" + text, mtime=0))
        assert load_file(path).sql("SELECT count(*) FROM event") == [(30_000,)]


def test_shared_descriptions_of_devices(tmp_path):
    names = stat_names(99, "x" * 100_000)
    names += b"".join(
        bytes_field(6, number_field(1, n) + number_field(7, 0)) for n in range(1, 100)
    )
    parts = [
        bytes_field(1, bytes_field(2, b"/device:GPU:%d" % device) + names) for device in range(4)
    ]
    path = tmp_path / "x.xplane.pb"
    path.write_bytes(plane(1, "x", 10) + b"".join(parts))
    assert "32 MiB" in refusal(path)


def test_long_texts_on_shared_pages(tmp_path):
    tables = export(CUPTI_ACTIVITY_KIND_KERNEL=[gemm(0, 10, 7, 1)])
    tables["TARGET_INFO_SYSTEM_ENV"] = [{"name": "Hostname", "value": "h" * 500_000}]
    path = small_pages(tmp_path / "x.sqlite", tables)
    shared_pages(path, "TARGET_INFO_SYSTEM_ENV", 5)
    refusal(path)


def test_processes_of_one_number_on_several_machines(tmp_path, load_file):
    """Each has its own devices."""
    kernels = [
        gemm(10 * n, 10 * n + 5, 7, n + 1) | {"globalPid": n << 48 | 1 << 24, "deviceId": n}
        for n in range(100)
    ]
    devices = [{"pid": 1, "cudaId": n, "gpuId": n} for n in range(30_000)]
    tables = export(CUPTI_ACTIVITY_KIND_KERNEL=kernels, TARGET_INFO_CUDA_DEVICE=devices)
    path = database(tmp_path / "x.sqlite", tables)
    assert load_file(path).sql("SELECT count(DISTINCT device) FROM event") == [(100,)]


def test_records_of_an_event_that_match_no_wait(tmp_path, load_file):
    at = {"globalPid": FIRST, "deviceId": 0, "contextId": 1, "streamId": 7, "eventId": 1}
    count = 10_000
    records = [{**at, "correlationId": n + 1, "eventSyncId": n + 1} for n in range(count)]
    waits = [
        {**at, "start": n, "end": n + 1, "correlationId": count + n, "syncType": 1}
        | {"eventSyncId": 10**9 + n if n else count - 2}
        for n in range(count)
    ]
    found = {"CUDA_EVENT": records, "SYNCHRONIZATION": waits, "KERNEL": [gemm(0, 10, 7, 1)]}
    tables = export(**{f"CUPTI_ACTIVITY_KIND_{name}": rows for name, rows in found.items()})
    path = database(tmp_path / "x.sqlite", tables)
    begun = time.process_time()
    rows = load_file(path).sql(
        "SELECT args ->> 'wait_on_cuda_event_record_corr_id' FROM event "
        "WHERE category = 'cuda_sync' AND args ->> 'wait_on_cuda_event_record_corr_id' <> ''"
    )
    assert rows == [(str(count - 2),)]
    assert time.process_time() - begun < 20


def test_slices_that_never_end(tmp_path, monkeypatch, load_file):
    monkeypatch.setattr(budget, "MAX_HELD_BYTES", 1 << 20)
    head = b"\x0a\x04\x50\x01\x68\x03" + bytes_field(
        1, bytes_field(60, number_field(1, 5) + bytes_field(2, b"g"))
    )
    track = number_field(1, 6) + number_field(5, 5) + bytes_field(16, b"k")
    head += bytes_field(1, bytes_field(60, track + bytes_field(14, b"process 1, thread 2")))
    begin, end = (
        bytes_field(
            1,
            number_field(8, 1_000 + kind)
            + bytes_field(11, number_field(11, 6) + number_field(9, kind) + bytes_field(23, b"n")),
        )
        for kind in (1, 2)
    )
    path = tmp_path / "x.pftrace"
    path.write_bytes(head + begin * 2_000)
    refusal(path)
    names = (
        bytes_field(1, bytes_field(12, bytes_field(2, number_field(1, n) + bytes_field(2, b"n"))))
        for n in range(10_000)
    )
    path.write_bytes(head + b"".join(names))
    refusal(path)
    path.write_bytes(head + (begin + end) * 2_000)
    assert load_file(path).sql("SELECT count(*) FROM event") == [(2_000,)]


def test_a_long_header_of_a_counter_file(tmp_path):
    event = '[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2}]'
    (tmp_path / "t.json").write_text(event)
    lines = "".join(f"2024/01/01 00:00:00.{n:06}, 0, 5\n" for n in range(1, 3_000))
    counters = tmp_path / "p.csv"
    counters.write_text(f"timestamp,index,{'p' * 50_000} [W]\n{lines}")
    with tracekit.open(tmp_path / "t.json", counters, cache=False) as trace:
        rows = trace.sql("SELECT DISTINCT name FROM system_sample").rows
    assert rows == [("p" * 200,)]


EVENT = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2}'


@pytest.mark.parametrize(
    "member",
    [
        '"y":[' + "[]," * 1_500_000 + "[]]",
        '"y":' + ('{"trace_id":' * 900 + "x,") * 300 + "0",
        '"y":' + '{"trace_id":' * 300_000,
    ],
    ids=["long", "damaged", "deep"],
)
@pytest.mark.parametrize(
    "is_known_first",
    [True, pytest.param(False, marks=pytest.mark.nightly("the other order of members"))],
)
def test_long_metadata(member, is_known_first, load):
    """It takes linear time, and the known members are read unless they are part of the damage."""
    known = '"distributedInfo":{"rank":3,"world_size":8}'
    first, last = (known, '"z":1') if is_known_first else ('"z":1', known)
    begun = time.process_time()
    loaded = load(f'{{{first},"traceEvents":[{EVENT}],{member},{last}}}')
    assert time.process_time() - begun < 20
    if is_known_first:
        assert loaded.sql("SELECT rank, event_count, rejected_count FROM trace") == [(3, 1, 1)]
    elif member.endswith("]]"):
        assert loaded.sql("SELECT rank, world_size FROM trace") == [(3, 8)]


MANIFEST = {
    "run_id": "r", "tracekit_version": "0", "created_at": "2026-01-01T00:00:00Z",
    "stage": "custom", "engine": "torch",
}  # fmt: skip


@pytest.mark.parametrize(
    "members",
    [
        '"extra":{"a":' + "[" * 700 + "]" * 700 + "}",
        '"extra":{"a":' + '{"a":' * 400 + "1" + "}" * 401,
        '"ranks":[' + '{"rank":1},' * 100_000 + '{"rank":1}]',
        '"tokens_per_s_mean":1' + "0" * 400,
        '"exit_code":1' + "0" * 4000,
        '"stage":"' + "x" * 1_000_000 + '"',
        '"schema_version":1' + "0" * 4000,
    ],
)
def test_hostile_manifests(members, tmp_path):
    (tmp_path / "rank0.json").write_text(f"[{EVENT}]")
    (tmp_path / "run.json").write_text(json.dumps(MANIFEST)[:-1] + f",{members}}}")
    with tracekit.open(tmp_path, cache=False) as trace:
        ((outcome, why),) = trace.sql("SELECT outcome, reason FROM run").rows
        assert trace.sql("SELECT count(*) FROM event").rows == [(1,)]
    assert outcome == "unreadable"
    assert len(why) < 400


def test_notes_and_texts_of_a_manifest_are_cut(tmp_path):
    (tmp_path / "rank0.json").write_text(f"[{EVENT}]")
    notes = ["n" * 3_000_000] + [f"note {number}" for number in range(50_000)]
    manifest = MANIFEST | {"notes": notes, "outcome": "failed", "reason": "r" * 3_000_000}
    (tmp_path / "run.json").write_text(json.dumps(manifest))
    with tracekit.open(tmp_path, cache=False) as trace:
        ((shown, reason),) = trace.sql("SELECT notes, reason FROM run").rows
    assert shown[1:3] == ["note 0", "note 1"]
    assert "49,901" in shown[-1]
    assert max(map(len, [*shown, reason])) <= 10_000
