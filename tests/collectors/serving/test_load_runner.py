"""A load over a made-up transport: what is sent in which order, and which times come out."""

from __future__ import annotations

import time

import pytest

from tracekit.collectors.serving.plan import LoadPlan, LoadProgress, LoadResult, Prompt
from tracekit.collectors.serving.runner import LoadRunner, Pass

PLAN = LoadPlan(
    prompts=[Prompt(3, token_ids=[1, 2, 3]), Prompt(3, token_ids=[4, 5, 6])],
    arrival_ns=[0, 1000],
    max_new_token_count=1,
    warmup_prompts=[Prompt(7, text="seven words")],
    profile_prompts=[Prompt(3, token_ids=[7, 8, 9]), Prompt(3, token_ids=[8, 9, 7])],
)


class MadeUp:
    """Answers each request 5 ns after it was due with a token, but for one; may break."""

    def __init__(self, breaks_at: str | None = None) -> None:
        self.sent: list[tuple[str, list[int]]] = []
        self._breaks_at = breaks_at

    def send(self, part: Pass, result: LoadResult) -> None:
        if part.stage == self._breaks_at:
            raise ConnectionError("gone")
        part.begin()
        self.sent.append((part.stage, [record.request_id for record in part.records]))
        for record in part.records:
            part.sent()
            record.sent_ns = record.arrival_ns
            if (part.stage, record.request_id) == ("trace", 4):
                part.left()
                continue
            record.token_ns = [record.arrival_ns + 5]
            record.first_token_ns = record.end_ns = record.arrival_ns + 5
            record.outcome, record.output_token_count = "ok", 1
            part.finished(record)
        part.end("not sent")
        if part.stage == "trace" and part.begin_ns is not None:
            result.window_start_ns, result.window_end_ns = part.begin_ns, part.begin_ns + 100


def carried_out(
    transport: MadeUp, states: list[LoadProgress], *, is_traced: bool = True
) -> LoadResult:
    runner = LoadRunner(PLAN, states.append)
    try:
        for part in runner.passes(is_traced=is_traced):
            transport.send(part, runner.result)
    except ConnectionError as error:
        runner.result.failure = str(error)
        runner.result.lost_ns = time.perf_counter_ns()
    return runner.finish()


def test_the_passes_go_by_in_order_and_times_begin_with_the_load() -> None:
    before_ns = time.time_ns()
    transport, states = MadeUp(), list[LoadProgress]()
    result = carried_out(transport, states)
    # The ids of the warm-up follow those of the load, and those of the profile both.
    assert transport.sent == [("warm-up", [2]), ("load", [0, 1]), ("trace", [3, 4])]
    assert [state.stage for state in states] == ["warm-up", "load", "trace"]
    assert [state.finished_count for state in states] == [1, 2, 1]
    assert {state.in_flight_count for state in states} == {0}
    # What the window left unanswered is no failure, and is not told of.
    assert [record.request_id for record in result.records] == [0, 1, 2, 3]
    load = result.records[:2]
    assert [record.arrival_ns for record in load] == [0, 1000]
    assert [record.token_ns for record in load] == [[5], [1005]]
    warmup, traced = result.records[2:]
    assert (warmup.is_warmup, warmup.arrival_ns < 0) == (True, True)
    assert (warmup.prompt_token_count, warmup.prompt_source) == (7, "text")
    assert traced.is_profiled
    assert result.window_start_ns is not None
    assert (result.window_start_ns, result.window_end_ns) == (
        traced.arrival_ns,
        result.window_start_ns + 100,
    )
    assert before_ns <= result.start_unix_ns <= time.time_ns()
    assert 0 < result.wall_ns <= result.window_start_ns


def test_a_load_without_a_profile_is_sent_once() -> None:
    transport = MadeUp()
    result = carried_out(transport, [], is_traced=False)
    assert [stage for stage, _ in transport.sent] == ["warm-up", "load"]
    assert len(result.records) == 3


@pytest.mark.parametrize("stage", ["warm-up", "load", "trace"])
def test_what_ends_a_load_leaves_what_there_is(stage: str) -> None:
    begin_ns = time.perf_counter_ns()
    result = carried_out(MadeUp(breaks_at=stage), [])
    outcomes = {"warm-up": "ccc", "load": "cco", "trace": "ooo"}[stage]
    assert [record.outcome[0] for record in result.records] == list(outcomes)
    assert (result.wall_ns > 0) == (stage == "trace")
    # Since the load began, or since it was to begin; never a reading of the clock itself.
    assert result.lost_ns is not None
    assert 0 < result.lost_ns <= time.perf_counter_ns() - begin_ns
    # What was never due has no time.
    never = [record for record in result.records if record.outcome == "cancelled"]
    assert {record.arrival_ns for record in never} <= {0}
