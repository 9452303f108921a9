"""1,000 requests in one burst, all in flight at once, each of them measured."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tracekit.errors import WorkloadError


@pytest.fixture
def few_open_files() -> Iterator[None]:
    """Start with a limit below what the burst needs, as most systems do."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_open_files")
def test_a_thousand_requests_at_once(
    stand_in: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1200:
        pytest.skip("the system allows too few open files")
    # The gap keeps every answer under way until all requests have arrived.
    server = stand_in("lightllm", token_gap_s=1.0, behavior=[*["ok"] * 9, "reset"])
    load = {"requests": 1000, "prompt_len": 512, "max_new_tokens": 4, "no_profile": True}
    run = serve(server, **load, is_incomplete=True)
    assert server.seen()["most_in_flight"] == 1000
    assert Counter(request["outcome"] for request in run.requests) == {
        "ok": 900,
        "broken_stream": 100,
    }
    assert [request["request_id"] for request in run.requests] == list(range(1000))
    assert {len(r["token_ns"]) for r in run.requests if r["outcome"] == "ok"} == {4}
    client = run.manifest.extra["client"]
    assert set(client) == {"cpu_pct", "loop_lag_p99_ns", "loop_lag_max_ns"}
    assert "900 of 1000 requests answered" in run.lines[1]


def test_more_connections_than_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracekit.collectors.serving.http.engine import raise_file_limit

    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 256))
    with pytest.raises(WorkloadError) as caught:
        raise_file_limit(1000)
    assert caught.value.message == (
        "1000 requests in flight need 1128 open files, and the system allows 256"
    )
    assert caught.value.hint == (
        "raise it with ulimit -Hn, or bound the requests in flight with --concurrency"
    )
