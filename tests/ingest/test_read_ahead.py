"""Items made on another thread come in order, not too many ahead, and it can be stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from itertools import count

import pytest

from tracekit.ingest import bounded_queue
from tracekit.ingest.bounded_queue import ReadAhead, StoppedError


def until(is_reached: Callable[[], bool]) -> None:
    """Wait for another thread, not for ever."""
    end = time.monotonic() + 10
    while not is_reached():
        assert time.monotonic() < end, "the other thread does not get there"
        time.sleep(0.001)


def noting(made: list[int]) -> Generator[int, None, None]:
    for number in count():
        made.append(number)
        yield number


def is_running() -> bool:
    return any(thread.name == "tracekit-read-ahead" for thread in threading.enumerate())


@pytest.mark.parametrize("depth", [1, 2, 6])
@pytest.mark.parametrize("length", [0, 1, 5, 1000])
def test_the_items_come_in_order(length: int, depth: int) -> None:
    ahead = ReadAhead(iter_of(length), depth)
    assert list(ahead) == list(range(length))
    ahead.close()
    assert not is_running()


def test_an_item_may_be_none() -> None:
    assert list(ReadAhead((None for _ in range(2)), 2)) == [None, None]


@pytest.mark.parametrize("error", [ValueError("no more"), KeyboardInterrupt()])
def test_an_error_comes_behind_the_items_before_it(error: BaseException) -> None:
    def items() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise error

    ahead = ReadAhead(items(), 6)
    taken: list[int] = []
    with pytest.raises(type(error)) as raised:
        taken.extend(ahead)
    assert (raised.value, taken) == (error, [1, 2])
    ahead.close()
    assert not is_running()


def test_no_more_is_made_than_may_wait() -> None:
    """So many items wait, and one more is in the hand of the thread."""
    made: list[int] = []
    ahead = ReadAhead(noting(made), 3)
    items = iter(ahead)
    for taken in range(5):
        until(lambda: len(made) == taken + 4)  # noqa: B023
        time.sleep(0.1)
        assert len(made) == taken + 4
        assert next(items) == taken
    ahead.close()


@pytest.mark.parametrize("taken", [0, 1, 10])
def test_closing_ends_the_thread(taken: int) -> None:
    ahead = ReadAhead(noting([]), 2)
    assert [item for item, _ in zip(ahead, range(taken), strict=False)] == list(range(taken))
    assert is_running()
    ahead.close()
    assert not is_running()
    ahead.close()


def test_the_items_come_once() -> None:
    ahead = ReadAhead(iter_of(3), 2)
    assert list(ahead) == [0, 1, 2]
    with pytest.raises(StoppedError):
        list(ahead)


def test_what_is_closed_has_no_items() -> None:
    """What was made is let go, and the generator is ended: it may hold a file open."""
    items = iter_of(10)
    ahead = ReadAhead(items, 3)
    ahead.close()
    with pytest.raises(StoppedError):
        list(ahead)
    assert items.gi_frame is None


def test_an_item_that_never_comes_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_queue, "PATIENCE_S", 0.05)
    comes = threading.Event()

    def items() -> Generator[int, None, None]:
        comes.wait()
        yield 1

    ahead = ReadAhead(items(), 2)
    ahead.close()
    assert is_running()
    comes.set()
    until(lambda: not is_running())


def iter_of(length: int) -> Generator[int, None, None]:
    yield from range(length)
