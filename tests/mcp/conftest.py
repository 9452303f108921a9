import pytest

from tracekit.mcp.answers import Tools
from tracekit.mcp.server import refusal


@pytest.fixture
def folder(tmp_path):
    """Return the folder that may be looked into."""
    path = tmp_path / "traces"
    path.mkdir()
    return path


def caller(folder):
    """Return a function that calls a tool in this process; `fails` says whether it has to."""

    def call(tool, *, fails=False, **arguments):
        text, is_error = refusal(tool, arguments) or "", True
        if not text:
            text, is_error = Tools([folder.resolve()]).call(tool, arguments)
        assert is_error == fails, text
        return text

    return call


# A call limits the memory of its process, but this process later runs browsers.
_BOUND = "tracekit.mcp.answers._bound_memory"


@pytest.fixture
def ask(folder, cache, monkeypatch):
    monkeypatch.setattr(_BOUND, lambda: None)
    return caller(folder)


@pytest.fixture(scope="module")
def call_in(tmp_path_factory):
    """Return a function that calls tools, and the folder with the traces that tests only read."""
    folder = tmp_path_factory.mktemp("read")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_BOUND, lambda: None)
        patch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield caller(folder), folder
