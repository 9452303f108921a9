"""Trying again, a little later each time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from tracekit.errors import TracekitError
from tracekit.storage.failures import as_os_error, passes
from tracekit.storage.url import Url

T = TypeVar("T")

TRIES = 6
"""How often a request is made in all; the waits between add up to about eight seconds."""

FIRST_WAIT_S = 0.25


def wait(failed: int) -> None:
    """Wait after so many failures in a row; not all who wait come back at the same moment."""
    time.sleep(FIRST_WAIT_S * 2 ** (failed - 1) * random.uniform(0.75, 1.25))


def attempt(request: Callable[[], T], url: Url) -> T:
    """Make a request, again where that may help.

    Raises:
        OSError: it failed for good; its `filename` is the shown URL.
        TracekitError: what `request` raises of its own.
    """
    for failed in range(1, TRIES + 1):
        try:
            return request()
        except TracekitError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.filename == url.shown:
                # It is in our words: what is asked could not be made.
                raise
            if failed == TRIES or not passes(error):
                # Without its cause, which may hold headers and signatures.
                raise as_os_error(error, url) from None
        wait(failed)
    raise AssertionError("unreachable")
