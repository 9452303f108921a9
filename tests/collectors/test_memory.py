"""Which errors say that memory ran out."""

from __future__ import annotations

import pytest

from tracekit.collectors.machine.memory import is_out_of_memory, out_of_memory_reason

LIBRARY = "/lib/_regex.so: failed to map segment from shared object"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (OSError(12, "Cannot allocate memory"), True),
        # A limit on the memory of a process may be met by a library that is loaded.
        (ImportError(LIBRARY), True),
        (ImportError(f"{LIBRARY}: Cannot allocate memory"), True),
        (ImportError(f"{LIBRARY}: Operation not permitted"), False),
        (ImportError("No module named 'regex'"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_is_out_of_memory(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


def test_what_led_to_an_error_counts() -> None:
    outer = RuntimeError("the model could not be made")
    outer.__cause__ = ImportError(LIBRARY)
    assert is_out_of_memory(outer)


def test_the_reason_is_one_line() -> None:
    error = ImportError(f"while loading\n{LIBRARY}\nand more")
    assert out_of_memory_reason(error) == LIBRARY
