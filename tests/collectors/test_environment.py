"""What a run says of where it happens costs the program that is recorded little."""

from __future__ import annotations

import pytest

from tracekit.collectors.run import environment


def test_packages_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    version = environment.metadata.version
    monkeypatch.setattr(
        environment.metadata, "version", lambda name: (asked.append(name), version(name))[1]
    )
    environment.probe()
    count = len(asked)
    environment.probe()
    assert len(asked) == count
