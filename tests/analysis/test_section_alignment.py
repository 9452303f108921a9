"""GPU events without a launch are matched to the launched events that they repeat."""

import random

import pytest

import tracekit
from tracekit.analysis import section_alignment

# A decoder; all GEMMs have the same kernel name.
LAYERS = 6
LAYER = ("norm", *["gemm"] * 3, "rope", "attn", "gemm", "norm", "gemm", "gemm", "silu", "gemm")
ITERATION = ("embed", *LAYER * LAYERS, "norm")


def stream(names, unlinked, grids=None):
    """Return sequential kernels, each with a launch except for those in `unlinked`."""
    events = []
    for place, name in enumerate(names):
        at = 100 + 10 * place
        args = {"device": 0, "stream": 7, "correlation": place + 1}
        if grids is not None and grids[place] is not None:
            args["grid"] = [grids[place], 1, 1]
        events.append(
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at, "dur": 5}
            | {"args": args}
        )
        if place not in unlinked:
            events.append(
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
                | {"ts": at - 5, "dur": 1, "args": {"correlation": place + 1}}
            )
    return events


def alike(path):
    """Return the position of each event without a launch, and of its counterpart."""
    with tracekit.open(path, cache=False) as trace:
        rows = trace.sql(
            "SELECT u.correlation - 1, k.correlation - 1 FROM attribution AS c"
            " JOIN event AS u USING (trace_id, event_id)"
            " JOIN event AS k ON c.trace_id = k.trace_id AND c.like_event_id = k.event_id"
        ).rows
    return dict(rows)


@pytest.mark.parametrize("tail", [1 + 2 * len(LAYER), 5 * len(LAYER) + 7, len(ITERATION)])
def test_a_partial_iteration_matches_the_next_one(tiny_trace, tail):
    """Complete layers fit between any layers, so the kernels after them decide."""
    names = [*ITERATION[-tail:], *ITERATION]
    found = alike(tiny_trace(stream(names, set(range(tail)))))
    assert found == {place: place + len(ITERATION) for place in range(tail)}


def test_an_iteration_in_the_middle_and_missed_kernels(tiny_trace):
    names = [*ITERATION * 3]
    count = len(ITERATION)
    missed = {3, 4, count + 20, *range(count + 30, count + 50), 3 * count - 1}
    found = alike(tiny_trace(stream(names, missed)))
    assert set(found) == missed
    assert all((there - here) % count == 0 for here, there in found.items())
    assert not set(found.values()) & missed


def test_grids_decide_between_equal_kernels(tiny_trace):
    """Two kinds of iterations have the same kernels with different grids."""
    count = len(ITERATION)
    names = [*ITERATION * 3]
    grids = [*[8] * count, *[512] * count, *[8] * count]
    found = alike(tiny_trace(stream(names, set(range(count)), grids)))
    assert found == {place: place + 2 * count for place in range(count)}


def test_grids_may_be_missing_where_the_launch_is(tiny_trace):
    count = len(ITERATION)
    grids = [*[None] * count, *[512] * count]
    found = alike(tiny_trace(stream([*ITERATION * 2], set(range(count)), grids)))
    assert found == {place: place + count for place in range(count)}


def test_unmatched_kernels_stay_unattributed(tiny_trace):
    other = [f"other_{number}" for number in range(40)]
    names = [*other, *ITERATION[-20:], *ITERATION]
    found = alike(tiny_trace(stream(names, set(range(60)))))
    assert set(found) == set(range(40, 60))
    with tracekit.open(tiny_trace(stream(names, set(range(60)))), cache=False) as trace:
        rows = trace.sql(
            "SELECT row_name, is_inferred, count(*) FROM attribution AS c"
            " JOIN device_events AS d USING (trace_id, event_id, piece)"
            " WHERE d.name LIKE 'other%' GROUP BY ALL"
        ).rows
    assert rows == [("(unattributed)", False, 40)]


def test_one_repeated_kernel_matches_nothing(tiny_trace):
    assert alike(tiny_trace(stream(["fill"] * 200, set(range(50))))) == {}


def test_a_surplus_kernel_does_not_end_the_alignment(tiny_trace):
    tail = [*ITERATION[-40:-20], "surplus", *ITERATION[-20:]]
    found = alike(tiny_trace(stream([*tail, *ITERATION], set(range(41)))))
    start = 41 + len(ITERATION) - 40
    assert found == {place: start + place - (place > 20) for place in range(41) if place != 20}


def test_the_number_of_comparisons_is_linear(monkeypatch):
    """Names repeat so that almost every position fits every other one."""
    compared = []
    agreement = section_alignment._agreement
    monkeypatch.setattr(
        section_alignment,
        "_agreement",
        lambda *args: (compared.append(found := agreement(*args)), found)[1],
    )
    counts = []
    for count in (2_000, 8_000):
        compared.clear()
        chance = random.Random(1)
        of = section_alignment._Stream((0, "0", 7))
        for place in range(count):
            name = place % 4 if chance.random() > 0.01 else chance.randrange(4)
            of.add(place, name, None, place >= count // 2)
        of.aligned()
        counts.append(sum(compared) + len(compared))
    assert counts[0] > 2_000
    assert counts[1] < 6 * counts[0]


@pytest.mark.nightly("reads two real traces")
@pytest.mark.parametrize(
    ("name", "roles_ns"),
    [
        ("tl_h100_qwen", {"QKV": 944_508, "Output": 315_710, "MLP": 2_674_993}),
        ("tl_mi300_qwen", {"QKV": 1_240_259, "Output": 448_780, "MLP": 3_552_972}),
    ],
)
def test_roles_of_gemms_in_real_traces(opened, public_traces, name, roles_ns):
    """Expected values follow from the order q, k, v, o, gate, up, down in each layer."""
    trace = opened(public_traces / f"{name}.json.gz")
    found = {}
    rows = trace.sql(
        "SELECT m.rollup_path, d.dur_ns FROM attribution AS c"
        " JOIN device_events AS d USING (trace_id, event_id, piece)"
        " JOIN module AS m ON c.trace_id = m.trace_id AND c.module_id = m.module_id"
        " WHERE c.link = 'before_window' AND d.class = 'gemm'"
    ).rows
    for path, dur_ns in rows:
        role = "MLP" if "MLP" in path else "Output" if path.endswith("[3]") else "QKV"
        found[role] = found.get(role, 0) + dur_ns
    assert found == roles_ns
    unplaced = trace.sql(
        "SELECT count(*) FROM attribution WHERE link = 'before_window' AND module_id IS NULL"
    ).rows
    assert unplaced == [(0,)]
    if name == "tl_mi300_qwen":
        placed = trace.sql(
            "SELECT role, sum(r.dur_ns)::BIGINT FROM role_work AS r"
            " JOIN attribution USING (trace_id, event_id, piece)"
            " WHERE link = 'before_window' AND role IN ('QKV', 'Output') GROUP BY ALL"
        ).rows
        assert dict(placed) == {role: roles_ns[role] for role in ("QKV", "Output")}
        roles = {row["role"]: row["inferred_ns"] for row in trace.query("roles").to_dicts()}
        assert roles_ns["MLP"] <= roles["MLP"] < 0.4 * sum(roles.values())
