"""Analyses of many ranks on synthetic runs: exactly the injected faults are found."""

import pytest
from made_runs import Faults, Late, Layout, Step, make_run

import tracekit

TINY = Step(forward_ns=100_000, backward_ns=200_000, optimizer_ns=50_000, kernels=1, layers=1)
GRID = Layout(data=4, tensor=2, ranks_per_node=2)
PIPELINE = Layout(tensor=2, pipeline=4, ranks_per_node=2)
PIPELINED = Step(
    forward_ns=100_000, backward_ns=200_000, kernels=1, layers=1, microbatches=6, steps=1
)


def late(*values):
    return pytest.param(*values, marks=pytest.mark.nightly("a run like another of the gate"))


@pytest.fixture
def asked(tmp_path):
    def ask(*names, layout, step=TINY, faults=None, **options):
        run = make_run(tmp_path / "run", layout, step, faults, **options)
        with tracekit.open(run.folder, cache=False) as trace:
            return run, {name: trace.query(name).to_dicts() for name in names}

    return ask


def test_a_run_without_faults_has_no_straggler(asked):
    _, found = asked("stragglers", "waits", "rank_groups", layout=GRID)
    assert found["stragglers"] == []
    assert found["waits"] == []
    (group,) = found["rank_groups"]
    assert (group["rank_count"], group["rank_pct"], group["example_rank"]) == (8, 100.0, 0)
    assert group["alike"] == "backward, forward, optimizer"


def test_a_slow_rank_is_the_first_named(asked):
    """In each step, it works 390 instead of 300 µs before the end, and 65 instead of 50 after it.

    In two steps, that is 90 µs, then 15 and 90 µs before a collective: 195 µs.
    """
    run, found = asked(
        "stragglers",
        "waits",
        "rank_summary",
        "rank_groups",
        "rank_distribution",
        layout=GRID,
        faults=Faults(slow_ranks={5: 1.3}),
    )
    (first,) = found["stragglers"]
    assert (first["kind"], first["name"], first["ranks"]) == ("rank", "rank 5", [5])
    assert first["node"] == "node002"
    assert first["delay_ns"] == 195_000
    assert first["delay_pct"] == pytest.approx(30)
    assert first["is_once"] is False
    # An adjacent rank waits for it in their tensor-parallel group, and makes others wait.
    by_dimension = {(row["straggler_rank"], row["dimension"]): row for row in found["waits"]}
    own, passed = by_dimension[5, "tensor"], by_dimension[4, "data"]
    assert (own["waiting_rank_count"], own["passed_on_ns"]) == (1, 0)
    assert own["wait_ns"] == 195_000
    assert passed["behind_rank"] == 5
    assert passed["passed_on_ns"] == passed["wait_ns"]
    for row in found["rank_summary"]:
        assert row["comm_wait_ns"] == run.truth.waited_ns[row["rank"]]
        assert row["is_outlier"] is (row["rank"] == 5)
    usual, slow = found["rank_groups"]
    assert usual["rank_count"] == 7
    assert slow["ranks"] == [5]
    assert slow["alike"] == "more compute, less exposed communication"
    rows = {row["part"]: row for row in found["rank_distribution"]}
    own = rows["own"]
    assert (own["min_ns"], own["median_ns"], own["max_ns"]) == (650_000, 650_000, 845_000)
    assert (own["min_rank"], own["max_rank"], own["rank_count"]) == (0, 5, 8)
    assert rows["compute"]["max_rank"] == 5
    assert rows["comm_wait"]["min_rank"] == 5
    assert {"window", "step", "phase/forward", "phase/backward"} <= set(rows)
    assert "idle" not in rows


@pytest.mark.parametrize("slow_count", [4, late(6)])
def test_ranks_slow_alike_are_named_where_none_is_an_outlier(asked, slow_count):
    faults = Faults(slow_ranks=dict.fromkeys(range(slow_count), 1.5))
    _, found = asked("stragglers", "rank_groups", layout=Layout(data=8), faults=faults)
    (row,) = found["stragglers"]
    assert (row["kind"], row["name"]) == ("ranks", f"{slow_count} of 8 ranks")
    assert (row["delay_ns"], row["like_ns"], row["delay_pct"]) == (325_000, 650_000, 50)
    assert (row["limit_ns"], row["like_count"]) == (6_500, 8)
    assert (row["waiting_rank_count"], row["longest_waiting_rank"]) == (8 - slow_count, slow_count)
    alike = max(found["rank_groups"], key=lambda group: group["own_ns"])
    assert alike["ranks"] == row["ranks"] == [*range(slow_count)]


