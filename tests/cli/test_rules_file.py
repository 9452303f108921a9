"""A rules file that cannot be used is said, also when the cache could answer without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_a_missing_file_is_no_hit_in_the_cache(
    cli: Callable[..., Any], keep_stores: Callable[..., None], sample_trace: Path, tmp_path: Path
) -> None:
    keep_stores(tmp_path / "cache", sample_trace)
    assert cli("query", "kernel_classes", sample_trace).exit_code == 0
    missing = tmp_path / "typo.toml"
    done = cli("query", "kernel_classes", sample_trace, "--rules", missing)
    assert (done.exit_code, done.stdout) == (2, "")
    assert str(missing) in done.stderr


def rule(**members: str) -> str:
    return "".join(["[[rule]]\n", *(f"{key} = {value}\n" for key, value in members.items())])


HOSTILE = {
    "another key": ('[[rules]]\nclass = "gemm"\npattern = "x"\n', "unknown key 'rules'"),
    "no rule": ("", "there is no rule in it"),
    "a number for rules": ("rule = 5\n", "rule is no list of tables"),
    "numbers for rules": ("range = [1, 2]\n", "range is no list of tables"),
    "a list for a class": (rule(**{"class": '["a"]', "pattern": '"x"'}), "class is no text"),
    "a number for a pattern": (rule(**{"class": '"a"', "pattern": "5"}), "pattern is no text"),
    "a list for a category": (
        rule(**{"class": '"a"', "pattern": '"x"', "category": "[1]"}),
        "category is no text",
    ),
    "a table for a kind": (
        "[class]\na = {kind = {b = 1}}\n" + rule(**{"class": '"a"', "pattern": '"x"'}),
        "class a has the kind {'b': 1}",
    ),
    "a text for a class": (
        "[class]\na = 'comm'\n" + rule(**{"class": '"a"', "pattern": '"x"'}),
        "[class] must be a table of class",
    ),
    "a number for what it applies to": ("[[range]]\napplies_to = 1\n", "applies_to is no text"),
    "100,000 brackets": ("a = " + "[" * 100_000, "it is nested too deeply"),
    "100,000 brackets in a pattern": (
        rule(**{"class": '"a"', "pattern": '"' + "(" * 100_000 + '"'}),
        "is no regular expression",
    ),
    "a zero byte": (rule(**{"class": '"a"', "pattern": '"a\\u0000"'}), "holds a zero byte"),
    "3,000 rules": (
        "".join(rule(**{"class": f'"c{at}"', "pattern": f'"k{at}.*"'}) for at in range(3_000)),
        "there are 3,000 tables [[rule]], 1,000 are the most",
    ),
    "a key of 50,000 parts": ("rule." + ".".join(["a"] * 50_000) + " = 1", "too many parts"),
    "a long file": ("#" * 1_000_001, "longer than 1,000,000 bytes"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_named(
    cli: Callable[..., Any], sample_trace: Path, tmp_path: Path, case: str
) -> None:
    text, message = HOSTILE[case]
    rules = tmp_path / "mine.toml"
    rules.write_text(text)
    done = cli("query", "kernel_classes", sample_trace, "--rules", rules)
    assert (done.exit_code, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"error: {rules}: ")
    assert message in lines[0]
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: "))
    assert len(lines[0]) < 1_000


def test_a_device_that_never_ends_is_no_rules_file(
    cli: Callable[..., Any], sample_trace: Path
) -> None:
    done = cli("query", "kernel_classes", sample_trace, "--rules", "/dev/zero")
    assert done.exit_code == 2
    assert done.stderr == "error: /dev/zero: the rules file is longer than 1,000,000 bytes\n"
