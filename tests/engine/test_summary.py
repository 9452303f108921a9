"""A breakdown of many ranks keeps no events; whoever asks for more has them read once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_of_ranks import write_ranks
from traces_by_hand import call, kernel

import tracekit
from tracekit.dataset.layout import LARGE_TABLES
from tracekit.dataset.manifest import Manifest, read_manifest
from tracekit.engine import many_ranks
from tracekit.engine.choice import EngineChoice
from tracekit.errors import QueryError
from tracekit.storage import Location

SERIAL = EngineChoice("serial")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("summary") / "run"
    write_ranks(folder, 2)
    return folder


@pytest.fixture(scope="module")
def whole(run: Path) -> Iterator[tracekit.Trace]:
    with tracekit.open(run, cache=False, engine=SERIAL) as trace:
        yield trace


@pytest.fixture
def datasets(monkeypatch: pytest.MonkeyPatch) -> list[Manifest]:
    found: list[Manifest] = []
    make = many_ranks.make_dataset

    def spied(*args: Any, **options: Any) -> Manifest:
        found.append(make(*args, **options))
        return found[-1]

    monkeypatch.setattr(many_ranks, "make_dataset", spied)
    return found


@pytest.fixture
def few_analyses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let datasets have the rows of one analysis: most of their time goes into those."""
    monkeypatch.setattr(many_ranks, "BREAKDOWN", ("timeline",))


def test_a_breakdown_alone_is_the_same(
    run: Path, datasets: list[Manifest], whole: tracekit.Trace
) -> None:
    with tracekit.open(run, cache=False, engine=SERIAL, only_breakdown=True) as trace:
        assert trace.breakdown() == whole.breakdown()
    [summary] = datasets
    assert summary.left_out == [*LARGE_TABLES]
    assert not set(LARGE_TABLES) & set(summary.tables)


@pytest.mark.usefixtures("few_analyses")
def test_other_questions_have_the_events_read(
    run: Path, datasets: list[Manifest], whole: tracekit.Trace
) -> None:
    questions: list[Callable[[tracekit.Trace], Any]] = [
        lambda trace: trace.query("kernels", limit=1).rows,
        lambda trace: trace.sql("SELECT count(*) FROM event").rows,
        lambda trace: trace.connection.execute("SELECT count(*) FROM event").fetchall(),
    ]
    expected = [question(whole) for question in questions]
    for question, answer in zip(questions, expected, strict=True):
        datasets.clear()
        with tracekit.open(run, cache=False, engine=SERIAL, only_breakdown=True) as trace:
            assert trace.query("timeline").rows
            assert len(datasets) == 1
            assert question(trace) == answer
            assert trace.query("timeline").rows
        assert [bool(one.left_out) for one in datasets] == [True, False]


RUN_QUESTIONS = ("rank_summary", "collective_skew", "waits", "step_spread", "idle_causes", "health")


def test_what_is_asked_behind_a_breakdown_reads_no_rank_again(
    run: Path, datasets: list[Manifest], whole: tracekit.Trace
) -> None:
    expected = [whole.query(name) for name in RUN_QUESTIONS]
    [kept] = whole.query("collective_skew", limit=1).rows
    with tracekit.open(run, engine=SERIAL, only_breakdown=True) as trace:
        assert trace.breakdown() == whole.breakdown()
        assert trace.store_path is not None
        assert_no_empty_run(trace.store_path)
    with tracekit.open(run, engine=SERIAL, accept_summary=True) as trace:
        assert [trace.query(name) for name in RUN_QUESTIONS] == expected
        assert trace.query("collective_skew", limit=1).rows == [kept]
        assert len(datasets) == 1
        assert len(trace.query("kernels", limit=1)) == 2
    assert [bool(one.left_out) for one in datasets] == [True, False]
    # From now on there is all of it.
    with tracekit.open(run, engine=SERIAL, accept_summary=True) as trace:
        assert len(trace.query("kernels", limit=1)) == 2
        assert trace.store_path is not None
    assert len(datasets) == 2


def assert_no_empty_run(summary: Path) -> None:
    """Check that a summary is never taken for a run without events."""
    manifest = read_manifest(Location.of(summary))
    assert manifest is not None
    assert "record" in manifest.left_out
    with tracekit.open(summary) as trace:
        assert trace.breakdown()["timeline"].rows
        for table in ("record", "event", "attributed_events"):
            with pytest.raises(QueryError, match="does not exist"):
                trace.sql(f"FROM {table}")


@pytest.mark.usefixtures("few_analyses")
@pytest.mark.parametrize("is_kept", [True, False])
def test_without_a_breakdown_before_a_question_keeps_all(
    run: Path, datasets: list[Manifest], *, is_kept: bool
) -> None:
    with tracekit.open(run, cache=is_kept, engine=SERIAL, accept_summary=True) as trace:
        assert len(trace.query("rank_summary")) == 2
    if is_kept:
        # What is whole already is not summed up.
        with tracekit.open(run, engine=SERIAL, only_breakdown=True) as trace:
            assert trace.sql("SELECT count(*) > 0 FROM event").rows == [(True,)]
    assert [one.left_out for one in datasets] == [[]]


def test_with_ceilings_the_compared_events_are_there(
    tiny_trace: Callable[..., Path], make_bench: Callable[..., Path], datasets: list[Manifest]
) -> None:
    device = {"device_name": "NVIDIA H100", "unit_count": 132, "thread_count": 8}
    copy = {"family": "memcpy", "op": "d2d", "message_bytes": 2000, "median_ns": 10_000.0}
    bench = make_bench("bench", [copy], device="cuda:0", **device)
    events = [
        call(0, 1, 1),
        kernel("Memcpy DtoD (Device -> Device)", 0, 10, 1, bytes=1000),
    ]
    paths = [
        tiny_trace(
            events,
            f"rank{rank}.json",
            deviceProperties=[{"id": 0, "name": "NVIDIA H100", "numSms": 132}],
            distributedInfo={"rank": rank, "world_size": 2},
        )
        for rank in range(2)
    ]
    with tracekit.open(*paths, ceilings=bench, engine=SERIAL, only_breakdown=True) as trace:
        found = trace.breakdown()
    assert [row["ceiling_pct"] for row in found["memcpy"].to_dicts()] == [pytest.approx(50)] * 2
    # Those are all that were read: once.
    [summary] = datasets
    assert {*LARGE_TABLES} - {*summary.left_out} == {"attribution", "device_events"}
    with tracekit.open(*paths, ceilings=bench, cache=False, engine=SERIAL) as trace:
        assert trace.breakdown() == found
