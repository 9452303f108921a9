"""The screen of many ranks: groups, distribution, strip, stragglers, as the command shows it."""

import pytest
from run_of_ranks import write_ranks
from traces_by_hand import kernel

from tracekit.analysis.breakdown import RANKS_BREAKDOWN
from tracekit.render._bars import cells_of_ranks, marks, strip


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


def run_of(folder, count, slow_us):
    """Write ranks that compute for 650 µs, or for another time, and reduce until 900 µs."""
    shared = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": count}
    shared |= {"In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float", "Seq": 1}

    def events(rank):
        at = slow_us.get(rank, 650)
        reduction = kernel("ncclDevKernel_AllReduce_Sum_f32", at, 900, stream=20, **shared)
        return [kernel("gemm", 0, at), reduction]

    return write_ranks(folder / "run", count, events=events)


def test_the_screen_of_24_ranks(tmp_path, cli):
    file, *_ = run_of(tmp_path, 24, {13: 845})
    env = {"TRACEKIT_CACHE_DIR": str(tmp_path / "cache")}
    done = cli("breakdown", file.parent, env={**env, "COLUMNS": "104"})
    assert (done.exit_code, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    # A command is never wrapped, and the temporary folder may be long.
    assert all(len(line) <= 104 for line in lines if str(file.parent) not in line)
    # Groups instead of a list of ranks.
    assert "rank 1 · device" not in done.stdout
    assert "  23 ranks like rank 0  " in done.stdout
    assert "  rank 13 alone        " in done.stdout
    words = [line.split() for line in lines]
    (at_work,) = [found for found in words if found[:3] == ["at", "work", "0.650"]]
    assert at_work[2:] == ["0.650", "#0", "0.650", "#0", "0.650", "#0", "0.845", "#13"]
    blocks = next(line for line in lines if line.startswith("  at work  ▇"))
    assert blocks == "  at work  " + "▇" * 13 + "█" + "▇" * 10
    assert " " * (11 + 13) + "▲" in [line.rstrip() for line in lines]
    assert any(line.startswith("  rank 13  +195.0 µs (+30.0 %) at work") for line in lines)
    found = cli("breakdown", file.parent, "--format", "json", env=env).json()
    assert set(RANKS_BREAKDOWN) <= set(found)
    expected = cli("query", "stragglers", file.parent, "--format", "json", env=env).json()
    assert found["stragglers"] == expected
    of_one = cli("breakdown", file, "--format", "json", env=env).json()
    assert not set(RANKS_BREAKDOWN) & set(of_one)


@pytest.mark.parametrize(
    ("slow_us", "title", "row"),
    [
        (dict.fromkeys(range(4), 850), "Stragglers", "  4 of 8 ranks  +200.0 µs (+30.8 %)"),
        ({7: 654}, "Waits", "  7 ranks wait for rank 7"),
    ],
)
@pytest.mark.nightly("further runs of many ranks")
def test_the_lines_of_stragglers_do_not_contradict_each_other(tmp_path, cli, slow_us, title, row):
    file, *_ = run_of(tmp_path, 8, slow_us)
    lines = cli("breakdown", file.parent, env={"COLUMNS": "130"}).stdout.splitlines()
    (place,) = (at for at, line in enumerate(lines) if line.startswith(("Stragglers", "Waits")))
    assert lines[place].startswith(title)
    assert lines[place + 1].startswith(row)
