"""Every member of an event is stored, with or without a column."""

import json

import pytest

BASE = {"pid": 1, "tid": 2, "ts": 3, "name": "n", "cat": "c"}
TABLE = {"X": "event", "C": "counter", "M": "metadata"}
TABLE |= dict.fromkeys("stf", "flow") | dict.fromkeys("iIR", "instant")


@pytest.mark.parametrize("phase", TABLE)
def test_members_without_a_column_are_stored(load, phase):
    more = {"tts": 5, "cname": "good", "sf": [1, {"a": None}], "Name": "other", "é": "ü"}
    event = {"ph": phase, **BASE, "dur": 1, "id": 4, **more, "args": {"a": [1, 2.50, "x"]}}
    loaded = load(json.dumps([event, {"ph": phase, **BASE, "dur": 1, "id": 5}]))
    (first, second) = loaded.sql(f"SELECT extra, args FROM {TABLE[phase]} ORDER BY event_id")
    extra = json.loads(first[0])
    assert {key: extra[key] for key in more} == more
    assert json.loads(first[1]) == {"a": [1, 2.5, "x"]}
    if phase == "X":
        assert (extra["id"], json.loads(second[0])) == ("4", {"id": "5"})
    else:
        assert second == (None, None)


def test_a_non_numeric_flow_id_is_stored(load):
    loaded = load(json.dumps([{"ph": "s", **BASE, "id": "a7f"}, {"ph": "f", **BASE, "id": "12"}]))
    assert loaded.sql("SELECT flow_id, extra ->> '$.id' FROM flow") == [(None, "a7f"), (12, None)]


@pytest.mark.parametrize(
    "text",
    ["a\0b", "\x1b[31m", "é\u2028\U0001f600", "'; DROP TABLE event; --", "", " ", '"\\', "\ufeff"],
)
def test_any_text_survives(load, text):
    event = {"ph": "X", **BASE, "name": text, "cat": text, "dur": 1, "args": {"k": text, text: 1}}
    loaded = load(json.dumps({"host_name": text, "traceEvents": [event]}))
    assert loaded.sql("SELECT name, category FROM event") == [(text, text)]
    ((args,),) = loaded.sql("SELECT args::VARCHAR FROM event")
    assert json.loads(args) == {"k": text, text: 1}
    assert loaded.sql("SELECT host_name FROM trace") == [(text,)]


EVENT = {"ph": "X", **BASE, "dur": 1}


@pytest.mark.parametrize(
    ("metadata", "columns", "values"),
    [
        ({"baseTimeNanoseconds": 2**63 - 1}, "base_time_ns", (2**63 - 1,)),
        ({"baseTimeNanoseconds": 2**70}, "base_time_ns", (0,)),
        ({"baseTimeNanoseconds": "17"}, "base_time_ns", (17,)),
        ({"baseTimeNanoseconds": None}, "base_time_ns", (0,)),
        ({"baseTimeNanoseconds": float("inf")}, "base_time_ns", (0,)),
        ({"distributedInfo": {"rank": 3, "world_size": 2**40}}, "rank, world_size", (3, None)),
        ({"distributedInfo": {"rank": 2**40, "world_size": 8}}, "rank, world_size", (None, 8)),
        ({"distributedInfo": {"rank": 2**80, "world_size": -(2**80)}}, "rank", (None,)),
        ({"distributedInfo": {"rank": -1, "world_size": -1}}, "rank, world_size", (None, None)),
        ({"distributedInfo": {"rank": 0, "world_size": 0}}, "rank, world_size", (0, None)),
        ({"distributedInfo": [1, 2]}, "rank, world_size, backend", (None, None, None)),
        ({"distributedInfo": {"backend": ["nccl"]}}, "backend", ('["nccl"]',)),
        ({"host_name": "\ud800x"}, "host_name", ("\ufffdx",)),
        ({"host_name": 5}, "host_name", ("5",)),
        ({"record_shapes": "yes", "with_stack": True, "with_flops": "1"}, "with_stack", (True,)),
        (
            {"displayTimeUnit": "ns", "trace_id": "AB"},
            "display_time_unit, trace_uuid",
            ("ns", "AB"),
        ),
    ],
)
def test_odd_metadata_is_no_error(load, metadata, columns, values):
    loaded = load(json.dumps({**metadata, "traceEvents": [EVENT]}))
    assert loaded.sql(f"SELECT {columns} FROM trace") == [values]
    assert loaded.sql("SELECT event_count, rejected_count FROM trace") == [(1, 0)]


@pytest.mark.parametrize(
    "value",
    [
        2**70,
        float("nan"),
        "�",
        "a\x00b",
        [[[]]],
        {"traceEvents": [1]},
        "traceEvents",
        1e300,
        '"traceEvents":[',
        [{"traceEvents": []}, {"x": '"traceEvents": [{'}],
    ],
)
def test_all_metadata_is_stored(load, value):
    for trace in ({"traceEvents": [EVENT], "x": value}, {"x": value, "traceEvents": [EVENT]}):
        loaded = load(json.dumps(trace))
        assert loaded.names == ["n"]
        ((kept,),) = loaded.sql("SELECT metadata::VARCHAR FROM trace")
        assert json.loads(kept) == {"x": None if value != value else value}
        assert loaded.rejected == []


def test_devices_and_groups_with_odd_values(load):
    devices = [
        {"id": 0, "name": "A", "totalGlobalMem": 2**64, "numSms": 2**40},
        {"id": "1", "name": None, "computeMajor": 9, "computeMinor": 0},
        {"id": 2**70},
        "no device",
    ]
    groups = [
        {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 8, "ranks": [0, 1]},
        {"pg_name": 1, "pg_size": 2**40, "ranks": "[0, 1, ..., 7]"},
        None,
    ]
    top = {"deviceProperties": devices, "distributedInfo": {"pg_config": groups}}
    loaded = load(json.dumps({**top, "traceEvents": [EVENT]}))
    assert loaded.sql("SELECT device_id, name, total_memory_bytes, sm_count FROM device") == [
        (0, "A", None, None),
        (1, None, None, None),
        (None, None, None, None),
    ]
    assert loaded.sql("SELECT compute_capability FROM device WHERE device_id = 1") == [("9.0",)]
    assert loaded.sql("SELECT pg_name, pg_size, ranks FROM process_group") == [
        ("0", 8, "[0,1]"),
        ("1", None, '"[0, 1, ..., 7]"'),
    ]
