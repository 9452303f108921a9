"""`tracekit query --check`: what is wrong with a SQL file, all of it at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from own_queries import HEAD, Outcome, write, write_all


def lines_of(outcome: Outcome, file: Path) -> list[str]:
    return [line.removeprefix(f"{file}:") for line in outcome.stdout.splitlines()]


def test_a_file_without_fault(run: Any, trace: Path, tmp_path: Path) -> None:
    file = write_all(tmp_path / "mine") / "longest_ops.sql"
    done = run("query", "--check", file)
    assert (done.exit_code, done.stderr) == (0, "")
    assert lines_of(done, file) == [
        " ok: header: analysis: Which ops took longest on the CPU?",
        "5: ok: requires: op_sums",
        "8: ok: columns: name, dur_ns",
    ]
    done = run("query", "--check", file, trace)
    assert done.exit_code == 0
    assert lines_of(done, file)[3:] == [" ok: rows: 2", "11: ok: invariants: dur_ns >= 0"]
    for other in ("op_sums", "plain_sum"):
        assert run("query", "--check", file.with_name(f"{other}.sql"), trace).exit_code == 0


WRONG_HEADER = """\
-- What is wrong?
--
-- Kind:     analysis
-- Scope:    trce
-- Requires: opps, timeline
-- Invariants: dur_ns >= 0
-- Columns:
--   name      VARCHAR
--   dur_ns    BIGINT  time, ns
SELECT name, dur_ns + $more AS dur_ns FROM op_calls
"""


def test_all_that_is_wrong_with_a_header_is_said_at_once(run: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "mine", bad=WRONG_HEADER) / "bad.sql"
    done = run("query", "--check", file)
    assert done.exit_code == 5
    assert done.stderr == f"error: {file}: 6 things are wrong with it\n"
    assert lines_of(done, file) == [
        "4: wrong: header: unknown Scope 'trce'",
        "    one of: trace, run, runs",
        "6: wrong: header: unknown header field 'Invariants'",
        "    did you mean Invariant?",
        "8: wrong: header: Columns: cannot read 'name      VARCHAR'",
        "    write `name  TYPE  meaning`, or `name  TYPE -> table.column  meaning`",
        "10: wrong: header: $more is used but not declared in Params",
        "5: wrong: requires: there is no table, function or analysis opps",
        "5: wrong: requires: op_calls is read and not required",
        "    Requires: opps, timeline, op_calls",
    ]
    rows = json.loads(run("query", "--check", file, "--format", "json").stdout)
    assert rows[0] == {
        "line": 4,
        "check": "header",
        "result": "wrong",
        "finding": "unknown Scope 'trce'",
        "hint": "one of: trace, run, runs",
    }


WRONG_COLUMNS = """\
-- What is wrong?
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: op_calls
-- Columns:
--   event_id  BIGINT -> event  the op
--   dur_ns    INTEGER  time, ns
--   tid       BIGINT -> thread(pid, tid)  thread
--   name      VARCHAR -> event.nothing  name
--   more      VARCHAR  there is none
SELECT event_id, dur_ns, tid, name, 1.5::DOUBLE AS other FROM op_calls
"""


def test_columns_and_keys_are_compared_with_those_of_the_header(run: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "mine", bad=WRONG_COLUMNS) / "bad.sql"
    assert lines_of(run("query", "--check", file), file)[2:] == [
        "8: wrong: columns: dur_ns is declared INTEGER and returned BIGINT",
        "    declare it so, or write (…)::INTEGER AS dur_ns",
        "11: wrong: columns: more is declared and not returned",
        "6: wrong: columns: other DOUBLE is returned and not declared",
        "    write below Columns: other  DOUBLE  its meaning",
        "9: wrong: keys: tid joins thread(pid, tid), and there is no column pid beside it",
        "10: wrong: keys: name joins event.nothing, and event has no column nothing",
    ]


WRONG_ROWS = """\
-- What is wrong?
--
-- Kind:     analysis
-- Scope:    trace
-- Requires: op_calls
-- Columns:
--   trace_id  INTEGER -> trace  the trace
--   event_id  BIGINT -> event  the op
--   dur_ns    BIGINT  time, ns
-- Invariant: dur_ns < 3000
-- Invariant: trace_id = 0
SELECT trace_id, event_id + 2 AS event_id, dur_ns FROM op_calls
"""


def test_rows_are_held_against_invariants_and_keys(run: Any, trace: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "mine", bad=WRONG_ROWS) / "bad.sql"
    assert run("query", "--check", file).exit_code == 0
    done = run("query", "--check", file, trace)
    assert done.exit_code == 5
    assert lines_of(done, file)[3:] == [
        " ok: rows: 3",
        "10: wrong: invariants: dur_ns < 3000: not so in 1 of 3 rows",
        "    one of them: {'trace_id': 0, 'event_id': 2, 'dur_ns': 3000}",
        "11: ok: invariants: trace_id = 0",
        "7: ok: keys: trace_id → trace.trace_id",
        "8: wrong: keys: event_id: 2 of 3 rows join no row of event",
    ]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT event_id AS n,\n  what\nFROM op_calls", "9: wrong: SQL: Binder Error: Referenced"),
        ("SELECT event_id AS n FORM ops", "8: wrong: SQL: Parser Error: syntax error"),
        ("SELECT 1::BIGINT AS n; SELECT 2", " wrong: SQL: there are 2 statements in it"),
        ("DROP VIEW op_calls", " wrong: SQL: its statement is no SELECT"),
        ("SELECT n FROM read_csv('ops')", "8: wrong: SQL: Permission Error"),
    ],
)
def test_sql_that_fails_is_met_with_its_line(
    run: Any, tmp_path: Path, sql: str, found: str
) -> None:
    head = HEAD.replace("-- Columns", "-- Requires: op_calls\n-- Columns")
    file = write(tmp_path / "mine", bad=head + sql) / "bad.sql"
    done = run("query", "--check", file)
    assert done.exit_code == 5
    assert [line for line in lines_of(done, file) if line.startswith(found)], done.stdout


def test_a_file_that_cannot_be_read(run: Any, tmp_path: Path) -> None:
    done = run("query", "--check", tmp_path / "none.sql")
    assert (done.exit_code, done.stdout) == (5, "")
    assert done.stderr == f"error: {tmp_path}/none.sql: no such file\n"
