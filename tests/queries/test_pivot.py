"""The pivot: hand-checked sums, and agreement with analyses on every trace."""

import json
from collections import Counter

import pytest
from every_trace import REPO, on_every_trace
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.analysis.pivot import dimensions
from tracekit.errors import QueryError, UsageError

# Two GEMMs of 10 and 20 µs in step 1 and a copy of 5 in step 2, with gaps of 5 and 10 before them.
EVENTS = [
    span("user_annotation", "ProfilerStep#1", 0, 50),
    span("user_annotation", "ProfilerStep#2", 50, 100),
    *(call(at, at + 1, number) for number, at in enumerate((5, 7, 60), start=1)),
    kernel("ampere_sgemm_128x64_nn", 20, 30, 1),
    kernel("ampere_sgemm_128x64_nn", 35, 55, 2),
    kernel("Memcpy HtoD (Pageable -> Device)", 65, 70, 3, bytes=4096),
]


SAMPLE_WITHOUT_KERNELS = REPO / "docs" / "samples" / "made_up_no_kernels.json"


@pytest.fixture
def trace(tiny_trace):
    with tracekit.open(tiny_trace(EVENTS), cache=False) as opened:
        yield opened


def test_sums_by_two_dimensions(trace):
    found = trace.pivot("class", "step", "span_ns")
    assert found.column_names == ("class", "1_ns", "2_ns", "span_ns", "share_pct")
    assert found.rows == [
        ("gemm", 30_000, 0, 30_000, 60.0),
        ("idle", 5_000, 10_000, 15_000, 30.0),
        ("memcpy_h2d", 0, 5_000, 5_000, 10.0),
        ("(total)", 35_000, 15_000, 50_000, 100.0),
    ]
    assert trace.pivot(["class"], values="bytes", where="class <> 'gemm'", step=2).rows == [
        ("memcpy_h2d", 4096, 100.0),
        ("idle", None, None),
        ("(total)", 4096, 100.0),
    ]
    assert trace.pivot("step", values="kernel_count").rows == [
        ("1", 2, 100 * 2 / 3),
        ("2", 1, 100 / 3),
        ("(total)", 3, 100.0),
    ]
    assert trace.pivot("class", where="FALSE").rows == []
    assert trace.pivot("class", values="bytes", where="class = 'gemm'").rows == [
        ("gemm", None, None),
        ("(total)", None, None),
    ]


def test_rows_that_a_part_of_the_work_has_not(trace):
    """Idle time has no kernel, and some columns are numbers."""
    found = trace.pivot(["kernel", "rank"], "stream", "span_ns")
    assert [row[0] for row in found.rows] == [
        "ampere_sgemm_128x64_nn",
        "(none)",
        "Memcpy HtoD (Pageable -> Device)",
        "(total)",
    ]
    assert [row[-2] for row in found.rows] == [30_000, 15_000, 5_000, 50_000]
    for name in dimensions():
        for other in ("kernel", "stream", "step"):
            assert trace.pivot([name], other, "span_ns").rows[-1][-2] == 50_000, (name, other)


def test_a_pivot_with_too_many_cells(trace, monkeypatch):
    monkeypatch.setattr("tracekit.analysis.pivot.MAX_CELLS", 3)
    with pytest.raises(QueryError):
        trace.pivot("class", "step")
    assert trace.pivot("class").rows


def test_unknown_names_are_rejected(trace):
    with pytest.raises(UsageError) as raised:
        trace.pivot("modul")
    assert raised.value.hint == "did you mean module?"
    with pytest.raises(UsageError):
        trace.pivot("module", values="time")
    with pytest.raises(QueryError):
        trace.pivot("module", where="nothing = 1")


