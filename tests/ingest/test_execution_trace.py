"""An execution trace adds shapes and tensors to the ops of the trace recorded with it."""

import gzip
import json

import pytest
from traces_by_hand import span

import tracekit
from tracekit.errors import TraceError
from tracekit.opening import ingest

FLOAT, WHOLE = "Tensor(float)", "GenericList[Int,Int]"

A, B, MADE = [3, 1, 0, 6, 4, "cpu"], [4, 2, 0, 12, 4, "cpu"], [9, 8, 0, 8, 4, "cpu"]


def newer(number, name, given, made):
    """Return a node of schema 1.1.1: values, shapes, types and strides of either side."""
    keys = ("values", "shapes", "types", "strides")
    return {
        "id": 20 + number,
        "name": name,
        "ctrl_deps": 2,
        "inputs": dict(zip(keys, given, strict=True)),
        "outputs": dict(zip(keys, made, strict=True)),
        "attrs": [{"name": "rf_id", "type": "uint64", "value": number}],
    }


GIVEN = [
    [A, B, 2, True, [1, 1], "<None>", "cpu"],
    [[2, 3], [3, 4], [], [], [[], []], [], []],
    [FLOAT, FLOAT, "Int", "Bool", WHOLE, "None", "Device"],
    [[3, 1], [4, 1], [], [], [[], []], [], []],
]
NODES = [
    newer(0, "[pytorch|profiler|execution_trace|thread]", [[]] * 4, [[]] * 4),
    newer(5, "aten::mm", GIVEN, [[MADE], [[2, 4]], [FLOAT], [[4, 1]]]),
]
OLDER = {
    "name": "aten::mm", "id": 25, "rf_id": 5, "inputs": [A, B], "input_shapes": [[2, 3], [3, 4]],
    "input_types": [FLOAT, FLOAT], "outputs": [MADE], "output_shapes": [[2, 4]],
    "output_types": [FLOAT],
}  # fmt: skip


def written(folder, nodes, schema="1.1.1-chakra.0.0.4", pid=1):
    path = folder / "et.json"
    path.write_text(json.dumps({"schema": schema, "pid": pid, "time": "", "nodes": nodes}))
    return path


def joined(folder, trace, beside):
    store = ingest([trace, beside], folder / "a.duckdb", force=True)
    with tracekit.open(store) as opened:
        ((args,),) = opened.sql("SELECT args::VARCHAR FROM event WHERE category = 'cpu_op'").rows
        (op,) = opened.query("op_arguments").to_dicts()
    found = json.loads(args)
    assert op["shapes"] == json.dumps(found["Input Dims"]).replace(" ", "")
    return found


def test_missing_arguments_are_added(tmp_path, tiny_trace):
    trace = tiny_trace([span("cpu_op", "aten::mm", 1, 9, **{"Record function id": 5, "x": 1})])
    assert joined(tmp_path, trace, written(tmp_path, NODES)) == {
        "Record function id": 5,
        "x": 1,
        "Input Dims": [[2, 3], [3, 4], [], [], [], [], []],
        "Input type": ["float", "float", "Scalar", "Scalar", "ScalarList", "", ""],
        "Input Strides": [[3, 1], [4, 1], [], [], [], [], []],
        "Concrete Inputs": ["", "", "2", "True", "[1, 1]", "", ""],
        "Output Dims": [[2, 4]],
        "Input tensors": [3, 4, None, None, None, None, None],
        "Output tensors": [9],
    }


def test_a_compressed_file_is_part_of_the_cache_key(tmp_path, tiny_trace):
    trace = tiny_trace([span("cpu_op", "aten::mm", 1, 9, **{"Record function id": 5})])
    beside = tmp_path / "et.json.gz"
    beside.write_bytes(gzip.compress(written(tmp_path, NODES).read_bytes()))
    shapes = """SELECT args ->> '$."Output Dims"' FROM event WHERE category = 'cpu_op'"""
    for given, found in (([trace], None), ([trace, beside], "[[2,4]]")):
        with tracekit.open(*given) as opened:
            assert opened.sql(shapes).rows == [(found,)]
            added = opened.query("trace").to_dicts()[0]["execution_trace"]
            assert (added is None) == (found is None)


def test_recorded_arguments_stay(tmp_path, tiny_trace):
    own = {"External id": 5, "Input Dims": [[7, 3], [3, 4]]}
    trace = tiny_trace([span("cpu_op", "aten::mm", 1, 9, **own)])
    # A node of Triton's: its last argument has no strides.
    short = newer(6, "triton_", [[A, 5], [[2, 3], []], [FLOAT, "Int"], [[3, 1]]], [[]] * 4)
    found = joined(tmp_path, trace, written(tmp_path, [OLDER, short], schema="1.0.1"))
    assert (found["Input Dims"], found["Output Dims"]) == ([[7, 3], [3, 4]], [[2, 4]])


def test_an_execution_trace_that_does_not_fit_is_refused(tmp_path, tiny_trace):
    trace = tiny_trace([span("cpu_op", "aten::mm", 1, 9, **{"Record function id": 5})])
    other = OLDER | {"name": "aten::add"}
    for nodes, more, word in (
        ([other], {}, "aten::add"),
        ([OLDER], {"pid": 9}, "process 9"),
        ([OLDER], {"schema": "2.0"}, "schema 2.0"),
        ([{"name": "x", "rf_id": 3}], {}, "inputs"),
        ([OLDER | {"rf_id": 1 << 70}], {}, "ExecutionTraceObserver"),
        (7, {}, "ExecutionTraceObserver"),
    ):
        path = written(tmp_path, nodes, **more)
        with pytest.raises(TraceError, match=word):
            ingest([trace, path], tmp_path / "a.duckdb")
        assert not (tmp_path / "a.duckdb").exists()


def test_two_traces_of_one_process_are_refused(tmp_path, tiny_trace):
    trace = tiny_trace([span("cpu_op", "aten::mm", 1, 9, **{"Record function id": 5})])
    other = trace.with_name("other.json")
    other.write_bytes(trace.read_bytes())
    with pytest.raises(TraceError, match="process 1"):
        ingest([trace, other, written(tmp_path, NODES)], tmp_path / "a.duckdb")


def test_an_execution_trace_alone_is_refused_with_a_hint(tmp_path):
    path = written(tmp_path, NODES)
    with pytest.raises(TraceError) as raised:
        tracekit.open(path)
    assert "et.json" in str(raised.value.hint)
