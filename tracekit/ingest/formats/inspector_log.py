"""Reader of NCCL and RCCL inspector logs, in which each line is a JSON object for one collective.

Source of the format: ext-profiler/inspector of NCCL (format v4.0). The inspector does not write
every collective: once per interval, it writes the last collective that each communicator finished.
Lines become events of category `nccl_inspector`, which do not count as GPU work. Only verbose lines
contain the start of the collective; for other lines, the time of the line is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from tracekit.errors import TraceError
from tracekit.ingest.formats.event_texts import EventTextReader

if TYPE_CHECKING:
    from tracekit.ingest.event_collector import EventRows

_MAX_LINE_BYTES = 1 << 24
_MAJOR_VERSION = "v4"


class _Header(msgspec.Struct):
    id: str
    rank: int
    n_ranks: int
    nnodes: int | None = None


class _Metadata(msgspec.Struct):
    inspector_output_format_version: str
    dump_timestamp_us: int
    hostname: str | None = None
    pid: int = 0


class _Collective(msgspec.Struct):
    coll: str
    coll_sn: int
    coll_msg_size_bytes: int
    # Some writers write integers as 5663.0.
    coll_exec_time_us: float
    coll_algobw_gbs: float
    coll_busbw_gbs: float
    coll_timing_source: str | None = None
    event_trace_ts: dict[str, Any] | None = None


class _Line(msgspec.Struct):
    header: _Header
    metadata: _Metadata
    coll_perf: _Collective | None = None
    # Sends and receives have the same members with other names: p2p, p2p_sn, …
    p2p_perf: dict[str, Any] = {}


_line = msgspec.json.Decoder(_Line)


class InspectorReader(EventTextReader):
    def blocks(self) -> Iterator[EventRows]:
        yield from self._rows(map(self._event, self._lines()))

    def unreadable(self) -> TraceError:
        return TraceError(f"{self._stream.path}: no line from NCCL's inspector")

    def _lines(self) -> Iterable[bytes]:
        rest = b""
        for chunk in self._stream:
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _MAX_LINE_BYTES:
                raise TraceError(f"{self._stream.path}: a line of more than 16 MB")
            yield from filter(bytes.strip, lines)
        if rest.strip():
            yield rest

    def _event(self, text: bytes) -> bytes:
        """Convert a line to an event; for an unknown line, return invalid JSON, to be rejected."""
        try:
            line = _line.decode(text)
            sent = {key.replace("p2p", "coll", 1): one for key, one in line.p2p_perf.items()}
            run = line.coll_perf or msgspec.convert(sent, _Collective)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return b"!" + text
        header, metadata = line.header, line.metadata
        version = metadata.inspector_output_format_version
        if version.partition(".")[0] != _MAJOR_VERSION:
            raise TraceError(
                f"{self._stream.path}: unsupported format {version} of NCCL's inspector "
                f"log (supported: {_MAJOR_VERSION})"
            )
        if metadata.hostname is not None:
            self._metadata["host_name"] = metadata.hostname
        start_us = _first_kernel_start_us(run.event_trace_ts)
        return msgspec.json.encode(
            {
                "ph": "X",
                "cat": "nccl_inspector",
                "name": run.coll,
                "pid": metadata.pid,
                "tid": 0,
                "ts": start_us or metadata.dump_timestamp_us,
                "dur": run.coll_exec_time_us,
                "args": {
                    "comm": header.id,
                    "comm_rank": header.rank,
                    "group_size": header.n_ranks,
                    "node_count": header.nnodes,
                    "seq": run.coll_sn,
                    "is_numbered_apart": line.coll_perf is None,
                    "bytes": run.coll_msg_size_bytes,
                    "algorithm_gb_per_s": run.coll_algobw_gbs,
                    "bus_gb_per_s": run.coll_busbw_gbs,
                    "timing_source": run.coll_timing_source,
                    "has_start": start_us is not None,
                },
            }
        )


def _first_kernel_start_us(times: dict[str, Any] | None) -> int | None:
    kernels = (times or {}).get("kernel_events") or ()
    starts = [one.get("kernel_start_ts") for one in kernels if isinstance(one, dict)]
    return min((start for start in starts if isinstance(start, int) and start > 0), default=None)
