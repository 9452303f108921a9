"""One trace in every formatting seen in the wild gives the same rows."""

import gzip
import json

import pytest

from tracekit.ingest.formats.chrome_trace import BLOCK_BYTES

EVENTS = [
    json.loads(line)
    for line in r"""
{"ph":"M","name":"process_name","ts":1.5,"pid":7,"tid":0,"args":{"name":"python"}}
{"ph":"M","name":"thread_name","ts":1.5,"pid":7,"tid":8,"args":{"name":"main [é]"}}
{"ph":"X","cat":"cpu_op","name":"aten::\"mm\" \\ {a, [b}","pid":7,"tid":8,"ts":10.25,"dur":5.001,
 "args":{"External id":3,"Input Dims":[[2,3],[],[[1]]],"note":"}, {"}}
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":8,"ts":11,"dur":2,
 "args":{"correlation":9,"External id":3}}
{"ph":"s","id":9,"pid":7,"tid":8,"ts":11,"cat":"ac2g","name":"ac2g"}
{"ph":"X","cat":"kernel","name":"void k<int, 3>(float*)","pid":0,"tid":7,"ts":14,"dur":100,
 "args":{"device":0,"stream":7,"correlation":9,"External id":3}}
{"ph":"f","id":9,"pid":0,"tid":7,"ts":14,"cat":"ac2g","name":"ac2g","bp":"e"}
{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"Profiler","ts":1,
 "dur":200,"args":{"Op count":0}}
{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":7,"tid":8,"ts":12,
 "args":{"Total Allocated":640,"Bytes":-64,"Device Type":1,"Device Id":0,"Addr":5}}
{"ph":"i","s":"g","name":"Iteration Start","pid":"Traces","tid":"Trace","ts":1}
{"ph":"C","name":"GPU 0 Utilization","pid":0,"ts":3,"args":{"GPU Utilization":0.5}}
""".replace("\n ", "")
    .strip()
    .splitlines()
]
METADATA = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "H100", "totalGlobalMem": 85, "computeMajor": 9}],
    "distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 4},
    "baseTimeNanoseconds": 1759253134000000000,
    "displayTimeUnit": "ms",
    "record_shapes": 1,
}


def kineto(events=EVENTS):
    """Return the text in the layout of Kineto's own writer, with its odd line breaks."""
    head = "".join(f"    {json.dumps(key)}: {json.dumps(METADATA[key])},\n" for key in METADATA)
    texts = []
    for event in events:
        first = {key: value for key, value in event.items() if key not in ("dur", "args")}
        text = "  {\n    " + json.dumps(first)[1:-1]
        if "dur" in event:
            text += f', "dur": {event["dur"]}\n'
        if "args" in event:
            text += "    ,\n" if "dur" in event else ",\n"
            text += f'    "args": {{\n      {json.dumps(event["args"])[1:-1]}\n    }}\n'
        texts.append(text + "  }")
    body = ",\n".join(texts)
    return (
        "{\n  "
        + head.lstrip()
        + f'  "traceEvents": [\n{body}\n  ],\n  "traceName": "/tmp/t.json"\n}}'
    )


WHOLE = {**METADATA, "traceEvents": EVENTS}
EVENTS_FIRST = {"traceEvents": EVENTS, **METADATA}
ONE_LINE = json.dumps(WHOLE, separators=(",", ":"), ensure_ascii=False)
BARE = json.dumps(EVENTS)

ON_LINES = ",\n".join(map(json.dumps, EVENTS))
FORMATTINGS = {
    "kineto": kineto(),
    "one line": ONE_LINE,
    "spaced": json.dumps(WHOLE),
    **{f"indent {n}": json.dumps(WHOLE, indent=n, ensure_ascii=n == 1) for n in (0, 1, 4)},
    "tabs": json.dumps(WHOLE, indent="\t"),
    "CRLF": json.dumps(WHOLE, indent=2, ensure_ascii=False).replace("\n", "\r\n"),
    "CR": json.dumps(WHOLE, indent=2).replace("\n", "\r"),
    "one event a line": f'{{{json.dumps(METADATA)[1:-1]}, "traceEvents": [\n{ON_LINES}\n]}}\n',
    "comma first": '{"traceEvents":['
    + "\n,".join(map(json.dumps, EVENTS))
    + f"],{json.dumps(METADATA)[1:]}",
    "metadata at the end": json.dumps(EVENTS_FIRST, indent=2),
    "metadata around": json.dumps({"schemaVersion": 1} | EVENTS_FIRST),
    "much white space": json.dumps(WHOLE, separators=(" \n\t , ", "  \r\n : ")),
    "white space around": "\n\n  \t" + ONE_LINE + "\n \n",
    "UTF-8 byte order mark": "\ufeff" + ONE_LINE,
    "members in another order": json.dumps(
        {**METADATA, "traceEvents": [dict(sorted(event.items())) for event in EVENTS]}
    ),
}
BARE_FORMATTINGS = {
    "bare": BARE,
    "bare indented": json.dumps(EVENTS, indent=2),
    "bare on lines": f"[\n{ON_LINES}\n]\n",
    "bare with white space": " \n " + BARE + " \n",
    "bare with a byte order mark": "\ufeff" + BARE,
}
# The format lets a bare array end without its bracket, so that a crashed program leaves a trace.
OPEN_FORMATTINGS = {
    "open": BARE[:-1],
    "open with a comma": BARE[:-1] + ",",
    "open on lines": f"[\n{ON_LINES},\n",
}


