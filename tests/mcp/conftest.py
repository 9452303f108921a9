from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tracekit.mcp.answers import Tools
from tracekit.mcp.server import refusal

Ask = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder that may be looked into."""
    path = tmp_path / "traces"
    path.mkdir()
    return path


@pytest.fixture
def ask(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that calls a tool in this process; `fails` says whether it has to."""
    # A call bounds the memory of its own process; this one runs browsers after it.
    monkeypatch.setattr("tracekit.mcp.answers._bound_memory", lambda: None)

    def call(tool: str, *, fails: bool = False, **arguments: object) -> str:
        text, is_error = refusal(tool, arguments) or "", True
        if not text:
            text, is_error = Tools([folder.resolve()]).call(tool, arguments)
        assert is_error == fails, text
        return text

    return call
