"""Commands with SQL files of the user, in an empty home."""

import json

import own_queries
import pytest


@pytest.fixture(scope="session")
def kept_stores(tmp_path_factory):
    """Return the folder of a cache that keeps the stores of the traces that tests share."""
    return tmp_path_factory.mktemp("kept_stores")


@pytest.fixture
def own_queries_only(tmp_path, kept_stores, monkeypatch):
    """Hide all user SQL files except the test's, as in an empty home folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(kept_stores))
    monkeypatch.delenv("TRACEKIT_QUERIES", raising=False)


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    """Return a trace of some ops, which tests only read."""
    path = tmp_path_factory.mktemp("ops") / "trace.json"
    path.write_text(json.dumps({"traceEvents": own_queries.OPS}), "utf-8")
    return path
