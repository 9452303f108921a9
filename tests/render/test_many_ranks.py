"""The screen of many ranks: groups, distribution, strip, stragglers, as the command shows it."""

import pytest
from made_runs import Faults, Layout, Step, make_run

from tracekit.analysis.breakdown import RANKS_BREAKDOWN
from tracekit.render._bars import cells_of_ranks, marks, strip

TINY = Step(forward_ns=100_000, backward_ns=200_000, optimizer_ns=50_000, kernels=1, layers=1)


def test_a_strip_shows_every_rank_or_the_highest_of_a_cell():
    values = [0, 1, 2, 3, 4, 5, 6, 8]
    marked = [False] * 7 + [True]
    assert strip(values, marked, 8).plain == "▁▂▃▄▅▆▇█"
    assert marks(marked, 8).plain == "       ▲"
    assert strip(values, marked, 4).plain == "▂▄▆█"
    assert marks(marked, 4).plain == "   ▲"
    assert strip([None, 0.0], [False, False], 4).plain == " ▁"
    assert [list(cell) for cell in cells_of_ranks(5, 2)] == [[0, 1], [2, 3, 4]]
    # No rank is left out, however narrow the screen.
    assert sorted(rank for cell in cells_of_ranks(1000, 77) for rank in cell) == list(range(1000))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    layout = Layout(data=12, tensor=2, ranks_per_node=4)
    folder = tmp_path_factory.mktemp("many") / "run"
    return make_run(folder, layout, TINY, Faults(slow_ranks={13: 1.3})).folder


@pytest.fixture
def kept(run):
    """Return an environment with a cache for the store of the run, shared by all tests."""
    return {"TRACEKIT_CACHE_DIR": str(run.parent / "cache")}


def test_the_screen_of_24_ranks(run, kept, cli):
    done = cli("breakdown", run, env={**kept, "COLUMNS": "104"})
    assert (done.exit_code, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert all(len(line) <= 104 for line in lines)
    text = done.stdout
    # Groups instead of a list of ranks.
    assert "rank 1 · device" not in text
    assert "  23 ranks like rank 0  " in text
    assert "  rank 13 alone        " in text
    assert "    more compute, less exposed communication" in lines
    assert "Ranks  24 on 6 nodes; each figure with the rank that has it" in lines
    words = [line.split() for line in lines]
    (at_work,) = [found for found in words if found[:3] == ["at", "work", "0.65"]]
    assert at_work == ["at", "work", "0.65", "#0", "0.65", "#0", "0.65", "#0", "0.85", "#13"]
    blocks = next(line for line in lines if line.startswith("  at work  ▇"))
    assert blocks == "  at work  " + "▇" * 13 + "█" + "▇" * 10
    assert " " * (11 + 13) + "▲" in [line.rstrip() for line in lines]
    straggler = next(line for line in lines if line.startswith("  rank 13 on node003"))
    assert straggler.startswith("  rank 13 on node003  +195.0 µs (+30.0 %) at work")
    assert any("11 ranks wait for rank 13 in data group" in line for line in lines)
    assert any(line.split()[:4] == ["tensor", "12", "×", "2"] for line in lines)


@pytest.mark.parametrize(
    ("slow", "told"),
    [
        (
            dict.fromkeys(range(4), 1.5),
            [
                "Stragglers  slower than comparable ranks by more than a robust limit",
                "  4 of 8 ranks  +325.0 µs (+50.0 %) at work · 0, 1, 2, 3 · rank 4 waits",
            ],
        ),
        (
            {7: 1.005},
            [
                "Waits  who waits for whom; no rank, node, or link is an outlier",
                "  7 ranks wait for rank 7 in world group 0: 22.8 µs in all, 100.0 %",
            ],
        ),
    ],
)
@pytest.mark.nightly("simulates further runs of many ranks")
def test_the_lines_of_stragglers_do_not_contradict_each_other(tmp_path, cli, slow, told):
    run = make_run(tmp_path / "run", Layout(data=8), TINY, Faults(slow_ranks=slow)).folder
    lines = cli("breakdown", run, env={"COLUMNS": "130"}).stdout.splitlines()
    place = lines.index(told[0])
    assert lines[place + 1].startswith(told[1])
    assert not any(line.startswith("Stragglers  none") for line in lines)


def test_json_holds_the_analyses(run, kept, cli):
    found = cli("breakdown", run, "--format", "json", env=kept).json()
    assert set(RANKS_BREAKDOWN) <= set(found)
    assert found["stragglers"][0]["name"] == "rank 13"
    asked = cli("query", "stragglers", run, "--format", "json", env=kept).json()
    assert found["stragglers"] == asked


@pytest.mark.nightly("simulates a further run")
def test_few_ranks_keep_a_bar_each(tmp_path, cli):
    made = make_run(tmp_path / "run", Layout(data=4), TINY, Faults(slow_ranks={2: 1.3}))
    text = cli("breakdown", made.folder).stdout
    assert all(f"rank {rank} · device {rank}" in text for rank in range(4))
    assert "alike" not in text
    assert "  rank 2 " in text.partition("Stragglers")[2]
    of_one = cli("breakdown", made.paths[0], "--format", "json").json()
    assert not set(RANKS_BREAKDOWN) & set(of_one)
