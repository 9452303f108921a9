"""What rules say of names is the same when they are tried, remembered, or tried inside DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tracekit.analysis import name_rules
from tracekit.analysis.name_rules import NameRules

RULES = NameRules(
    "ruled",
    "SELECT applies_to, category, name FROM work",
    {"rule_id": "INTEGER", "label": "VARCHAR"},
    {
        "device": "SELECT category, name, CASE WHEN regexp_matches(category, '^k') "
        "AND regexp_matches(name, 'gemm') THEN 1 END AS rule_id, NULL::VARCHAR AS label FROM given",
        "cpu": "SELECT category, name, 2 AS rule_id, upper(name) AS label FROM given",
    },
)
WORK = [
    ("device", "kernel", "sm90_gemm"),
    ("device", "copy", "sm90_gemm"),
    ("device", None, 'it\'s a "gemm"\0\\'),
    ("device", "kernel", "añb\U0001f600gemm"),
    ("cpu", "cpu_op", "aten::mm"),
    ("cpu", "cpu_op", ""),
    ("cpu", "cpu_op", None),
]
SAID = [
    ("kernel", "sm90_gemm", 1, None),
    ("copy", "sm90_gemm", None, None),
    (None, 'it\'s a "gemm"\0\\', None, None),
    ("kernel", "añb\U0001f600gemm", 1, None),
    ("cpu_op", "aten::mm", 2, "ATEN::MM"),
    ("cpu_op", "", 2, ""),
    ("cpu_op", None, 2, None),
]


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    name_rules._memory.forget()
    yield
    name_rules._memory.forget()


def said_of(
    work: list[tuple[str, str | None, str | None]], rules: NameRules = RULES
) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS scratch")
        connection.execute("CREATE TABLE work (applies_to VARCHAR, category VARCHAR, name VARCHAR)")
        if work:
            connection.executemany("INSERT INTO work VALUES (?, ?, ?)", work)
        rules.apply(connection)
        found = connection.execute("FROM scratch.ruled").fetchall()
        types = connection.execute("SELECT * FROM (DESCRIBE scratch.ruled)").fetchall()
        assert [kind for _, kind, *_ in types] == ["VARCHAR", "VARCHAR", "INTEGER", "VARCHAR"]
        return found


def in_order(rows: list[tuple[object, ...]]) -> list[str]:
    return sorted(map(repr, rows))


def test_tried_for_the_first_time() -> None:
    assert in_order(said_of(WORK)) == in_order(SAID)


def test_remembered_and_tried_on_what_is_new() -> None:
    said_of(WORK[:1])
    assert in_order(said_of(WORK)) == in_order(SAID)
    assert in_order(said_of(WORK)) == in_order(SAID)
    more = [*WORK, ("cpu", "cpu_op", "aten::add")]
    assert in_order(said_of(more)) == in_order([*SAID, ("cpu_op", "aten::add", 2, "ATEN::ADD")])


def test_names_that_are_known_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said_of(WORK)

    def tried(*_: object) -> str:
        raise AssertionError("tried again")

    monkeypatch.setattr(name_rules, "_over_lists", tried)
    assert in_order(said_of(WORK)) == in_order(SAID)


def test_no_names() -> None:
    assert said_of([]) == []


@pytest.mark.parametrize("limit", ["_MOST_NAMES", "_LONGEST_NAME"])
def test_very_many_names_and_very_long_ones(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(name_rules, limit, 6)
    assert in_order(said_of(WORK)) == in_order(SAID)
    assert name_rules._memory.known == {}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_rules, "_MOST_NAMES_KEPT", 3)
    monkeypatch.setattr(name_rules, "_MOST_SELECTS_KEPT", 3)
    for number in range(5):
        select = f"SELECT category, name, {number} AS rule_id, 'x' AS label FROM given"
        rules = NameRules("ruled", RULES.names, RULES.answers, {"cpu": select})
        for name in ("a", "b", "c", "d"):
            assert said_of([("cpu", "op", name)], rules) == [("op", name, number, "x")]
    assert len(name_rules._memory.known) <= 3
    assert all(len(known.answers) <= 4 for known in name_rules._memory.known.values())


def test_other_rules_say_what_they_say() -> None:
    said_of(WORK)
    other = "SELECT category, name, 7 AS rule_id, 'other' AS label FROM given"
    rules = NameRules("ruled", RULES.names, RULES.answers, {"device": other, "cpu": other})
    assert {row[2:] for row in said_of(WORK, rules)} == {(7, "other")}


def test_a_forked_process_waits_for_no_thread_of_its_parent() -> None:
    said_of(WORK[:1])
    with name_rules._memory.lock:
        name_rules._begin_anew()
        assert in_order(said_of(WORK)) == in_order(SAID)
