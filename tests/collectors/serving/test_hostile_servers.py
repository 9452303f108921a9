"""No server can crash, hang, bloat, or mislead a run, or get a key that is not meant for it."""

from random import Random

import pytest
from _hostile import KEY, KINDS, MAX_SENT_BYTES, Hostile, HostileServer, attack, whole

from tracekit.errors import WorkloadError


@pytest.mark.parametrize("name", KINDS)
def test_a_hostile_server(name, tmp_path):
    kind = KINDS[name]
    # Where the limit does not decide the outcome, a busy machine must not either.
    startup_s = 0.3 if kind.outcome == "refused" else 60
    request_s = 0.3 if kind.outcome in ("timeout", "any") else 60
    hostile = kind.hostile(Random(name))
    ended = attack(hostile, tmp_path, startup_s=startup_s, request_s=request_s)
    assert ended.server.sent_bytes < MAX_SENT_BYTES
    outcomes = {request["outcome"] for request in ended.requests}
    if kind.outcome == "refused":
        assert ended.run is None
    elif kind.outcome != "any":
        assert outcomes == {kind.outcome}
    assert all((request["reason"] or "").startswith(kind.reason) for request in ended.requests)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/health", "301 M"), ("/v1/models", "302 F")),
        *(("/v1/completions", "307 T"), ("/v1/completions", "308 P")),
    ],
)
def test_a_redirect_does_not_carry_the_key_away(path, status, tmp_path):
    with HostileServer(Hostile()) as thief:
        redirect = whole(b"", status, f"Location: {thief.url}/steal")
        ended = attack(Hostile(scripts={path: redirect}), tmp_path)
    assert any(KEY.encode() in line for line in ended.server.head_lines)
    assert thief.head_lines == []


def test_a_server_without_tls(serve):
    first = Hostile(scripts={"/health": whole(b"ok")._replace(speaks_first=True)})
    with HostileServer(first) as server, pytest.raises(WorkloadError, match="SSL"):
        serve(None, engine="vllm", url=server.url.replace("http", "https"), startup_timeout=0.3)