def test_the_command(cli, tiny_trace):
    path = tiny_trace(EVENTS)
    asked = ("--rows", "class,step", "--columns", "kind", "--where", "kernel LIKE 'ampere%'")
    found = cli("pivot", path, *asked, "--format", "json")
    assert json.loads(found.stdout) == [
        {"class": "gemm", "step": "1", "compute_ns": 30000, "wall_ns": 30000, "share_pct": 100.0},
        {"class": "(total)", "step": "", "compute_ns": 30000, "wall_ns": 30000, "share_pct": 100.0},
    ]
    nothing = cli("pivot", SAMPLE_WITHOUT_KERNELS, "--format", "json")
    assert (nothing.exit_code, nothing.json()) == (0, [])


@on_every_trace
def test_a_pivot_agrees_with_the_analyses(path, answered):
    answers = answered(path)

    def sums(name, key, value):
        found = Counter()
        for row in answers(name).to_dicts():
            found[str(row[key])] += row[value]
        return {key: value for key, value in found.items() if value}

    # With four dimensions, the sums by each dimension equal the analyses.
    keys = ("phase", "module", "class", "reason")
    measures = ("wall_ns", "idle_ns", "kernel_ns", "kernel_count")
    found = {measure: answers.trace.pivot(keys, values=measure).rows for measure in measures}

    def pivot(key, measure):
        summed = Counter()
        for row in found[measure][:-1]:
            summed[row[keys.index(key)]] += row[-2]
        assert sum(summed.values()) == found[measure][-1][-2]
        return {name: value for name, value in summed.items() if value}

    assert pivot("phase", "wall_ns") == sums("phases", "phase", "wall_ns")
    assert pivot("phase", "idle_ns") == sums("phases", "phase", "idle_ns")
    assert pivot("module", "wall_ns") == sums("module_classes", "module_path", "self_wall_ns")
    assert pivot("class", "kernel_ns") == sums("kernel_classes", "class", "kernel_ns")
    assert pivot("class", "kernel_count") == sums("kernel_classes", "class", "kernel_count")
    assert pivot("reason", "idle_ns") == sums("idle_causes", "cause", "idle_ns")
    whole = answers.trace.pivot("role", "phase")
    assert all(sum(row[1:-2]) == row[-2] for row in whole.rows)
    for column in range(1, len(whole.columns) - 1):
        *parts, total = (row[column] for row in whole.rows)
        assert sum(parts) == (total or 0)
    by_role = {row[0]: row[-2] for row in whole.rows[:-1] if row[-2]}
    assert by_role == sums("roles", "role", "wall_ns")
    windows = sum(answers("timeline").column("window_ns"))
    assert found["wall_ns"][-1][-2] + found["idle_ns"][-1][-2] == windows


def test_a_heat_map_shows_the_sums(trace):
    chart = trace.plot.pivot("class", "step", "span_ns")
    assert chart.data["pivot"].rows == [
        ("gemm", "1", 30_000),
        ("gemm", "2", 0),
        ("idle", "1", 5_000),
        ("idle", "2", 10_000),
        ("memcpy_h2d", "1", 0),
        ("memcpy_h2d", "2", 5_000),
    ]
    assert "<svg" in chart.to_svg()
    with pytest.raises(QueryError):
        trace.plot.pivot("class", "step", where="FALSE")


def test_the_smallest_cells_are_one(trace):
    asked = ("device", "step", "class", "wall_ns", "idle_ns", "bytes")

    def cells(count):
        result = trace.query("pivot_cells", cells=count)
        return [tuple(row[name] for name in asked) for row in result.to_dicts()]

    rest = [("0", 1, "idle", 0, 5_000, None), ("0", 2, "memcpy_h2d", 5_000, 0, 4096)]
    largest = [("0", 1, "gemm", 30_000, 0, None), ("0", 2, "idle", 0, 10_000, None)]
    assert cells(0) == [*largest, *rest]
    assert cells(4) == cells(0)
    assert cells(2) == [*largest, ("(smaller)", None, "(smaller)", 5_000, 5_000, 4096)]
