"""What a model is given counts as tokens where it is tokens, and its sizes where they are known."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tracekit.collectors.loop.tokens import TokenCounter  # noqa: E402

IDS = torch.zeros((3, 5), dtype=torch.int64)
PICTURES = torch.zeros((3, 2, 4, 4))


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((IDS,), {}, 15),
        ((), {"input_ids": IDS, "labels": IDS}, 15),
        (({"input_ids": IDS},), {}, 15),
        ((PICTURES,), {"input_ids": IDS}, 15),
        ((None, IDS), {}, 15),
        ((PICTURES, IDS), {}, 0),  # labels
        ((torch.zeros(3, 2), torch.zeros((2, 9), dtype=torch.int64)), {}, 0),  # edges of a graph
        ((PICTURES,), {"labels": IDS}, 0),
        ((), {"tokens": IDS}, 15),
        ((), {"idx": IDS, "targets": IDS}, 15),
        ((), {"attention_mask": IDS, "labels": IDS, "x": IDS}, 15),
        (({"tokens": IDS, "labels": IDS},), {}, 15),
        ((), {"labels": IDS, "pixel_values": PICTURES}, 0),
        ((), {"edge_index": IDS, "x": torch.zeros(3, 2)}, 0),
    ],
)
def test_what_counts_as_tokens(args: Any, kwargs: Any, expected: int) -> None:
    assert counted(torch.nn.Linear(1, 1), (args, kwargs)).total == expected


def test_the_batch_may_be_the_second_dimension() -> None:
    plain = counted(torch.nn.Embedding(4, 2), ((IDS,), {}))
    assert (plain.batch_size, plain.sequence_length) == (3, 5)
    recurrent = counted(torch.nn.LSTM(2, 2), ((IDS,), {}))
    assert (recurrent.total, recurrent.batch_size, recurrent.sequence_length) == (15, None, None)
    told = counted(torch.nn.LSTM(2, 2, batch_first=True), ((IDS,), {}))
    assert (told.batch_size, told.sequence_length) == (3, 5)


def test_parts_of_a_model_are_given_the_same_tokens() -> None:
    counter = TokenCounter()
    counter.begin()
    words, places = torch.nn.Embedding(4, 2), torch.nn.Embedding(4, 2)
    for _ in range(2):
        for part in (words, places):
            counter.count(part, (IDS,), {})
        counter.keep_step()
    assert counter.total == 2 * 15


def test_vmap_hides_the_batch() -> None:
    model = torch.nn.Embedding(4, 2)
    counter = TokenCounter()
    counter.begin()

    def one(ids: Any) -> Any:
        counter.count(model, (ids[None],), {})
        return model(ids)

    torch.vmap(one)(torch.zeros((8, 16), dtype=torch.int64))
    counter.keep_step()
    assert (counter.total, counter.batch_size, counter.sequence_length) == (8 * 16, 8, 16)


@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize(("is_changed", "count"), [(True, 1), (False, 2)])
def test_a_batch_that_is_seen_again_counts_once(
    is_changed: bool, count: int, is_copied: bool
) -> None:
    """After a change of the parameters, as of SAM and LBFGS; else it is accumulated."""
    model = torch.nn.Embedding(4, 2)
    counter = TokenCounter()
    counter.begin()
    for _ in range(3):
        for _ in range(2):
            ids = IDS[:, :-1]
            counter.count(model, (ids.clone() if is_copied else ids,), {})
            if is_changed:
                with torch.no_grad():
                    model.weight.add_(1)
        counter.keep_step()
    counter.end()
    assert counter.total == 3 * count * 12


def test_other_batches_of_one_step_count() -> None:
    """As of a critic that steps more often: the parameters change, and what is given too."""
    model = torch.nn.Embedding(4, 2)
    counter = TokenCounter()
    counter.begin()
    for number in (0, 1):
        counter.count(model, (IDS + number,), {})
        with torch.no_grad():
            model.weight.add_(1)
    counter.keep_step()
    counter.end()
    assert counter.total == 2 * 15


def test_what_varies_is_a_range() -> None:
    model = torch.nn.Embedding(4, 2)
    other = torch.zeros((3, 1200), dtype=torch.int64)
    counter = counted(model, ((IDS,), {}), ((other,), {}))
    assert (counter.batch_size, counter.sequence_length) == (3, None)
    assert counter.ranges == "5 to 1,200 tokens in a sequence"
    assert counted(model, ((IDS,), {})).ranges is None


@pytest.mark.parametrize(
    ("args", "expected"),
    [((PICTURES,), True), ((IDS,), False), ((IDS[0],), False), ((), False)],
)
def test_what_is_not_seen_is_not_called_without_tokens(args: Any, expected: bool) -> None:
    assert counted(torch.nn.Linear(1, 1), (args, {})).is_without_ids is expected


def counted(module: Any, *calls: Any) -> TokenCounter:
    counter = TokenCounter()
    counter.begin()
    for args, kwargs in calls:
        counter.count(module, args, kwargs)
    counter.keep_step()
    return counter
