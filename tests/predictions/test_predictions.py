"""`make predictions` records, predicts and reruns; nothing here is about how long that takes."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

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
    for name in ("page", "pairs", "serving"):
        sys.modules.pop(name, None)


def test_a_pair_is_recorded_predicted_and_rerun(
    program: ModuleType, python: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", python("eager"))
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


def test_a_load_is_recorded_predicted_and_rerun(program: ModuleType, tmp_path: Path) -> None:
    made = []

    def run(folder: Path, options: Mapping[str, Any]) -> None:
        made.append((folder.name, options["--concurrency"], options.get("--arrival")))
        folder.mkdir()
        for name in ("run.json", "requests.jsonl"):
            shutil.copy(HERE.parents[1] / "sample_traces" / "serve_transformers" / name, folder)

    serving = program.serving
    four = {"--concurrency": 4}
    half = {"rate": 0.5}
    pairs = [
        serving.ServingPair("same", {}, {}, "batch limit=32"),
        serving.ServingPair("refused", {}, four, "batch limit=4", four),
        serving.ServingPair("half of 35.6 requests/s", half, half, "rate x1"),
    ]
    folders = serving.recorded(pairs, tmp_path, 2, run)
    once = [(8, None), (4, None), (8, "poisson:17.8")]
    rounds = [(f"load{place}-{n}", *load) for n in range(2) for place, load in enumerate(once)]
    assert made == [("capacity", 8, None), *rounds]
    same, refused = (serving.measured(pair, folders) for pair in pairs[:2])
    assert [abs(same.error_pct(measure)) < 3 for measure in serving.MEASURES] == [True] * 3
    assert same.noise_pct("tpot_mean_ns") == 0
    assert refused.refusal.startswith("2 of 2 refused: steps that")
    text = serving.filled(program.PAGE.read_text("utf-8"), [same, refused], 2)
    assert same.line() in text
    assert "1 of 2 pairs have a prediction" in text