def named_member(text):
    """A member whose header has a name, an extra field and a comment."""
    plain = gzip.compress(text)
    header = plain[:3] + bytes([0b11100]) + plain[4:10]
    return header + b"\x04\x00ABCD" + b"trace.json\0" + b"a comment\0" + plain[10:]


PACKINGS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "two members": lambda text: gzip.compress(text[:1000]) + gzip.compress(text[1000:]),
    "a member a byte": lambda text: b"".join(
        gzip.compress(text[at : at + 97], 1) for at in range(0, len(text), 97)
    ),
    "zero padding": lambda text: (
        gzip.compress(text[:1000]) + bytes(512) + gzip.compress(text[1000:]) + bytes(2048)
    ),
    "empty members": lambda text: gzip.compress(b"") + gzip.compress(text) + gzip.compress(b""),
    "named member": named_member,
}


@pytest.fixture
def expected_rows(load):
    return load(ONE_LINE).everything()


N = [None] * 9
ROWS = {
    "SELECT * EXCLUDE (ph, args, extra) FROM event WHERE category <> 'Trace' ORDER BY event_id": [
        (0, 2, 7, 8, "cpu_op", 'aten::"mm" \\ {a, [b}', 10250, 5001, None, 3, *N[:7]),
        (0, 3, 7, 8, "cuda_runtime", "cudaLaunchKernel", 11000, 2000, 9, 3, *N[:7]),
        (0, 5, 0, 7, "kernel", "void k<int, 3>(float*)", 14000, 100000, 9, 3, 7, 0, *N[:5]),
    ],
    "SELECT name, ts_ns, dur_ns FROM event WHERE event_id = 7":
        [("PyTorch Profiler (0)", 1000, 200000)],
    "SELECT args ->> '$.note', args -> '$.\"Input Dims\"' FROM event LIMIT 1":
        [("}, {", "[[2,3],[],[[1]]]")],
    "SELECT * EXCLUDE (args, extra) FROM flow ORDER BY event_id": [
        (0, 4, 7, 8, "s", 9, "ac2g", "ac2g", 11000, None),
        (0, 6, 0, 7, "f", 9, "ac2g", "ac2g", 14000, "e"),
    ],
    "SELECT * EXCLUDE (args, extra) FROM memory":
        [(0, 8, 7, 8, 12000, 5, -64, 640, None, 1, 0)],
    "SELECT event_id, name, scope, ts_ns FROM instant": [(9, "Iteration Start", "g", 1000)],
    "SELECT event_id, name, ts_ns, args FROM counter":
        [(10, "GPU 0 Utilization", 3000, '{"GPU Utilization":0.5}')],
    "SELECT event_id, name, ts_ns, args ->> '$.name' FROM metadata":
        [(0, "process_name", 1500, "python"), (1, "thread_name", 1500, "main [é]")],
    "SELECT pid_text, tid_text, process_name, thread_name FROM thread": [
        ("Spans", "Profiler", None, None), ("0", "7", None, None),
        ("7", "0", "python", None), ("7", "8", "python", "main [é]"),
    ],
    "SELECT device_id, name, total_memory_bytes, compute_capability FROM device":
        [(0, "H100", 85, "9.0")],
    "SELECT rank, rank_source, world_size, backend, base_time_ns, display_time_unit FROM trace":
        [(2, "distributedInfo", 4, "nccl", 1759253134000000000, "ms")],
    "SELECT record_shapes, with_stack, is_truncated, first_ts_ns, last_end_ns FROM trace":
        [(True, False, False, 1000, 201000)],
    "SELECT event_count, complete_count, flow_count, instant_count, counter_count FROM trace":
        [(11, 4, 2, 1, 1)],
    "SELECT memory_count, metadata_count, rejected_count, repaired_count FROM trace":
        [(1, 2, 0, 0)],
}  # fmt: skip


def test_rows_of_the_trace(load):
    loaded = load(kineto())
    assert {statement: loaded.sql(statement) for statement in ROWS} == ROWS
    ((metadata,),) = loaded.sql("SELECT metadata FROM trace")
    assert json.loads(metadata) == {**METADATA, "traceName": "/tmp/t.json"}


