"""The stories of docs/cases.md in small: a recording shows the cause, the change takes it away."""

import sys

import pytest
from every_trace import REPO

pytestmark = pytest.mark.nightly("records the programs of a page")

CASES = REPO / "docs" / "cases"
DDP = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "ddp.py", "--steps", "14",
       "--micro-batches", "4")  # fmt: skip
OWN = ("--warmup", "1", "--steps", "2", "--profile-steps", "3")


@pytest.fixture
def recorded(cli, tmp_path):
    """Return a function that records a program of the page with the arguments of Python."""

    def record(name, words):
        program = ("--", sys.executable, *words)
        done = cli("collect", *OWN, "--out", tmp_path / name, *program, cwd=CASES)
        assert done.exit_code == 0, done.stderr
        return tmp_path / name

    return record


def seen(cli, run, rule):
    """Return the rows of a rule's analysis, regardless of the gain."""
    done = cli("query", f"advice_{rule}", run, "--format", "json")
    assert done.exit_code == 0, done.stderr
    return done.json()


def test_no_sync_takes_the_reductions_away(cli, recorded):
    (row,) = seen(cli, recorded("slow", DDP), "accumulation")
    assert "12 times for 3 optimizer steps" in row["what"]
    assert seen(cli, recorded("changed", (*DDP, "--no-sync")), "accumulation") == []


def test_workers_take_the_waits_for_data_away(cli, recorded):
    program = ("loader.py", "--steps", "20")
    slow = recorded("slow", program)
    first = cli("advise", slow, "--format", "json").json()[0]
    assert first["rule"] == "advice_loading"
    (row,) = seen(cli, slow, "loading")
    assert row["what"].startswith("The host waits for data: 3×")
    changed = recorded("changed", (*program, "--workers", "2"))
    # Workers without a free CPU also make the program wait.
    waits = seen(cli, changed, "loading")
    assert all(one["cost_ns"] < row["cost_ns"] and "with workers" in one["place"] for one in waits)


def test_smaller_parts_of_prompts(cli, tmp_path):
    for tokens in (1024, 64):
        run = tmp_path / str(tokens)
        load = ("--prompt-len", "512", "--max-new-tokens", "16", "--requests", "6",
                "--warmup-requests", "1", "--arrival", "constant:8", "--profile-after", "0.1s",
                "--profile-for", "6", "--max-batch-tokens", str(tokens))  # fmt: skip
        done = cli("collect", "--stage", "serve", *load, "--out", run)
        assert done.exit_code == 0, done.stderr
        steps = cli("query", "serving_steps", run, "--format", "json").json()
        read = max(step["prefill_token_count"] for step in steps)
        assert (read > 64) == (tokens > 64)
        if tokens == 1024:
            (row,) = seen(cli, run, "serving_prefill")
            assert row["place"].endswith(": tokens per step")
