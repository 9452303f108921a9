"""Several analyses at a time: what finds no room beside another is run alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from traces_by_hand import call, kernel

import tracekit
from tracekit.analysis import run
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.run import run_analyses
from tracekit.errors import StoreError

NAMES = ("kernels", "phases", "timeline")


@pytest.fixture
def trace(tiny_trace: Callable[..., Path]) -> Any:
    events = [call(0, 2, 1), kernel("gemm", 5, 9, 1)]
    with tracekit.open(tiny_trace(events), cache=False) as opened:
        yield opened


def without_room_beside(monkeypatch: pytest.MonkeyPatch, failing: str, times: int) -> list[str]:
    """Let one analysis fail for want of memory so often; return what is run, in its order."""
    real, began, left = run.run_analysis, list[str](), [times]
    both_run = threading.Barrier(2, timeout=30)

    def spied(connection: Any, spec: Any, *others: Any) -> Any:
        began.append(spec.name)
        if len(began) <= 2:
            both_run.wait()
        if spec.name == failing and left[0]:
            left[0] -= 1
            cause = duckdb.OutOfMemoryException("Out of Memory Error: no room")
            raise StoreError(f"{failing}: no room") from cause
        return real(connection, spec, *others)

    monkeypatch.setattr(run, "run_analysis", spied)
    return began


def test_what_has_no_room_beside_another_is_run_alone_behind_them(
    trace: tracekit.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [load_catalog().analysis(name) for name in NAMES]
    expected = [trace.query(name) for name in NAMES]
    began = without_room_beside(monkeypatch, "timeline", 1)
    assert run_analyses(trace.connection, specs) == expected
    assert sorted(began[:-1]) == sorted(NAMES)
    assert began[-1] == "timeline"


def test_what_has_no_room_alone_is_an_error(
    trace: tracekit.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [load_catalog().analysis(name) for name in NAMES]
    began = without_room_beside(monkeypatch, "timeline", 2)
    with pytest.raises(StoreError, match="timeline: no room"):
        run_analyses(trace.connection, specs)
    assert began.count("timeline") == 2


def test_what_fails_for_another_reason_is_not_run_again(
    trace: tracekit.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def failing(connection: Any, spec: Any, *others: Any) -> Any:
        del connection, others
        ran.append(spec.name)
        raise StoreError("the store is damaged")

    monkeypatch.setattr(run, "run_analysis", failing)
    with pytest.raises(StoreError, match="damaged"):
        run_analyses(trace.connection, [load_catalog().analysis("timeline")])
    assert ran == ["timeline"]
