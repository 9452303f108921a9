"""Exact figures of public traces, computed independently, in expected.json and here.

Comments name the different results of well-known tools.
"""

import os
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("TRACEKIT_PUBLIC_TRACES")
    or Path(__file__).resolve().parents[2] / "shared" / "traces"
)
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


# Figures of single traces; the comments say what other tools report.
REFERENCE = {
    # DeepEP kernels; HTA and TraceLens find no communication.
    "deepseek_train_h800": {"comm_ns": 113_440_000, "exposed_comm_ns": 4_186_000}
    | {"window_ns": 129_012_000, "overlapped_comm_pct": pytest.approx(96.3099, abs=1e-4)},
    # HTA drops the last step (4,876 events) and rounds to µs: 57 % too much idle time.
    "hta_resnet_v100_ns": {"event_count": 6_095, "idle_ns": 7_574_738},
    # TraceLens ignores kernels without a launch: 6,875 events, 69.0 % idle instead of 64.4 %.
    "hta_a100_cudagraph": {"event_count": 7_747},
    # HTA fails an assertion; TraceLens reports 1,198 events in 34.9 ms.
    "tl_h100_qwen": {"event_count": 1_707, "window_ns": 49_652_832},
    # TraceLens reports 2,604 events and 35.3 ms of exposed communication.
    "tl_mi300_resnet_ddp_recompute": {"event_count": 3_653, "exposed_comm_ns": 55_371_257},
    # Without flow events in the file, TraceLens finds no GPU events.
    "hta_sampled_rank0_noflows": {"rank": 0, "event_count": 1_204},
    # HTA counts the waits of cuda_sync as work: 12,929.684 ms.
    "hta_alexnet_cudasync": {"idle_ns": 12_854_103_000},
}


@pytest.mark.parametrize("file", [of_file(f"{name}.json.gz") for name in REFERENCE])
def test_reference_figures(opened, public_traces, file):
    expected = REFERENCE[file.removesuffix(".json.gz")]
    (row,) = opened(public_traces / file).query("timeline").to_dicts()
    assert {column: row[column] for column in expected} == expected
