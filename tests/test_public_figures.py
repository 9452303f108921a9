"""Exact figures of public traces, computed independently, in expected.json."""

import pytest
from every_trace import FOLDER

FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.json.gz"))

GATE = {
    *("cpu_llama_lora", "deepseek_train_h800", "hta_alexnet_cudasync", "hta_mi250_toy_train"),
    *("hta_sampled_rank0_noflows", "tl_mi300_sglang_decode_graph"),
}
"""Traces of the gate: CPU, communication, waits, AMD, no flow events, and CUDA graphs."""


def of_file(name):
    """Return the parameter of a test of a trace."""
    short = name.removesuffix(".json.gz")
    marks = [] if short in GATE else [pytest.mark.nightly("the gate has one trace of each kind")]
    return pytest.param(name, marks=marks, id=short)


def test_there_is_a_figure_for_every_trace(expected):
    assert sorted(expected) == FILES


@pytest.mark.parametrize("file", [of_file(name) for name in FILES])
def test_figures(opened, public_traces, expected, file):
    figures = expected[file]
    trace = opened(public_traces / file)
    counted = trace.sql("SELECT category, count(*) FROM event GROUP BY category").rows
    assert dict(counted) == figures["complete_by_cat"]
    assert trace.sql(
        "SELECT event_count, complete_count, rejected_count, repaired_count, is_truncated "
        "FROM trace"
    ).rows == [(figures["events"], sum(figures["complete_by_cat"].values()), 0, 0, False)]
    tables = ("event", "flow", "instant", "counter", "memory", "metadata")
    together = " + ".join(f"(SELECT count(*) FROM {table})" for table in tables)
    assert trace.sql(f"SELECT {together}").rows == [(figures["events"],)]
    assert trace.sql(
        "SELECT count(*), coalesce(sum(dur_ns), 0)::BIGINT FROM device_events WHERE device <> 'cpu'"
    ).rows == [(figures["device_events"], figures["device_time_sum_ns"])]
    # Little time is unclassified.
    ((total_ns, other_ns),) = trace.sql(
        "SELECT coalesce(sum(dur_ns), 0), coalesce(sum(dur_ns) FILTER (class = 'other'), 0) "
        "FROM device_events"
    ).rows
    assert other_ns <= 0.01 * total_ns
    rows, timeline = trace.query("timeline").to_dicts(), figures["timeline_ns"]
    if timeline is None:
        # Without an accelerator in the file, the CPU is the device.
        assert {row["device"] for row in rows} <= {"cpu"}
        return
    (row,) = rows
    assert row["event_count"] == figures["device_events"]
    names = {"total": "window"} | {name: name for name in timeline if name != "total"}
    assert {name: row[f"{column}_ns"] for name, column in names.items()} == timeline


@pytest.mark.nightly("reads eight traces")
def test_the_eight_ranks_of_a_run(opened, public_traces, expected):
    trace = opened(public_traces / "param_dlrm_8ranks")
    rows = trace.query("timeline").to_dicts()
    names = sorted(name for name in expected if name.startswith("param_dlrm_8ranks/"))
    assert [row["rank"] for row in rows] == list(range(8))
    for row, name in zip(rows, names, strict=True):
        right = expected[name]["timeline_ns"]
        assert (row["idle_ns"], row["comm_ns"], row["window_ns"]) == (
            right["idle"],
            right["comm"],
            right["total"],
        )
