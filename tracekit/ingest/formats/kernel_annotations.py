"""Adds annotations from a file next to a trace to the CUDA graph kernels of the trace.

Before torch wrote annotations into the trace, programs saved a mapping of graph node ids to lists
of annotations, `kernel_annotations_rank0_NAME.pkl` or `.json` (torch/cuda/_graph_annotations.py and
_annotate_cuda_graph_trace.py of PyTorch). The annotations of a node are merged, and later ones take
precedence; annotations in the trace take precedence over all. A string is the name of a scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tracekit.errors import TraceError
from tracekit.ingest.budget import Budget
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.formats.pickled_trace import complete_text
from tracekit.ingest.formats.plain_pickle import read_plain
from tracekit.ingest.sources import ANNOTATIONS

if TYPE_CHECKING:
    import duckdb

    from tracekit.storage import Place

_ADD = """
UPDATE record SET args = json_merge_patch(noted.args, record.args)
FROM (
    SELECT row[1]::BIGINT AS node_id, row[2] AS args
    FROM (SELECT unnest(from_json($rows, '[["VARCHAR"]]')) AS row)
) AS noted, trace
WHERE
    record.trace_id = trace.trace_id
    AND (trace.rank = $rank OR (trace.rank IS NULL AND (SELECT count(*) FROM trace) = 1))
    AND contains(record.args, '"graph node id"')
    AND try_cast(record.args ->> '$."graph node id"' AS BIGINT) = noted.node_id
"""


def join_annotations(connection: duckdb.DuckDBPyConnection, path: Place) -> None:
    """Add annotations to the arguments of kernels, copies, and memsets of replayed graphs."""
    stream = ByteStream(path)
    text = complete_text(stream)
    try:
        is_pickle = text[:1] == b"\x80"
        content = read_plain(text, Budget(stream)) if is_pickle else msgspec.json.decode(text)
        rows = [*_rows(content)]
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise TraceError(
            f"{path}: no kernel annotations by graph node id: {type(error).__name__} at {error}"
        ) from error
    match = re.fullmatch(ANNOTATIONS, path.name)
    rank = int(match[1]) if match else 0
    connection.execute(_ADD, {"rows": msgspec.json.encode(rows).decode(), "rank": rank})


def _rows(content: Any) -> Iterator[tuple[str, str]]:
    items: Mapping[Any, Sequence[Any]] = content
    for node, noted in items.items():
        merged: dict[str, Any] = {}
        for one in noted if isinstance(noted, (list, tuple)) else [noted]:
            merged |= {"name": one} if isinstance(one, str) else one
        yield str(int(node)), msgspec.json.encode(merged).decode()
