"""`--ranks`: which ranks of a job leave a trace."""

from __future__ import annotations

import pytest

from tracekit.collectors.loop.plan import check_ranks, is_traced
from tracekit.collectors.process.distributed import Place
from tracekit.errors import UsageError


def traced(choice: str | None, world_size: int, per_node: int = 8) -> list[int]:
    ranks = range(world_size)
    return [r for r in ranks if is_traced(choice, Place(r, r % per_node, world_size))]


def test_the_default_is_all_of_a_small_job() -> None:
    assert traced(None, 8) == [*range(8)]
    assert traced(None, 24) == [0, 8, 16]


def test_what_can_be_chosen() -> None:
    assert traced("0,8,16-18", 24) == [0, 8, 16, 17, 18]
    assert traced("first-of-node", 4, per_node=2) == [0, 2]
    assert len(traced("all", 24)) == 24
    assert traced("99", 24) == []


@pytest.mark.parametrize("text", ["", "a", "1,", "3-1", "-1", "1--2", "0x1", "9" * 20])
def test_what_cannot(text: str) -> None:
    with pytest.raises(UsageError, match="no choice of ranks"):
        check_ranks(text)
