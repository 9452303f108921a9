"""Joins a Chakra execution trace (torch's ExecutionTraceObserver) to a Kineto trace.

Source of the format: torch/csrc/profiler/standalone/execution_trace_observer.cpp of PyTorch,
schemas 1.x. The values, shapes, and types of a node are members of the node (1.0.1) or of its
inputs and outputs (later, with strides since 1.1.1). Ids are members of the node or of `attrs`. The
format has no times. Ops are matched by process and RecordFunction number, which is `rf_id` here,
`Record function id` in a Kineto trace, and `External id` in an older Kineto trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from tracekit.errors import TraceError
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.formats.pickled_trace import complete_text

if TYPE_CHECKING:
    import duckdb

    from tracekit.storage import Place

_MAJOR_VERSION = "1"

_ROWS_AT_ONCE = 10_000

_JOINED = """
SELECT
    count(*),
    first(
        'op ' || node.id || ' is ' || event.name || ' in the trace, but ' || node.name
        || ' in the execution trace' ORDER BY node.id
    ) FILTER (event.name <> node.name),
    count(DISTINCT event.trace_id)
FROM node
INNER JOIN event ON
    event.pid = $pid AND event.category = 'cpu_op'
    AND node.id = coalesce(
        try_cast(event.args ->> '$."Record function id"' AS BIGINT), event.external_id
    )
"""

_GAIN = """
UPDATE trace SET metadata = json_merge_patch(coalesce(metadata, '{}'), json_object(
    'tracekit_execution_trace', gain.text
))
FROM (
    SELECT
        trace_id,
        format(
            'shapes of {:,}, strides of {:,}, outputs of {:,} ops',
            count(*) FILTER (NOT contains(coalesce(event.args, ''), '"Input Dims"')),
            count(*) FILTER (
                contains(node.args, '"Input Strides"')
                AND NOT contains(coalesce(event.args, ''), '"Input Strides"')
            ),
            count(*) FILTER (NOT contains(coalesce(event.args, ''), '"Output Dims"'))
        ) AS text
    FROM node
    INNER JOIN event ON
        event.pid = $pid AND event.category = 'cpu_op'
        AND node.id = coalesce(
            try_cast(event.args ->> '$."Record function id"' AS BIGINT), event.external_id
        )
    GROUP BY trace_id
) AS gain
WHERE trace.trace_id = gain.trace_id
"""

_ADD = """
UPDATE record SET args = json_merge_patch(node.args, record.args)
FROM node
WHERE
    record.pid = $pid AND record.category = 'cpu_op'
    AND node.id = coalesce(
        try_cast(record.args ->> '$."Record function id"' AS BIGINT), record.external_id
    )
"""
"""SQL that adds values that the Kineto trace lacks."""


def join_execution_trace(connection: duckdb.DuckDBPyConnection, path: Place) -> None:
    """Add shapes, types, strides, values, and tensors to the arguments of ops that lack them."""
    import duckdb

    try:
        content = msgspec.json.decode(complete_text(ByteStream(path)))
        version, pid = content["schema"], int(content["pid"])
        if str(version).partition(".")[0] != _MAJOR_VERSION:
            raise TraceError(
                f"{path}: unsupported schema {version} of an execution trace",
                hint="supported: schemas 1.x",
            )
        connection.execute("CREATE OR REPLACE TEMP TABLE node (id BIGINT, name TEXT, args TEXT)")
        nodes = _rows(content["nodes"])
        while rows := [*islice(nodes, _ROWS_AT_ONCE)]:
            connection.execute(
                "INSERT INTO node SELECT row[1]::BIGINT, row[2], row[3] "
                "FROM (SELECT unnest(from_json($rows, '[[\"VARCHAR\"]]')) AS row)",
                {"rows": msgspec.json.encode(rows).decode()},
            )
    except (
        *(LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError),
        duckdb.DataError,
    ) as error:
        raise TraceError(
            f"{path}: not an execution trace of torch's ExecutionTraceObserver: "
            f"{type(error).__name__} at {error}"
        ) from error
    row = connection.execute(_JOINED, {"pid": pid}).fetchone() or (0, None, 0)
    if row[0] == 0 or row[1] is not None:
        unlike = row[1] or f"they have no op of process {pid} in common"
        raise TraceError(
            f"{path}: the execution trace does not match the trace: {unlike}",
            hint="record both together: "
            "profile(execution_trace_observer=ExecutionTraceObserver()), with a torch version that "
            "writes `Record function id`; others may renumber the ops",
        )
    if row[2] > 1:
        raise TraceError(
            f"{path}: {row[2]} of the traces have a process {pid}",
            hint="open only the trace that it was recorded with",
        )
    connection.execute(_GAIN, {"pid": pid})
    connection.execute(_ADD, {"pid": pid})
    connection.execute("DROP TABLE node")


def _rows(nodes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str, str]]:
    """Yield the RecordFunction number, name, and arguments (as in torch.profiler) of each op."""
    for node in nodes:
        own = {one["name"]: one["value"] for one in node.get("attrs", ())}
        number = node["rf_id"] if "rf_id" in node else own["rf_id"]
        inputs, outputs = _side(node, "input"), _side(node, "output")
        args = {
            "Input Dims": _of_tensors(inputs["shapes"], inputs["types"]),
            "Input type": [*map(_torch_type, inputs["types"])],
            "Input Strides": _of_tensors(inputs.get("strides"), inputs["types"]),
            "Concrete Inputs": [
                _value(value, kind)
                for value, kind in zip(inputs["values"], inputs["types"], strict=True)
            ],
            "Output Dims": outputs["shapes"],
            "Input tensors": _tensors(inputs),
            "Output tensors": _tensors(outputs),
        }
        if number and inputs["types"]:
            known = {key: value for key, value in args.items() if value is not None}
            yield number, node["name"], msgspec.json.encode(known).decode()


def _side(node: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    result = node[f"{side}s"]
    if isinstance(result, Mapping):
        return result
    return {"values": result, "shapes": node[f"{side}_shapes"], "types": node[f"{side}_types"]}


def _of_tensors(
    sizes: Sequence[Sequence[object]] | None, types: Sequence[str]
) -> list[Sequence[object]] | None:
    """Return the shapes or strides of inputs; inputs other than tensors get an empty list.

    Return None if they cannot be assigned to inputs, as for Triton kernels, whose stream argument
    has no strides.
    """
    if sizes is None or len(sizes) != len(types):
        return None
    return [size if "Tensor" in kind else [] for size, kind in zip(sizes, types, strict=True)]


def _torch_type(kind: str) -> str:
    if kind.startswith("Tensor("):
        return kind[7:-1]
    if kind.startswith("GenericList["):
        return "TensorList" if "Tensor" in kind else "ScalarList"
    return "Scalar" if kind in ("Int", "Double", "Bool") else ""


def _value(value: object, kind: str) -> str:
    """Return the value of an argument as Python writes it; "" for tensors, devices, and None."""
    return "" if "Tensor" in kind or kind in ("None", "Device") else str(value)


def _tensors(side: Mapping[str, Any]) -> list[int | None]:
    """Return the id of each tensor, by which ops share tensors; None for other values."""
    return [
        value[0] if kind.startswith("Tensor(") else None
        for value, kind in zip(side["values"], side["types"], strict=True)
    ]
