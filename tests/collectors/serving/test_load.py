"""A load: arrival times, prompts, and the order and times of its requests."""

import statistics
import time
from itertools import pairwise

import pytest

from tracekit.collectors.serving.plan import (
    LoadPlan,
    Mark,
    Prompt,
    parse_arrival,
    parse_mark,
)
from tracekit.collectors.serving.run import text_prompts, token_id_prompts
from tracekit.collectors.serving.runner import LoadRunner
from tracekit.errors import UsageError


def test_arrivals():
    assert parse_arrival("burst").schedule_ns(3, 0) == [0, 0, 0]
    assert parse_arrival("constant:4").schedule_ns(3, 0) == [0, 250_000_000, 500_000_000]
    due = parse_arrival("poisson:50").schedule_ns(20_001, 7)
    gaps = [b - a for a, b in pairwise(due)]
    assert due[0] == 0
    # Exponential gaps spread as widely as they are long.
    assert statistics.mean(gaps) == pytest.approx(20e6, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(20e6, rel=0.05)
    assert due == parse_arrival("poisson:50").schedule_ns(20_001, 7)
    assert due != parse_arrival("poisson:50").schedule_ns(20_001, 8)


MARKS = {
    "12": Mark(request_count=12),
    "10%": Mark(request_count=20),
    "0": Mark(request_count=0),
    "1.5s": Mark(duration_ns=1_500_000_000),
    "20ms": Mark(duration_ns=20_000_000),
}


def test_points_in_the_load():
    assert {text: parse_mark(text, 200, "--profile-after") for text in MARKS} == MARKS
    assert [MARKS["12"].is_reached(count, 10**18) for count in (11, 12)] == [False, True]
    assert [MARKS["20ms"].is_reached(99, at) for at in (19_999_999, 20_000_000)] == [False, True]


def test_wrong_arrivals_and_marks_are_refused():
    for text in ("", "burst:3", "poisson", "poisson:0", "constant:inf", "often"):
        with pytest.raises(UsageError, match="--arrival"):
            parse_arrival(text)
    for text in ("", "s", "-1", "101%", "nan%", "1.5", "2 hours"):
        with pytest.raises(UsageError, match="--profile-for"):
            parse_mark(text, 200, "--profile-for")


@pytest.mark.parametrize(("size", "least"), [(2048, 512), (300, 0), (8, 0)])
def test_random_ids_stay_in_the_vocabulary(size, least):
    prompts = token_id_prompts(4, 100, size, 5)
    ids = [token for prompt in prompts for token in prompt.token_ids or ()]
    assert len(ids) == 400
    assert least <= min(ids) <= max(ids) < size
    assert prompts == token_id_prompts(4, 100, size, 5) != token_id_prompts(4, 100, size, 6)
    assert len({tuple(prompt.token_ids or ()) for prompt in prompts}) == 4


def test_words_are_added_until_the_engine_counts_enough():
    texts = []

    def count(text):
        texts.append(text)
        return 1 + sum(1 + len(word) // 6 for word in text.split())

    prompts, counted = text_prompts(3, 64, 0, count)
    assert counted == 64
    assert [count(prompt.text or "") for prompt in prompts] == [64, 64, 64]
    assert len({prompt.text for prompt in prompts}) == 3
    assert len(texts) <= 5 + 3


def test_lengths_that_words_cannot_give():
    prompts, counted = text_prompts(2, 5, 0, lambda text: 4 * len(text.split()))
    assert [counted, *(prompt.token_count for prompt in prompts)] == [4, 4, 4]
    # An engine that does not count tokens gets that number of words.
    prompts, counted = text_prompts(2, 10, 0, lambda _: None)
    assert counted is None
    assert [len((prompt.text or "").split()) for prompt in prompts] == [10, 10]


PLAN = LoadPlan(
    prompts=[Prompt(3, token_ids=[1, 2, 3]), Prompt(3, token_ids=[4, 5, 6])],
    arrival_ns=[0, 1000],
    max_new_token_count=1,
    warmup_prompts=[Prompt(7, text="seven words")],
)


@pytest.mark.parametrize(
    ("stage", "outcomes", "counts"),
    [("warm-up", "ccc", []), ("load", "cco", [1]), ("trace", "ooo", [1, 2])],
)
def test_a_load_that_breaks_keeps_its_results(stage, outcomes, counts):
    begin_ns, states = time.perf_counter_ns(), []
    runner = LoadRunner(PLAN, states.append)
    for part in runner.passes(is_traced=True):
        if part.stage == stage:
            break
        part.begin()
        for record in part.records:
            part.sent()
            record.outcome = "ok"
            part.finished(record)
        part.end("not sent")
    runner.result.lost_ns = time.perf_counter_ns()
    result = runner.finish()
    assert [record.outcome[0] for record in result.records] == list(outcomes)
    assert [(state.finished_count, state.in_flight_count) for state in states] == [
        (count, 0) for count in counts
    ]
    assert (result.wall_ns > 0) == (stage == "trace")
    # Since the load began, or since it was to begin; never a reading of the clock itself.
    assert 0 < result.lost_ns <= time.perf_counter_ns() - begin_ns
    # Requests that were never due have no time.
    never = [record for record in result.records if record.outcome == "cancelled"]
    assert {record.arrival_ns for record in never} <= {0}
