"""Logs of NCCL's inspector in the form that its source code writes."""

import json

import pytest

import tracekit
from tracekit.errors import TraceError

START_US = 1_750_000_000_000_000


def line(seq, collective, size, time_us, factor, **given):
    """Return a line with the bandwidth of inspectorComputeCollBw; factor: bus bytes per size."""
    bus = size * factor / 1e9 / (time_us / 1e6)
    metadata = {"inspector_output_format_version": given.pop("version", "v4.0"), "git_rev": ""}
    metadata |= {"dump_timestamp_us": START_US + seq * 1000, "hostname": "node1", "pid": 77}
    performance = {"coll": collective, "coll_sn": seq, "coll_msg_size_bytes": size}
    performance |= {"coll_exec_time_us": time_us, "coll_algobw_gbs": 1}
    performance |= {"coll_busbw_gbs": round(bus, 6), **given}
    header = {"id": "0x7f8c496ae9f661", "rank": 2, "n_ranks": 8, "nnodes": 1}
    return json.dumps({"header": header, "metadata": metadata, "coll_perf": performance})


def test_lines_of_sends(tmp_path):
    """RCCL's multi-node all-gathers write them; some versions write whole times as fractions."""
    send = json.loads(line(3, "Send", 500, 20, 1))
    send["p2p_perf"] = {
        key.replace("coll", "p2p"): value for key, value in send.pop("coll_perf").items()
    } | {"p2p_peer": 1}
    whole = line(1409, "AllReduce", 800, 10, 2 * 7 / 8).replace(": 10,", ": 10.0,")
    path = tmp_path / "node1-pid77.log"
    path.write_text("\n".join([whole, json.dumps(send)]))
    with tracekit.open(path, cache=False) as trace:
        rows = trace.query("inspected_collectives").to_dicts()
        rejected = trace.sql("SELECT count(*) FROM rejected").rows
    found = [(row["collective"], row["spanned_count"], row["time_ns"]) for row in rows]
    assert (found, rejected) == ([("Send", 1, 20_000), ("AllReduce", 1, 10_000)], [(0,)])


def test_bandwidths_match_the_log(tmp_path):
    """Sizes and times of an all-reduce and a reduce-scatter match NCCL's README."""
    kernels = [{"channel_id": 0, "kernel_start_ts": START_US - 7, "kernel_stop_ts": START_US}]
    verbose = {
        "coll_timing_source": "kernel_gpu",
        "event_trace_ts": {"coll_start_ts": START_US - 9, "kernel_events": kernels},
    }
    lines = [
        line(1407, "AllReduce", 17179869184, 61974, 2 * 7 / 8),
        line(1409, "AllReduce", 17179869184, 123948, 2 * 7 / 8),
        line(1410, "ReduceScatter", 2147483648, 41057, 7, **verbose),
        line(1411, "AllGather", 1000, 10, 7),
        line(1416, "Broadcast", 1000, 10, 1),
        line(1417, "Send", 500, 20, 1),
    ]
    path = tmp_path / "node1-pid77.log"
    path.write_text("\n".join([*lines, lines[0][:50]]))
    with tracekit.open(path, cache=False) as trace:
        rows = trace.query("inspected_collectives").to_dicts()
        assert [*trace.sql("SELECT host_name, event_count, rejected_count FROM trace")] == [
            ("node1", 6, 1)
        ]
        assert [*trace.sql("SELECT ts_ns FROM event WHERE name = 'ReduceScatter'")] == [
            ((START_US - 7) * 1000,)
        ]
    assert {row["spanned_count"] for row in rows} == {11}
    for row in rows:
        assert row["bus_bytes_per_s"] == pytest.approx(row["stated_bus_bytes_per_s"], rel=1e-4)
    found = {row["collective"]: row for row in rows}
    assert found["AllReduce"]["bus_bytes_per_s"] == pytest.approx(485.119e9 * 2 / 3, rel=1e-5)
    assert found["AllReduce"]["algorithm_bytes_per_s"] == pytest.approx(277.211e9 * 2 / 3, rel=1e-5)
    assert found["ReduceScatter"]["bus_bytes_per_s"] == pytest.approx(366.134533e9, rel=1e-8)
    assert found["ReduceScatter"]["algorithm_bytes_per_s"] == pytest.approx(418.439467e9, rel=1e-8)
    assert found["ReduceScatter"]["timing_source"] == "kernel_gpu"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (line(1, "AllReduce", 8, 1, 1.75, version="v5.0"), r"v5\.0"),
        ('{"header":{"id":"0x1","rank":0', "inspector"),
    ],
    ids=["another version", "no complete line"],
)
def test_unreadable_logs_are_refused(tmp_path, text, word):
    (tmp_path / "a.log").write_text(text)
    with pytest.raises(TraceError, match=word):
        tracekit.open(tmp_path / "a.log", cache=False)
