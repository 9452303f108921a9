"""A rules file that cannot be used is said, also when the cache could answer without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_a_missing_file_is_no_hit_in_the_cache(
    cli: Callable[..., Any], sample_trace: Path, tmp_path: Path
) -> None:
    assert cli("query", "kernel_classes", sample_trace).exit_code == 0
    missing = tmp_path / "typo.toml"
    done = cli("query", "kernel_classes", sample_trace, "--rules", missing)
    assert (done.exit_code, done.stdout) == (2, "")
    assert str(missing) in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[rules]]\nclass = "gemm"\npattern = "x"\n', "unknown key 'rules'"),
        ("", "there is no rule in it"),
    ],
)
def test_a_file_without_effect_is_refused(
    cli: Callable[..., Any], sample_trace: Path, tmp_path: Path, text: str, message: str
) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text(text)
    done = cli("query", "kernel_classes", sample_trace, "--rules", rules)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"error: {rules}: {message}" in done.stderr
