"""The order of tests: files that take longest begin, so that no core waits for one at the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_trace import BEGIN, group_of

_REPO = Path(__file__).resolve().parents[2]

_LONGEST = (
    "tests/evaluations/",
    "tests/collectors/test_engines.py",
    "tests/engine/test_equality.py",
    "tests/queries/test_agreement.py",
    "tests/gpu/",
    "tests/collectors/loops/",
    "tests/engine/",
    "tests/dataset/",
    "tests/collectors/test_collect_command.py",
    "tests/report/test_in_browser.py",
    "tests/docs/test_reference.py",
    "tests/test_readme.py",
    "tests/export/",
    "tests/ingest/test_growth.py",
    "tests/packaging/test_wheel.py",
    "tests/collectors/",
    "tests/plot/",
    "tests/ingest/test_two_readers.py",
    "tests/queries/",
)


def place(item: pytest.Item) -> tuple[int, str]:
    """Return what tests are sorted by: their file's place, and the trace that they are about."""
    group = group_of(item)
    file = BEGIN if group else item.path.relative_to(_REPO).as_posix()
    number = next((n for n, name in enumerate(_LONGEST) if file.startswith(name)), len(_LONGEST))
    return number, group
