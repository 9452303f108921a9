"""`make predictions` records, predicts and reruns; nothing here is about how long that takes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Return the program."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(HERE))
    spec = importlib.util.spec_from_file_location("predictions_main", HERE / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in ("page", "pairs"):
        sys.modules.pop(name, None)


def test_a_pair_is_recorded_predicted_and_rerun(program: ModuleType) -> None:
    small = {"width": 32, "hidden": 32, "layers": 1, "batch": 2}
    pair = program.Pair("small", small | {"python": 50_000}, small, ("range=augment remove",))
    row = program.measured(pair, 1, 2)
    assert row.reason is None
    assert 0 < row.told_ms < row.before_ms
    assert row.low_ms <= row.told_ms <= row.high_ms
    assert row.after_ms > 0
    refused = program.Pair("no such range", small, small, ("range=nothing remove",))
    text = program.filled(program.PAGE.read_text("utf-8"), [row], 1, 2)
    assert row.line() in text
    assert program.filled(text, [], 1, 2).count("| small |") == 0
    assert program.measured(refused, 1, 2).reason is not None
