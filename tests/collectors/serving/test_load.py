"""A load: arrival times, prompts, and the order and times of its requests."""

import statistics
import time
from itertools import pairwise

import pytest

from tracekit.collectors.serving.plan import (
    Arrival,
    LoadPlan,
    LoadProgress,
    Mark,
    Prompt,
    parse_arrival,
    parse_mark,
)
from tracekit.collectors.serving.run import text_prompts, token_id_prompts
from tracekit.collectors.serving.runner import LoadRunner
from tracekit.errors import UsageError


def test_fixed_arrivals():
    assert parse_arrival("burst").schedule_ns(3, 0) == [0, 0, 0]
    assert parse_arrival("constant:4").schedule_ns(3, 0) == [0, 250_000_000, 500_000_000]
    for text in ("burst", "poisson:2.5", "constant:100"):
        assert str(parse_arrival(text)) == text


def test_poisson_has_its_rate_and_spread():
    due = parse_arrival("poisson:50").schedule_ns(20_001, 7)
    gaps = [b - a for a, b in pairwise(due)]
    assert due[0] == 0
    assert statistics.mean(gaps) == pytest.approx(20e6, rel=0.03)
    # Exponential gaps spread as widely as they are long.
    assert statistics.stdev(gaps) == pytest.approx(20e6, rel=0.05)
    assert due == Arrival("poisson", 50).schedule_ns(20_001, 7)
    assert due != Arrival("poisson", 50).schedule_ns(20_001, 8)


@pytest.mark.parametrize("text", ["", "burst:3", "poisson", "poisson:0", "constant:inf", "often"])
def test_a_wrong_arrival_is_refused(text):
    with pytest.raises(UsageError, match="--arrival"):
        parse_arrival(text)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("12", Mark(request_count=12)),
        ("10%", Mark(request_count=20)),
        ("0", Mark(request_count=0)),
        ("1.5s", Mark(duration_ns=1_500_000_000)),
        ("20ms", Mark(duration_ns=20_000_000)),
    ],
)
def test_points_in_the_load(text, mark):
    assert parse_mark(text, 200, "--profile-after") == mark


@pytest.mark.parametrize("text", ["", "s", "-1", "101%", "nan%", "1.5", "2 hours"])
def test_a_wrong_mark_is_refused(text):
    with pytest.raises(UsageError, match="--profile-for"):
        parse_mark(text, 200, "--profile-for")


@pytest.mark.parametrize(
    ("mark", "finished_count", "elapsed_ns", "is_reached"),
    [
        (Mark(request_count=2), 1, 900, False),
        (Mark(request_count=2), 2, 0, True),
        (Mark(duration_ns=100), 9, 99, False),
        (Mark(duration_ns=100), 0, 100, True),
        (Mark(request_count=0), 0, 0, True),
    ],
)
def test_a_point_of_the_load_is_reached(mark, finished_count, elapsed_ns, is_reached):
    assert mark.is_reached(finished_count, elapsed_ns) is is_reached


def test_random_ids_stay_in_the_vocabulary():
    prompts = token_id_prompts(4, 100, 2048, 5)
    ids = [token for prompt in prompts for token in prompt.token_ids or ()]
    assert len(ids) == 400
    assert 512 <= min(ids) <= max(ids) < 2048
    assert prompts == token_id_prompts(4, 100, 2048, 5)
    assert prompts != token_id_prompts(4, 100, 2048, 6)
    assert len({tuple(prompt.token_ids or ()) for prompt in prompts}) == 4


@pytest.mark.parametrize("vocabulary_size", [8, 300])
def test_small_vocabularies_have_prompts_too(vocabulary_size):
    (prompt,) = token_id_prompts(1, 50, vocabulary_size, 0)
    assert all(0 <= token < vocabulary_size for token in prompt.token_ids or ())