@pytest.mark.parametrize(
    ("layout", "step", "faults", "found"),
    [
        (GRID, TINY, Faults(slow_nodes={2: 1.2}), ["node node002"]),
        (
            Layout(data=6, tensor=2, ranks_per_node=4),
            TINY,
            Faults(slow_nodes={2: 1.1}, slow_ranks={9: 1.5}),
            ["rank rank 9", "node node002"],
        ),
        (PIPELINE, PIPELINED, Faults(slow_links={"1>3": 30.0}), ["link rank 1 to 3"]),
        # A rank of a pipeline is compared with its stage.
        (
            Layout(data=4, tensor=1, pipeline=2, ranks_per_node=4),
            PIPELINED,
            Faults(slow_ranks={6: 1.3}),
            ["rank rank 6"],
        ),
        # Equally slow ranks, and one even slower rank.
        (
            Layout(data=8),
            TINY,
            Faults(slow_ranks={**dict.fromkeys(range(4), 1.5), 3: 9.0}),
            ["rank rank 3", "ranks 4 of 8 ranks"],
        ),
        # Not equally slow: spread-out ranks, all ranks except one, and small differences.
        *(
            (Layout(data=4), TINY, Faults(slow_ranks=dict(enumerate(factors))), [])
            for factors in ((1, 1.1, 1.2, 1.3), (1, 1.5, 1.5, 1.5), (1, 1, 1.009, 1.009))
        ),
    ],
)
def test_stragglers(asked, layout, step, faults, found):
    _, rows = asked("stragglers", layout=layout, step=step, faults=faults)
    assert [f"{row['kind']} {row['name']}" for row in rows["stragglers"]] == found


def test_nodes_without_host_names_are_those_of_the_layout(asked):
    _, found = asked("stragglers", layout=GRID, faults=Faults(slow_nodes={1: 1.2}), has_hosts=False)
    assert [row["name"] for row in found["stragglers"]] == ["ranks from 2"]


def test_a_rank_that_is_late_once(asked):
    """It is distinguished from an adjacent rank that waits for it and is then equally late."""
    late = Late(rank=6, dimension="tensor", number=1, by_ns=77_000)
    run, found = asked("stragglers", "collective_skew", layout=GRID, faults=Faults(late=(late,)))
    (first,) = found["stragglers"]
    assert (first["name"], first["delay_ns"], first["is_once"]) == ("rank 6", 77_000, True)
    assert (first["collective"], first["pg_name"], first["number"]) == ("comm_allreduce", "4", 2)
    truth = {key: waits for key, waits in run.truth.waits.items() if any(waits.values())}
    rows = {(row["pg_name"], row["number"]): row for row in found["collective_skew"]}
    assert len(truth) == 3
    for key, waits in truth.items():
        assert rows[key]["max_wait_ns"] == max(waits.values()) == 77_000
        assert rows[key]["wait_ns"] == sum(waits.values())


@pytest.mark.parametrize(("name", "label"), [("3", "tensor group 3"), late("5", "data group 5")])
def test_a_slow_link_is_no_slow_rank(asked, name, label):
    layout = Layout(data=4, tensor=3, ranks_per_node=3)
    _, found = asked(
        "stragglers", "parallel_groups", layout=layout, faults=Faults(slow_links={name: 2.5})
    )
    (first,) = found["stragglers"]
    assert (first["kind"], first["name"]) == ("link", label)
    assert first["delay_pct"] == pytest.approx(150)
    assert first["like_bus_bytes_per_s"] == pytest.approx(2.5 * first["bus_bytes_per_s"])
    groups = {row["dimension"]: row for row in found["parallel_groups"]}
    assert groups[label.partition(" ")[0]]["slowest_name"] == name


