"""A new trace format takes one reader and one entry in FORMATS."""

import csv
import gzip
import io

import pytest
from traces_by_hand import call, kernel

import tracekit
from tracekit.errors import TraceError
from tracekit.ingest import trace_readers
from tracekit.ingest.event_collector import EventRows, event_columns
from tracekit.ingest.event_reader import ROW_COLUMNS
from tracekit.ingest.faults import Faults
from tracekit.ingest.trace_readers import Format

EVENTS = [call(0, 2, 1), kernel("ampere_sgemm_128x64_nn", 5, 15, 1), call(20, 21, 2)]

HEAD = "#events"


class CsvReader:
    """Reads lines of category, name, tid, start and end in ns, correlation."""

    truncation = None

    def __init__(self, stream):
        self._stream = stream
        self.event_count = 0
        self.faults = Faults()

    def blocks(self):
        text = b"".join(self._stream).decode()
        columns = event_columns()
        for line in csv.reader(io.StringIO(text.removeprefix(HEAD + "\n"))):
            (category, name), (tid, start, end, correlation) = line[:2], map(int, line[2:])
            row = {"event_id": self.event_count, "view_name": "event", "ph": "X", "pid": 1}
            row |= {"tid": tid, "category": category, "name": name, "correlation": correlation}
            row |= {"ts_ns": start, "dur_ns": end - start}
            row |= {"device": 0, "stream": 7} if category == "kernel" else {}
            self.event_count += 1
            columns.append(tuple(row.get(column) for column in ROW_COLUMNS))
            array = columns.take()
            yield EventRows(1, array, columns.stream)

    def metadata(self):
        return {"distributedInfo": {"rank": 3, "world_size": 4}}

    def unreadable(self):
        return TraceError(f"{self._stream.path}: no line")


@pytest.fixture
def lines():
    added = Format("lines", (".csv",), HEAD.encode(), CsvReader)
    others = [*trace_readers.FORMATS]
    trace_readers.FORMATS.insert(0, added)
    yield
    trace_readers.FORMATS[:] = others


def text_of(*rows):
    return "\n".join([HEAD, *rows]).encode() + b"\n"


@pytest.mark.usefixtures("lines")
def test_a_format_is_known_by_its_first_bytes(tmp_path, tiny_trace):
    text = text_of(
        "cuda_runtime,cudaLaunchKernel,2,0,2000,1",
        "kernel,ampere_sgemm_128x64_nn,7,5000,15000,1",
        "cuda_runtime,cudaLaunchKernel,2,20000,21000,2",
    )
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "rank3.csv").write_bytes(text)
    (tmp_path / "lines.json.gz").write_bytes(gzip.compress(text))
    with tracekit.open(tiny_trace(EVENTS), cache=False) as trace:
        kernels = trace.query("kernels").to_dicts()
        wanted = [row | {"rank": 3} for row in kernels]
    for name in ("run", "lines.json.gz"):
        with tracekit.open(tmp_path / name, cache=False) as trace:
            assert trace.query("kernels").to_dicts() == wanted
            assert trace.query("trace").to_dicts()[0]["world_size"] == 4


@pytest.mark.usefixtures("lines")
def test_the_reader_makes_the_error(tmp_path):
    (tmp_path / "trace.json").write_bytes(text_of())
    with pytest.raises(TraceError, match="no line"):
        tracekit.open(tmp_path / "trace.json", cache=False)
