"""No server can crash, hang, bloat or mislead a run, nor get a key that is not meant for it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from _hostile import MOST_SENT_BYTES, HostileServer, attack, hostile_of
from _hostile_kinds import KINDS
from _hostile_scripts import KEY, Hostile, whole


def test_there_are_many_kinds() -> None:
    assert len(KINDS) >= 50


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_hostile_server_ends_in_a_run_or_in_one_error(name: str, tmp_path: Path) -> None:
    ended = attack(KINDS[name](Random(name)), tmp_path)
    assert ended.sent_bytes < MOST_SENT_BYTES


@pytest.mark.parametrize("seed", range(12))
def test_so_does_any_other(seed: int, tmp_path: Path) -> None:
    ended = attack(hostile_of(Random(seed)), tmp_path)
    assert ended.run is not None or ended.error
    assert ended.sent_bytes < MOST_SENT_BYTES


def test_the_same_seed_gives_the_same_server() -> None:
    assert hostile_of(Random(7)) == hostile_of(Random(7))
    assert hostile_of(Random(7)) != hostile_of(Random(8))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/health", "301 M"), ("/v1/models", "302 F")),
        *(("/v1/completions", "307 T"), ("/v1/completions", "308 P")),
    ],
)
def test_a_redirect_does_not_carry_the_key_away(path: str, status: str, tmp_path: Path) -> None:
    with HostileServer(Hostile()) as thief:
        redirect = whole(b"", status, f"Location: {thief.url}/steal")
        ended = attack(Hostile(scripts={path: redirect}), tmp_path)
    assert any(KEY.encode() in head for head in ended.heads)
    assert thief.heads == []
    if path == "/health":
        assert f"(a redirect to {thief.url}/steal, which is not followed)" in str(ended.error)
