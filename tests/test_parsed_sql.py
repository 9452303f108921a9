"""SQL that is run again is parsed once, and does what its text does."""

from __future__ import annotations

import duckdb
import pytest

from tracekit.database import execute, parsed


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with nothing parsed."""
    monkeypatch.setattr(parsed, "_seen", set())
    monkeypatch.setattr(parsed, "_parsed", type(parsed._parsed)())


def test_statements_do_the_same_each_time_on_any_connection() -> None:
    text = "CREATE TABLE two AS SELECT 1 AS a; INSERT INTO two VALUES (2); SELECT sum(a) FROM two"
    for _ in range(3):
        with duckdb.connect() as connection:
            execute(connection, text)
            assert connection.description == [("sum(a)", "HUGEINT", None, None, None, None, None)]
            assert connection.fetchall() == [(3,)]
            # What was made is there for others at once.
            assert connection.cursor().execute("FROM two").fetchall() == [(1,), (2,)]


def test_a_text_is_kept_from_the_second_time_on() -> None:
    with duckdb.connect() as connection:
        execute(connection, "SELECT 1")
        assert not parsed._parsed
        execute(connection, "SELECT 1")
        assert list(parsed._parsed) == ["SELECT 1"]
        assert connection.fetchall() == [(1,)]


def test_what_was_not_used_for_long_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsed, "_MOST_STATEMENTS", 2)
    with duckdb.connect() as connection:
        for text in ("SELECT 1", "SELECT 2", "SELECT 1", "SELECT 3", "SELECT 4"):
            execute(connection, text)
            execute(connection, text)
    assert list(parsed._parsed) == ["SELECT 3", "SELECT 4"]


@pytest.mark.parametrize("text", ["SELEC 1", "SELECT * FROM nothing_there", "SELECT error('no')"])
def test_an_error_is_that_of_the_text(text: str) -> None:
    with duckdb.connect() as connection:

        def answer() -> None:
            execute(connection, text)
            connection.fetchall()

        with pytest.raises(duckdb.Error) as plain:
            connection.execute(text).fetchall()
        for _ in range(3):
            with pytest.raises(type(plain.value)) as found:
                answer()
            assert str(found.value) == str(plain.value)
        execute(connection, "SELECT 5")
        assert connection.fetchall() == [(5,)]
