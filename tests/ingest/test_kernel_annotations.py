"""Annotations of CUDA graph kernels in files next to a trace."""

import gzip
import json
import pickle

import pytest
from traces_by_hand import call, kernel

import tracekit
from tracekit.errors import TraceError

NODE = 3 << 32
NOTED = {
    NODE: [{"module_fqn": "layers.0.wq", "name": "layers.0.wq"}],
    NODE + 1: [{"module_fqn": "layers.0.w1", "autograd_phase": "backward"}],
    NODE + 2: ["sampling"],
    NODE + 9: [{"module_fqn": "never.ran"}],
}
CONTEXT = (
    "SELECT e.name, phase, coalesce(m.path, row_name), op_name FROM attributed_events AS e "
    "LEFT JOIN module AS m USING (trace_id, module_id) ORDER BY ts_ns"
)
EXPECTED = [
    ("gemm_0", "forward", "layers.0.wq", None),
    ("gemm_1", "backward", "layers.0.w1", None),
    ("k", "other", "(unattributed)", "sampling"),
]


def replay():
    names = ["gemm_0", "gemm_1", "k"]
    return [
        call(0, 2, 1, "cudaGraphLaunch"),
        *(
            kernel(name, 10 + 2 * n, 11 + 2 * n, 1, **{"graph node id": NODE + n})
            for n, name in enumerate(names)
        ),
    ]


def as_json(noted):
    return json.dumps({str(node): one for node, one in noted.items()}).encode()


def test_kernels_have_module_phase_and_scope(tiny_trace):
    """The file lies next to the trace or in the parent folder, and is part of the cache key."""
    path = tiny_trace(replay(), name="step_14/rank0.json")
    with tracekit.open(path) as trace:
        assert [row[2] for row in trace.sql(CONTEXT).rows] == 3 * ["(unattributed)"]
    for file, data, given in (
        (path.parent / "kernel_annotations_rank0_fwd_bwd.pkl", pickle.dumps(NOTED), path),
        (
            path.parent.parent / "kernel_annotations_rank0_step.json.gz",
            gzip.compress(as_json(NOTED)),
            path.parent,
        ),
    ):
        file.write_bytes(data)
        with tracekit.open(given) as trace:
            assert trace.sql(CONTEXT).rows == EXPECTED
        file.unlink()


def test_annotations_of_another_rank_are_ignored(tiny_trace):
    path = tiny_trace(replay(), name="rank0.json")
    (path.parent / "kernel_annotations_rank1_a.json").write_bytes(as_json(NOTED))
    with tracekit.open(path, cache=False) as trace:
        assert [row[2] for row in trace.sql(CONTEXT).rows] == 3 * ["(unattributed)"]


@pytest.mark.parametrize("data", [b"[]", b"{", b'{"x": []}', b'{"1": [5]}', b"\x80\x04."])
def test_an_invalid_annotation_file_is_named(tiny_trace, data):
    path = tiny_trace(replay(), name="rank0.json")
    (path.parent / "kernel_annotations_rank0_a.json").write_bytes(data)
    with pytest.raises(TraceError, match="kernel_annotations_rank0_a"):
        tracekit.open(path, cache=False)