@pytest.mark.parametrize("schedule", [late("gpipe"), "1f1b"])
def test_bubbles_are_those_of_the_schedule(asked, schedule):
    step = Step(
        forward_ns=1_000_000,
        backward_ns=2_000_000,
        optimizer_ns=1_000,
        transfer_ns=4,
        pass_ns=1,
        kernels=1,
        layers=1,
        microbatches=6,
        schedule=schedule,
        steps=2,
    )
    run, found = asked("pipeline_bubbles", "rank_summary", layout=PIPELINE, step=step)
    rows = found["pipeline_bubbles"]
    in_flight = [6] * 4 if schedule == "gpipe" else [4, 3, 2, 1]
    assert [row["in_flight_count"] for row in rows] == in_flight
    for stage, row in enumerate(rows):
        assert (row["schedule"], row["microbatch_count"], row["reason"]) == (schedule, 6, None)
        assert row["bubble_ns"] == run.truth.waited_ns[stage * 2]
        # In each step, three stages' forward and backward passes.
        assert row["bubble_ns"] == pytest.approx(2 * 3 * 3_000_000, rel=1e-4)
        assert row["schedule_bubble_pct"] == pytest.approx(100 * 3 / 9)
        assert row["bubble_pct"] == pytest.approx(row["schedule_bubble_pct"], abs=0.05)
    assert [row["stage"] for row in found["rank_summary"]] == [rank // 2 for rank in range(8)]


def test_experts_that_get_more_than_their_share(asked):
    """Of four ranks the last gets five eighths of all tokens: 2.5 times the mean."""
    layout = Layout(data=8, expert=4, ranks_per_node=4)
    run, found = asked("expert_balance", layout=layout, faults=Faults(expert_shares=(1, 1, 1, 5)))
    rows = {row["rank"]: row for row in found["expert_balance"]}
    assert [rows[rank]["load_pct"] for rank in range(4)] == [50, 50, 50, 250]
    assert {row["imbalance_pct"] for row in rows.values()} == {150}
    assert [rank for rank, row in rows.items() if row["is_most_loaded"]] == [3, 7]
    # A dispatch and its combine have the same load; elements are of two bytes.
    for rank, row in rows.items():
        assert row["load_bytes"] == 2 * 2 * run.truth.received[rank]


def test_clocks_come_back_within_the_stated_error(asked):
    faults = Faults(clock_ns={5: 3_000_000, 6: -40_000}, end_jitter_ns=2_000)
    run, found = asked("clock_offsets", "stragglers", layout=GRID, faults=faults)
    for row in found["clock_offsets"]:
        assert 0 < row["error_ns"] <= 4_000
        true_ns = run.truth.clock_ns.get(row["rank"], 0)
        assert abs(row["offset_ns"] - true_ns) <= row["error_ns"]
        assert row["is_beyond_error"] is (row["rank"] in (5, 6))
    # Other results do not depend on clocks.
    assert found["stragglers"] == []


def test_no_clock_is_told_without_collectives_of_all(asked):
    step = Step(forward_ns=100_000, backward_ns=200_000, has_world_end=False)
    _, found = asked("clock_offsets", layout=Layout(data=2, tensor=2), step=step)
    assert {row["offset_ns"] for row in found["clock_offsets"]} == {None}
    assert {row["reason"] for row in found["clock_offsets"]} == {
        "no matched collective includes all ranks of the run"
    }


@pytest.mark.parametrize("is_described", [late(True), False])
def test_parallel_groups(asked, is_described):
    layout = Layout(data=2, tensor=2, pipeline=4, ranks_per_node=4, is_described=is_described)
    _, found = asked("parallel_groups", layout=layout, step=PIPELINED)
    rows = {row["dimension"]: row for row in found["parallel_groups"]}
    assert {
        name: (row["group_count"], row["group_size"], row["stride"], row["node_count"])
        for name, row in rows.items()
    } == {
        "world": (1, 16, 1, 4),
        "tensor": (8, 2, 1, 1),
        "data": (8, 2, 2, 1),
        "pipeline": (4, 4, 4, 4),
    }
    assert rows["pipeline"]["example_ranks"] == [0, 4, 8, 12]
    known = ["description"] * 3 if is_described else ["layout", "traffic", "layout"]
    assert [rows[name]["known_by"] for name in ("data", "pipeline", "tensor")] == known


def test_a_missing_rank_is_told_and_the_rest_stays(asked):
    faults = Faults(missing=frozenset({3}), slow_ranks={6: 1.3})
    _, found = asked("stragglers", "rank_summary", "clock_offsets", layout=GRID, faults=faults)
    assert [row["name"] for row in found["stragglers"]] == ["rank 6"]
    assert {(row["rank_count"], row["world_size"]) for row in found["rank_summary"]} == {(7, 8)}
    assert len(found["clock_offsets"]) == 7


def test_a_group_that_nothing_was_matched_over_has_no_times(asked):
    layout = Layout(data=2, tensor=4, ranks_per_node=4)
    _, found = asked("parallel_groups", layout=layout, faults=Faults(missing=frozenset({3, 7})))
    rows = {row["dimension"]: row for row in found["parallel_groups"]}
    keys = ("match_count", "transfer_ns", "wait_ns", "reason")
    assert tuple(rows["tensor"][key] for key in keys) == (0, None, None, "no trace of ranks 3, 7")
    # No file lists the group of ranks 3 and 7.
    assert rows["data"]["match_count"] > 0
    assert rows["data"]["transfer_ns"] > 0
    assert rows["data"]["reason"] is None


def test_a_group_of_all_ranks_is_told_where_one_left_no_trace(asked):
    faults = Faults(missing=frozenset({3}))
    _, found = asked("parallel_groups", layout=Layout(tensor=4), faults=faults)
    assert [
        (row["dimension"], row["match_count"], row["wait_ns"], row["reason"])
        for row in found["parallel_groups"]
    ] == [(name, 0, None, "no trace of rank 3") for name in ("tensor", "world")]


def test_transfers_without_those_of_a_group_say_so(asked):
    faults = Faults(missing=frozenset({3}))
    _, found = asked("parallel_groups", layout=Layout(data=2, tensor=2), faults=faults)
    rows = {row["dimension"]: row for row in found["parallel_groups"]}
    assert rows["tensor"]["group_count"] == 2
    assert rows["tensor"]["transfer_ns"] > 0
    assert rows["tensor"]["reason"] == "no trace of rank 3"


def test_a_group_that_no_collective_names_says_so(asked):
    step = Step(forward_ns=100_000, backward_ns=200_000, has_world_end=False)
    _, found = asked("parallel_groups", layout=Layout(tensor=2), step=step)
    reasons = {row["dimension"]: row["reason"] for row in found["parallel_groups"]}
    assert reasons == {"tensor": None, "world": "no collective uses these groups"}
