"""Arrival, points in the load, prompts: what is sent and when, the same for the same seed."""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from tracekit.collectors.serving.plan import Arrival, Mark, parse_arrival, parse_mark
from tracekit.collectors.serving.prompts import text_prompts, token_id_prompts
from tracekit.errors import UsageError


def test_a_burst_is_all_at_once() -> None:
    assert parse_arrival("burst").schedule_ns(3, 0) == [0, 0, 0]


def test_constant_gaps() -> None:
    assert parse_arrival("constant:4").schedule_ns(3, 0) == [0, 250_000_000, 500_000_000]


def test_poisson_has_its_rate_and_spread() -> None:
    due = parse_arrival("poisson:50").schedule_ns(20_001, 7)
    gaps = [b - a for a, b in pairwise(due)]
    assert due[0] == 0
    assert statistics.mean(gaps) == pytest.approx(20e6, rel=0.03)
    # Exponential gaps spread as widely as they are long.
    assert statistics.stdev(gaps) == pytest.approx(20e6, rel=0.05)
    assert due == Arrival("poisson", 50).schedule_ns(20_001, 7)
    assert due != Arrival("poisson", 50).schedule_ns(20_001, 8)


@pytest.mark.parametrize("text", ["burst", "poisson:2.5", "constant:100"])
def test_arrival_prints_as_it_was_given(text: str) -> None:
    assert str(parse_arrival(text)) == text


@pytest.mark.parametrize("text", ["", "burst:3", "poisson", "poisson:0", "constant:inf", "often"])
def test_what_is_no_arrival_is_refused(text: str) -> None:
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
def test_points_in_the_load(text: str, mark: Mark) -> None:
    assert parse_mark(text, 200, "--profile-after") == mark


@pytest.mark.parametrize("text", ["", "s", "-1", "101%", "nan%", "1.5", "2 hours"])
def test_what_is_no_point_is_refused(text: str) -> None:
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
def test_a_point_of_the_load_is_reached(
    mark: Mark, finished_count: int, elapsed_ns: int, is_reached: bool
) -> None:
    assert mark.is_reached(finished_count, elapsed_ns) is is_reached


def test_random_ids_stay_in_the_vocabulary() -> None:
    prompts = token_id_prompts(4, 100, 2048, 5)
    ids = [token for prompt in prompts for token in prompt.token_ids or ()]
    assert len(ids) == 400
    assert 512 <= min(ids) <= max(ids) < 2048
    assert prompts == token_id_prompts(4, 100, 2048, 5)
    assert prompts != token_id_prompts(4, 100, 2048, 6)
    assert len({tuple(prompt.token_ids or ()) for prompt in prompts}) == 4


@pytest.mark.parametrize("vocabulary_size", [8, 300])
def test_small_vocabularies_have_prompts_too(vocabulary_size: int) -> None:
    (prompt,) = token_id_prompts(1, 50, vocabulary_size, 0)
    assert all(0 <= token < vocabulary_size for token in prompt.token_ids or ())


def test_words_are_added_until_the_engine_counts_enough() -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return 1 + sum(1 + len(word) // 6 for word in text.split())

    prompts, counted = text_prompts(3, 64, 0, count)
    assert counted == 64
    assert [count(prompt.text or "") for prompt in prompts] == [64, 64, 64]
    assert len({prompt.text for prompt in prompts}) == 3
    assert len(asked) <= 5 + 3


def test_the_closest_length_is_kept() -> None:
    prompts, counted = text_prompts(2, 5, 0, lambda text: 4 * len(text.split()))
    assert counted == 4
    assert [prompt.token_count for prompt in prompts] == [4, 4]


def test_an_engine_that_does_not_count_gets_as_many_words() -> None:
    prompts, counted = text_prompts(2, 10, 0, lambda _: None)
    assert counted is None
    assert [len((prompt.text or "").split()) for prompt in prompts] == [10, 10]
