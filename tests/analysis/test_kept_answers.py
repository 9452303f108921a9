"""What a breakdown found is kept with its cached store, for as long as it holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracekit
from tracekit import database
from tracekit.analysis import kept_answers
from tracekit.analysis.result import Column, Result

pytestmark = pytest.mark.usefixtures("cache")


def kept_file(trace: Path) -> Path:
    """Ask a breakdown and return the file that keeps what it found."""
    with tracekit.open(trace) as opened:
        opened.breakdown()
        assert opened.store_path is not None
        return database.answers_path(opened.store_path)


def test_the_next_breakdown_does_not_open_the_store(
    kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tracekit.open(kernels) as trace:
        first = trace.breakdown()

    def fail(*_: object, **_named: object) -> None:
        raise AssertionError("opened")

    with monkeypatch.context() as patch:
        patch.setattr(database, "open_store", fail)
        with tracekit.open(kernels) as trace:
            assert trace.breakdown() == first
            assert trace.query("timeline") == first["timeline"]
    with tracekit.open(kernels) as trace:
        assert trace.query("kernels", limit=1).rows == first["kernels"].rows[:1]
        assert trace.sql("SELECT count(*) FROM kernel_class").rows


def test_other_sql_or_a_damaged_file_has_it_asked_again(
    kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = kept_file(kernels)
    with tracekit.open(kernels) as trace:
        first = trace.breakdown()
    digest, tables = json.loads(file.read_text())
    tables["timeline"][1] = []
    for text in (json.dumps(["of other SQL", tables]), "[", "{}", json.dumps([digest, {"a": 1}])):
        file.write_text(text)
        with tracekit.open(kernels) as trace:
            assert trace.breakdown() == first
    assert json.loads(file.read_text())[0] == digest


def test_it_goes_with_its_store(kernels: Path) -> None:
    file = kept_file(kernels)
    assert file.stat().st_mode & 0o077 == 0
    database.clear_cache()
    assert not file.exists()


def test_a_folder_that_others_write_is_not_believed(kernels: Path, cache: Path) -> None:
    file = kept_file(kernels)
    cache.chmod(0o770)
    digest, tables = json.loads(file.read_text())
    file.write_text(json.dumps([digest, {**tables, "timeline": [tables["timeline"][0], []]}]))
    with tracekit.open(kernels) as trace:
        assert trace.breakdown()["timeline"].rows


@pytest.mark.parametrize("value", [float("nan"), {1: "a"}, (1, 2), b"a"])
def test_what_json_would_change_is_not_kept(tmp_path: Path, value: object) -> None:
    store = tmp_path / "store.duckdb"
    answers = {"one": Result("one", (Column("a", "DOUBLE"),), [(value,)])}
    kept_answers.keep_answers(store, answers)
    assert kept_answers.kept_answers(store) == {}
    answers = {"one": Result("one", (Column("a", "HUGEINT"),), [(2**100, None, 0.1, ["µ"])])}
    kept_answers.keep_answers(store, answers)
    assert kept_answers.kept_answers(store) == answers