def test_words_are_added_until_the_engine_counts_enough():
    asked = []

    def count(text):
        asked.append(text)
        return 1 + sum(1 + len(word) // 6 for word in text.split())

    prompts, counted = text_prompts(3, 64, 0, count)
    assert counted == 64
    assert [count(prompt.text or "") for prompt in prompts] == [64, 64, 64]
    assert len({prompt.text for prompt in prompts}) == 3
    assert len(asked) <= 5 + 3


def test_lengths_that_words_cannot_give():
    prompts, counted = text_prompts(2, 5, 0, lambda text: 4 * len(text.split()))
    assert counted == 4
    assert [prompt.token_count for prompt in prompts] == [4, 4]
    # An engine that does not count tokens gets that number of words.
    prompts, counted = text_prompts(2, 10, 0, lambda _: None)
    assert counted is None
    assert [len((prompt.text or "").split()) for prompt in prompts] == [10, 10]


PLAN = LoadPlan(
    prompts=[Prompt(3, token_ids=[1, 2, 3]), Prompt(3, token_ids=[4, 5, 6])],
    arrival_ns=[0, 1000],
    max_new_token_count=1,
    warmup_prompts=[Prompt(7, text="seven words")],
    profile_prompts=[Prompt(3, token_ids=[7, 8, 9]), Prompt(3, token_ids=[8, 9, 7])],
)


class MadeUp:
    """Answers each request but one 5 ns after it was due, with one token; may break."""

    def __init__(self, breaks_at=None):
        self.sent: list[tuple[str, list[int]]] = []
        self._breaks_at = breaks_at

    def send(self, part, result):
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


def carried_out(transport, states, *, is_traced=True):
    runner = LoadRunner(PLAN, states.append)
    try:
        for part in runner.passes(is_traced=is_traced):
            transport.send(part, runner.result)
    except ConnectionError as error:
        runner.result.failure = str(error)
        runner.result.lost_ns = time.perf_counter_ns()
    return runner.finish()


def test_the_passes_go_by_in_order_and_times_begin_with_the_load():
    before_ns = time.time_ns()
    transport, states = MadeUp(), list[LoadProgress]()
    result = carried_out(transport, states)
    # Ids: the load, then the warm-up, then the profile.
    assert transport.sent == [("warm-up", [2]), ("load", [0, 1]), ("trace", [3, 4])]
    assert [state.stage for state in states] == ["warm-up", "load", "trace"]
    assert [state.finished_count for state in states] == [1, 2, 1]
    assert {state.in_flight_count for state in states} == {0}
    # Requests without an answer in the window are not failures, and are not reported.
    assert [record.request_id for record in result.records] == [0, 1, 2, 3]
    load = result.records[:2]
    assert [record.arrival_ns for record in load] == [0, 1000]
    assert [record.token_ns for record in load] == [[5], [1005]]
    warmup, traced = result.records[2:]
    assert (warmup.is_warmup, warmup.arrival_ns < 0) == (True, True)
    assert (warmup.prompt_token_count, warmup.prompt_source) == (7, "text")
    assert traced.is_profiled
    assert (result.window_start_ns, result.window_end_ns) == (
        traced.arrival_ns,
        result.window_start_ns + 100,
    )
    assert before_ns <= result.start_unix_ns <= time.time_ns()
    assert 0 < result.wall_ns <= result.window_start_ns


def test_a_load_without_a_profile_is_sent_once():
    transport = MadeUp()
    result = carried_out(transport, [], is_traced=False)
    assert [stage for stage, _ in transport.sent] == ["warm-up", "load"]
    assert len(result.records) == 3


@pytest.mark.parametrize("stage", ["warm-up", "load", "trace"])
def test_a_load_that_breaks_keeps_its_results(stage):
    begin_ns = time.perf_counter_ns()
    result = carried_out(MadeUp(breaks_at=stage), [])
    outcomes = {"warm-up": "ccc", "load": "cco", "trace": "ooo"}[stage]
    assert [record.outcome[0] for record in result.records] == list(outcomes)
    assert (result.wall_ns > 0) == (stage == "trace")
    # Since the load began, or since it was to begin; never a reading of the clock itself.
    assert 0 < result.lost_ns <= time.perf_counter_ns() - begin_ns
    # Requests that were never due have no time.
    never = [record for record in result.records if record.outcome == "cancelled"]
    assert {record.arrival_ns for record in never} <= {0}
