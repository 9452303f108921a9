import pytest

from tracekit.mcp.answers import Tools
from tracekit.mcp.server import refusal


@pytest.fixture
def folder(tmp_path):
    """Return the folder that may be looked into."""
    path = tmp_path / "traces"
    path.mkdir()
    return path


@pytest.fixture
def ask(folder, cache, monkeypatch):
    """Return a function that calls a tool in this process; `fails` says whether it has to."""
    # A call limits the memory of its process, but this process later runs browsers.
    monkeypatch.setattr("tracekit.mcp.answers._bound_memory", lambda: None)

    def call(tool, *, fails=False, **arguments):
        text, is_error = refusal(tool, arguments) or "", True
        if not text:
            text, is_error = Tools([folder.resolve()]).call(tool, arguments)
        assert is_error == fails, text
        return text

    return call
