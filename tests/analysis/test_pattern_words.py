"""No pattern is left out that matches a name, and most that match none are."""

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
    *(
        line.rpartition(" | ")[2]
        for file in ("example_kernel_names.txt", "misleading_kernel_names.txt")
        for line in (QUERIES / file).read_text("utf-8").splitlines()
    ),
    *(
        "tk/phase/data",
        "tk/step/3",
        "ProfilerStep#12",
        "aten::mm",
        "aten::copy_",
        "gloo:all_reduce",
    ),
    *("nn.Module: Linear_0", "autograd::engine::evaluate_function: AddmmBackward0", ""),
]


def test_what_matches_is_never_left_out() -> None:
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
    ("pattern", "name", "expected"),
    [
        ("", "anything", True),
        ("^aten::mm$", "aten::addmm", False),
        ("flash|cutlass", "a_CUTLASS_kernel", True),
        ("flash|cutlass", "ampere_gemm", False),
        ("(?i)^(?:void )?NCCL", "ncclkernel", True),
        ("(?i)Kelvin", "\u212aELVIN", True),
        ("(?i)softmax", "\u017foftmax", True),
        ("colou?r", "color", True),
        ("colou?r", "colour", True),
        ("ab*c", "ac", True),
        ("ab{0}c", "ac", True),
        ("ab{0,2}c", "ac", True),
        ("ab{,2}c", "ab{,2}c", True),
        ("x{1,2}y", "xy", True),
        ("(?:all|any)_?reduce", "all-reduce", True),
        ("(?:all|any)_?reduce", "none_reduce", False),
        ("(?:gone)?left", "left", True),
        ("[xy]z[|]w", "yz|w", True),
        (r"\d+_\w+end", "1_end", True),
        # What is not looked into may match anything.
        (r"\x41", "A", True),
        (r"\Qa|b\E", "a|b", True),
        (r"\pN", "1", True),
        ("(?P<word>abc)", "abc", True),
        ("a(?-i)B", "aB", True),
    ],
)
def test_whether_a_pattern_may_match(pattern: str, name: str, expected: bool) -> None:
    assert may_match(ways_to_match(pattern), name.casefold()) is expected


def test_most_patterns_for_kernels_are_left_out_for_ops() -> None:
    names = "\n".join(("aten::mm", "aten::add", "aten::_softmax")).casefold()
    left = [p for p in PATTERNS if may_match(ways_to_match(p), names)]
    assert len(left) < len(PATTERNS) / 2