@pytest.mark.parametrize("formatting", FORMATTINGS)
def test_formattings(load, expected_rows, formatting):
    loaded = load(FORMATTINGS[formatting])
    assert loaded.everything() == expected_rows
    assert (loaded.rejected, loaded.repaired, loaded.truncation) == ([], [], None)
    assert loaded.sql("SELECT rank, base_time_ns, world_size FROM trace") == [
        (2, 1759253134000000000, 4)
    ]


@pytest.mark.parametrize("formatting", BARE_FORMATTINGS | OPEN_FORMATTINGS)
def test_bare_arrays(load, expected_rows, formatting):
    loaded = load((BARE_FORMATTINGS | OPEN_FORMATTINGS)[formatting])
    assert loaded.everything() == {**expected_rows, "device": [], "process_group": []}
    assert (loaded.rejected, loaded.repaired) == ([], [])
    is_open = formatting in OPEN_FORMATTINGS
    assert (loaded.truncation is not None) == is_open
    assert loaded.sql("SELECT rank, rank_source, base_time_ns, metadata FROM trace") == [
        (None, "unknown", 0, "{}")
    ]


@pytest.mark.parametrize("packing", PACKINGS)
def test_compression_is_known_by_content_not_by_name(load, expected_rows, packing):
    for name in ("trace.json", "trace.json.gz", "trace"):
        loaded = load(PACKINGS[packing](kineto().encode()), name)
        assert loaded.everything() == expected_rows
        assert (loaded.rejected, loaded.truncation) == ([], None)
        assert loaded.sql("SELECT text_bytes FROM trace") == [(len(kineto().encode()),)]


@pytest.mark.parametrize("formatting", FORMATTINGS | BARE_FORMATTINGS)
def test_block_boundaries(split, formatting):
    text = (FORMATTINGS | BARE_FORMATTINGS)[formatting].encode()
    if text.startswith(b"\xef\xbb\xbf"):
        text = b"   " + text[3:]  # ByteStream removes the byte order mark.
    whole = split(ONE_LINE.encode()).rows
    for block_bytes in (1, 64, 300, 1000):
        # A first chunk of this size also puts boundaries into the header.
        found = split(text, block_bytes=block_bytes, chunk_bytes=max(1, block_bytes // 3))
        if formatting != "members in another order":
            assert found.rows == whole
        assert len(found.rows) == len(EVENTS)
        assert (found.rejected, found.repaired, found.text.truncation) == ([], [], None)


def test_blocks_are_bounded(split):
    text = json.dumps({"traceEvents": [EVENTS[2]] * 2000}).encode()
    found = split(text, block_bytes=20_000, chunk_bytes=1000)
    assert len(found.rows) == 2000
    # The first block was read while searching for the array.
    assert found.largest_block <= 66_000 // len(json.dumps(EVENTS[2]))
    assert BLOCK_BYTES <= 8 << 20


def test_category_names_of_2021(load):
    loaded = load(
        """[
        {"ph":"X","cat":"Operator","name":"aten::mm","pid":1,"tid":"1","ts":1,"dur":9,
         "args":{"Device":1,"External id":4,"Trace name":"PyTorch Profiler"}},
        {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":1,"tid":"1","ts":2,"dur":3,
         "args":{"cbid":211,"correlation":12,"external id":4,"external ts":1}},
        {"ph":"X","cat":"Kernel","name":"volta_sgemm","pid":0,"tid":"stream 7","ts":5,"dur":7,
         "args":{"device":0,"stream":7,"correlation":12,"external id":4}},
        {"ph":"s","id":12,"pid":1,"tid":"1","ts":2,"cat":"async","name":"launch"}]"""
    )
    assert loaded.sql(
        "SELECT category, external_id, correlation, device, stream FROM event ORDER BY event_id"
    ) == [
        ("Operator", 4, None, None, None),
        ("Runtime", 4, 12, None, None),
        ("Kernel", 4, 12, 0, 7),
    ]
    threads = loaded.sql("SELECT pid, tid_text FROM thread ORDER BY ALL")
    assert threads == [(0, "stream 7"), (1, "1")]
    assert loaded.sql("SELECT flow_id FROM flow") == [(12,)]


def test_secrets_in_the_metadata_are_masked(load):
    trace = {
        "profiler": {"env": {"HF_TOKEN": "hf_abc", "HOME": "/root"}, "api_key": "sk-1"},
        "traceEvents": EVENTS,
    }
    ((metadata,),) = load(json.dumps(trace)).sql("SELECT metadata FROM trace")
    assert json.loads(metadata)["profiler"] == {
        "env": {"HF_TOKEN": "(redacted)", "HOME": "/root"},
        "api_key": "(redacted)",
    }
