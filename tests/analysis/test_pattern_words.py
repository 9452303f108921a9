"""The prefilter of patterns keeps every pattern that matches a name."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tracekit.analysis.pattern_words import may_match, ways_to_match
from tracekit.analysis.rules import load_kernel_rules, load_range_rules, load_role_rules
from tracekit.sql_text import quote

QUERIES = Path(__file__).parent.parent / "queries"
RULES = [*load_kernel_rules(), *load_range_rules(), *load_role_rules()]
PATTERNS = sorted({rule["pattern"] for rule in RULES})
NAMES = [
    line.rpartition(" | ")[2]
    for file in ("example_kernel_names.txt", "misleading_kernel_names.txt")
    for line in (QUERIES / file).read_text("utf-8").splitlines()
]
NAMES += ["tk/phase/data", "tk/step/3", "ProfilerStep#12", "aten::mm", "aten::copy_", ""]
NAMES += ["gloo:all_reduce", "nn.Module: Linear_0"]


def test_no_matching_pattern_is_skipped() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE names AS SELECT unnest(?::VARCHAR[]) AS name", [NAMES])
        matches = [
            (pattern, name)
            for pattern in PATTERNS
            for (name,) in connection.execute(
                f"SELECT name FROM names WHERE regexp_matches(name, {quote(pattern)})"
            ).fetchall()
        ]
    assert len(matches) > 100
    for pattern, name in matches:
        assert may_match(ways_to_match(pattern), name.casefold()), (pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("^aten::mm$", "aten::addmm"),
        ("flash|cutlass", "ampere_gemm"),
        ("(?:all|any)_?reduce", "none_reduce"),
    ],
)
def test_patterns_that_cannot_match_are_skipped(pattern: str, name: str) -> None:
    assert not may_match(ways_to_match(pattern), name.casefold())


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        *(("", "anything"), ("flash|cutlass", "a_CUTLASS_kernel"), ("ab*c", "ac")),
        *(("(?i)^(?:void )?NCCL", "ncclkernel"), ("(?i)Kelvin", "\u212aELVIN")),
        *(("(?i)softmax", "\u017foftmax"), ("colou?r", "color"), ("colou?r", "colour")),
        *(("ab{0}c", "ac"), ("ab{0,2}c", "ac"), ("ab{,2}c", "ab{,2}c"), ("x{1,2}y", "xy")),
        *(("(?:all|any)_?reduce", "all-reduce"), ("(?:gone)?left", "left")),
        *(("[xy]z[|]w", "yz|w"), (r"\d+_\w+end", "1_end")),
        # Syntax that is not analyzed may match anything.
        *((r"\x41", "A"), (r"\Qa|b\E", "a|b"), (r"\pN", "1"), ("(?P<word>abc)", "abc")),
        ("a(?-i)B", "aB"),
    ],
)
def test_patterns_that_may_match_are_kept(pattern: str, name: str) -> None:
    assert may_match(ways_to_match(pattern), name.casefold())
