"""Roles of device work in real decoders, and their rules; made up in tests/cases/decoder.case."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from traces_by_hand import span, work

import tracekit
from tracekit.analysis.rules import condition, load_range_rules, load_role_rules
from tracekit.errors import UsageError
from tracekit.sql_text import quote

Opened = Callable[[Path], tracekit.Trace]


def test_decoders_of_real_traces(opened: Opened, public_traces: Path) -> None:
    """Shares of the linked device time of the forward pass, worked out beside the product."""
    trace = opened(public_traces / "tl_b200_vllm_eager.json.gz")
    rows = {row["role"]: row["kernel_ns"] for row in trace.query("roles").to_dicts()}
    total = sum(rows.values())
    assert round(100 * rows["MLP"] / total) == 59
    assert round(100 * rows["non-overlapping communication"] / total) == 18
    assert rows["(unattributed)"] < 0.01 * total


def test_a_graph_replay_has_roles_by_place(opened: Opened, public_traces: Path) -> None:
    trace = opened(public_traces / "tl_mi300_sglang_decode_graph.json.gz")
    rows = {row["role"]: row for row in trace.query("roles").to_dicts()}
    total = sum(row["kernel_ns"] for row in rows.values())
    assert rows["MLP"]["inferred_ns"] == rows["MLP"]["kernel_ns"]
    assert rows["(unattributed)"]["kernel_ns"] < 0.02 * total


# -- rules -----------------------------------------------------------------------------------------


def test_a_plain_pattern_means_the_same_as_its_regular_expression() -> None:
    names = ["tk/phase/data", "tk/phase/data2", "Optimizer.zero_grad#SGD", "Optimizer_zero_grad"]
    names += ["## forward ##", "nccl:all_reduce", "step[EXTEND bs=1]", "autograd::engine::x"]
    with duckdb.connect() as connection:
        for pattern in (rule["pattern"] for rule in load_range_rules()):
            for name in names:
                sql = condition(pattern).replace("name", quote(name), 1)
                ((same,),) = connection.execute(
                    f"SELECT ({sql}) = regexp_matches({quote(name)}, {quote(pattern)})"
                ).fetchall()
                assert same, (pattern, name)


def test_the_builtin_patterns_are_regular_expressions() -> None:
    with duckdb.connect() as connection:
        for rule in (*load_range_rules(), *load_role_rules()):
            pattern = quote(rule["pattern"])
            assert connection.execute(f"SELECT regexp_matches('', {pattern})").fetchall()


def test_rules_of_the_user_come_first(tiny_trace: Callable[..., Path], tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        """
        [[range]]
        applies_to = "range"
        means = "module"
        phase = "prefill"
        pattern = '^my/(.*)$'
        label = '\\1'

        [[role]]
        role = "MLP"
        applies_to = "leaf"
        pattern = '^blob$'
        """
    )
    events = [span("user_annotation", "my/blob", 0, 3), *work(1, 10, 15, 1)]
    with tracekit.open(tiny_trace(events), cache=False, rules=rules) as trace:
        (row,) = trace.query("roles").to_dicts()
        assert (row["phase"], row["role"], row["wall_ns"]) == ("prefill", "MLP", 5_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[range]]\napplies_to = 'range'\nmeans = 'module'", "has no pattern"),
        ("[[range]]\napplies_to = 'r'\nmeans = 'span'\npattern = 'x'", "applies_to is 'r'"),
        ("[[range]]\napplies_to = 'op'\nmeans = 'span'\npattern = '('", "no regular expression"),
        ("[[range]]\ncolour = 'red'", "unknown key 'colour'"),
        ("[[role]]\nrole = 'MLP'\napplies_to = 'leaf'", "has no pattern"),
        ("[[role]]\nrole = 'MLP'\napplies_to = 'x'\npattern = 'x'", "applies_to is 'x'"),
        ("[[role]]\nrole = 'MLP'\napplies_to = 'op'\npattern = '['", "no regular expression"),
    ],
)
def test_rules_that_are_not_valid(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    assert tomllib.loads(text)
    load = load_role_rules if text.startswith("[[role]]") else load_range_rules
    with pytest.raises(UsageError, match=message):
        load(path)
