"""Items produced on another thread arrive in order, a bounded number ahead, and can be stopped."""

import threading
import time
from itertools import count

import pytest
from processes import wait_for

from tracekit.ingest import bounded_queue
from tracekit.ingest.bounded_queue import ReadAhead, StoppedError


def numbers(made, error=None):
    """Yield infinitely many numbers, or raise an error after two."""
    for number in count():
        if error is not None and number == 2:
            raise error
        made.append(number)
        yield number


def is_running():
    return any(thread.name == "tracekit-read-ahead" for thread in threading.enumerate())


@pytest.mark.parametrize(("length", "depth"), [(0, 2), (1, 1), (5, 6), (1000, 1), (1000, 6)])
def test_items_come_in_order(length, depth):
    ahead = ReadAhead((number for number in range(length)), depth)
    assert list(ahead) == list(range(length))
    ahead.close()
    assert not is_running()


@pytest.mark.parametrize("error", [ValueError("no more"), KeyboardInterrupt()])
def test_an_error_arrives_after_the_items_before_it(error):
    ahead = ReadAhead(numbers([], error), 6)
    taken = []
    with pytest.raises(type(error)) as raised:
        taken.extend(ahead)
    assert (raised.value, taken) == (error, [0, 1])
    ahead.close()
    assert not is_running()


def test_the_queue_is_bounded():
    """The thread holds one more item than fit in the queue."""
    made = []
    ahead = ReadAhead(numbers(made), 3)
    items = iter(ahead)
    for taken in range(5):
        wait_for(lambda: len(made) == taken + 4)  # noqa: B023
        time.sleep(0.02)
        assert len(made) == taken + 4
        assert next(items) == taken
    ahead.close()


@pytest.mark.parametrize("taken", [0, 1, 10])
def test_closing_ends_the_thread_and_the_generator(taken):
    """The generator may hold a file open."""
    source = numbers([])
    ahead = ReadAhead(source, 2)
    assert [item for item, _ in zip(ahead, range(taken), strict=False)] == list(range(taken))
    assert is_running()
    ahead.close()
    ahead.close()
    assert not is_running()
    assert source.gi_frame is None
    with pytest.raises(StoppedError):
        list(ahead)


def test_closing_does_not_wait_for_an_item_that_never_comes(monkeypatch):
    monkeypatch.setattr(bounded_queue, "PATIENCE_S", 0.05)
    comes = threading.Event()
    ahead = ReadAhead((number for number in range(2) if comes.wait()), 2)
    ahead.close()
    assert is_running()
    comes.set()
    wait_for(lambda: not is_running())
