"""Inputs of public bug reports, with the expected answers; skipped without their folder.

`TRACEKIT_FIELD_CASES` names the folder; the default is `../shared/field` next to the repository.
"""

import os
import re
from pathlib import Path

import pytest
from traces_by_hand import kernel

import tracekit
from tracekit.cli._main import main

FOLDER = Path(
    os.environ.get("TRACEKIT_FIELD_CASES")
    or Path(__file__).resolve().parents[2] / "shared" / "field"
)

PHASES = "SELECT phase, sum(dur_ns) // 1000 FROM attributed_events GROUP BY ALL ORDER BY 1"
CLASSES = "SELECT class, sum(dur_ns) // 1000 FROM attributed_events GROUP BY ALL ORDER BY 1"
MODULES = (
    "SELECT coalesce(m.path, a.row_name), sum(dur_ns) // 1000 FROM attributed_events AS a "
    "LEFT JOIN module AS m USING (trace_id, module_id) GROUP BY ALL ORDER BY 1"
)
COLLECTIVES = (
    "SELECT class, sum(dur_ns) // 1000, count(*) FILTER (is_transfer), "
    "sum(message_bytes) FILTER (is_transfer) FROM collective_events GROUP BY ALL ORDER BY 1"
)
CLASSES_OF_RANKS = (
    "SELECT t.rank, class, sum(dur_ns) // 1000 FROM attributed_events "
    "JOIN trace AS t USING (trace_id) GROUP BY ALL ORDER BY ALL"
)
DEVICE_NAME = "SELECT name FROM device"

EXPECTED = [
    ("01", CLASSES, [("elementwise", 50), ("gemm", 100)]),
    ("03", "SELECT rank FROM trace ORDER BY rank", [(0,), (1,)]),
    (
        "03",
        CLASSES_OF_RANKS,
        [(0, "elementwise", 40), (0, "gemm", 100), (1, "elementwise", 40), (1, "gemm", 300)],
    ),
    ("09", "SELECT count(*) FROM attribution WHERE link = 'launch'", [(1,)]),
    ("10", COLLECTIVES, [("comm_allgather", 200, 1, 2 * 2**21)]),
    (
        "12",
        "SELECT step, sum(dur_ns) // 1000 FROM attributed_events GROUP BY 1 ORDER BY 1",
        [(22, 2010), (23, 10)],
    ),
    ("13", MODULES, [("Encoder_0", 100), ("Head_0", 200)]), ("14", CLASSES, [("gemm", 100)]),
    ("15", CLASSES, [("gemm", 100)]), ("17", DEVICE_NAME, [("NVIDIA H100 80GB HBM3",)]),
    ("20", COLLECTIVES, [("comm_allreduce", 8000, 1, None)]),
    ("20", "SELECT is_truncated, rejected_count FROM trace", [(False, 0)]),
    ("23", COLLECTIVES, [("comm_allreduce", 100, 1, 4096), ("comm_p2p", 500, 1, None)]),
    ("24", CLASSES, [("attention", 210)]),
    ("26", PHASES, [("decode", 200), ("mixed", 400), ("prefill", 100), ("verify", 300)]),
    ("30", MODULES, [("forward", 200), ("mlp", 100)]),
    ("30", CLASSES, [("attention", 200), ("gemm", 100)]), ("31", CLASSES, [("gemm", 50)]),
    ("37", PHASES, [("backward", 350), ("forward", 180), ("other", 50)]),
    ("37", COLLECTIVES, [("comm_allgather", 50, 1, 2 * 4194304)]),
    (
        "37",
        MODULES,
        [
            ("(communication)", 50),
            ("layers.0.attention.wq", 300),
            ("layers.0.feed_forward.w1", 230),
        ],
    ),
]  # fmt: skip

# Busy time and window of each device, µs.
TIMELINES = {
    "01": [(160, 150)],
    "03": [(140, 140), (340, 340)],
    "07": [(74, 74)],
    "10": [(200, 200)],
    "18": [(150, 150)],
    "22": [(240, 210), (240, 210)],
    "27": [(280, 200)],
    "29": [(100, 100)],
}


def case(number):
    if not FOLDER.is_dir():
        pytest.skip(f"no field cases in {FOLDER}")
    return next(FOLDER.glob(f"{number}_*.json"))


@pytest.fixture(scope="module")
def ask():
    """Return a function that asks SQL of the traces of one file; all are in one store."""
    paths = {number: case(number) for number in dict.fromkeys(one for one, *_ in EXPECTED)}
    with tracekit.open(*paths.values(), cache=False) as trace:

        def rows_of(number, sql):
            here = (
                f"trace_id IN (SELECT trace_id FROM trace WHERE file_name = '{paths[number].name}')"
            )
            parts = [
                f"{name} AS (SELECT * FROM {name} WHERE {here})"
                for name in dict.fromkeys(re.findall(r"(?:FROM|JOIN) (\w+)", sql))
            ]
            return trace.sql(f"WITH {', '.join(parts)} {sql}").rows

        yield rows_of


@pytest.mark.parametrize(("number", "sql", "rows"), EXPECTED)
def test_answers(ask, number, sql, rows):
    assert ask(number, sql) == rows


@pytest.mark.parametrize("number", TIMELINES)
def test_timelines(number):
    with tracekit.open(case(number), cache=False) as trace:
        found = trace.query("timeline").to_dicts()
    windows = [(row["window_ns"] // 1000, row["busy_ns"] // 1000) for row in found]
    assert windows == TIMELINES[number]


def test_layers():
    with tracekit.open(case("34"), cache=False) as trace:
        rows = trace.sql("SELECT place, layer, pass_ns // 1000 FROM layers").rows
    assert rows == [("before", None, 4), ("layer", 0, 106), ("layer", 1, 116), ("after", None, 50)]


@pytest.mark.parametrize("folder", ["field", "field2"])
def test_names_of_kernels(tiny_trace, folder):
    """At least 97 % of the names have the expected class."""
    case("01")
    lines = (FOLDER.parent / folder / "kernel_names.tsv").read_text("utf-8").splitlines()
    listed = [line.split("\t")[:2] for line in lines if line]
    path = tiny_trace([kernel(name, n, n + 1) for n, (name, _) in enumerate(listed)])
    with tracekit.open(path, cache=False) as trace:
        found = dict(trace.sql("SELECT name, class FROM kernel_class").rows)
    wrong = [(name, found.get(name), right) for name, right in listed if found.get(name) != right]
    assert len(wrong) <= 0.03 * len(listed), wrong


def test_unrecorded_graph_replays_are_counted(capsys):
    """Four of five replays are missing, so idle time is unknown."""
    with tracekit.open(case("05"), cache=False) as trace:
        rows = trace.query("health").to_dicts()
    (row,) = [row for row in rows if row["metric"] == "launches_without_work"]
    assert {"4", "5"} <= set(re.findall(r"\d+", row["meaning"]))
    assert main(["breakdown", str(case("05")), "--no-cache"]) == 0
    assert "unknown" in capsys.readouterr().out
