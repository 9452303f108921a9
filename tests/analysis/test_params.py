"""Parameters: checked, converted, completed with defaults."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from tracekit.analysis.header import Param, Spec, parse_header
from tracekit.analysis.params import bind, coerce
from tracekit.errors import QueryError, UsageError


def param(type_name: str, default: str | None = "NULL", choices: tuple[str, ...] = ()) -> Param:
    return Param("x", type_name, default, "what it is", choices)


class Index:
    """An integer that is no int, as numpy's are."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("BIGINT", 2**63 - 1, 2**63 - 1),
        ("BIGINT", " -12 ", -12),
        ("BIGINT", Index(), 7),
        ("INTEGER", -(2**31), -(2**31)),
        ("DOUBLE", 1, 1.0),
        ("DOUBLE", "1e3", 1000.0),
        ("DOUBLE", Decimal("2.5"), 2.5),
        ("DOUBLE", Fraction(1, 2), 0.5),
        ("VARCHAR", "gemm", "gemm"),
        ("BOOLEAN", True, True),
        ("BOOLEAN", "No", False),
        ("BOOLEAN", "on", True),
        ("BIGINT", None, None),
    ],
)
def test_a_value_becomes_its_type(type_name: str, value: object, expected: object) -> None:
    result = coerce(param(type_name), value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("type_name", "value", "reason"),
    [
        ("BIGINT", 2**63, "out of range"),
        ("INTEGER", 2**31, "out of range"),
        ("BIGINT", 1.5, "not a whole number"),
        ("BIGINT", 1.0, "not a whole number"),
        ("BIGINT", True, "not a whole number"),
        ("BIGINT", "x", "not a whole number"),
        ("BIGINT", "9" * 5000, "not a whole number"),
        ("DOUBLE", "nan", "not a number"),
        ("DOUBLE", True, "not a number"),
        ("DOUBLE", [], "not a number"),
        ("VARCHAR", 1, "not text"),
        ("BOOLEAN", 1, "not true or false"),
        ("BOOLEAN", "maybe", "not true or false"),
    ],
)
def test_a_value_of_another_type_is_refused(type_name: str, value: object, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        coerce(param(type_name), value)


def test_none_needs_a_null_default() -> None:
    with pytest.raises(UsageError, match="x needs a value"):
        coerce(param("BIGINT", "0"), None)


def test_choices_are_the_only_values() -> None:
    assert coerce(param("VARCHAR", "a", ("a", "b")), "b") == "b"
    with pytest.raises(UsageError, match="'c' is not one") as caught:
        coerce(param("VARCHAR", "a", ("a", "b")), "c")
    assert caught.value.hint == "one of: a, b"


@pytest.fixture
def spec() -> Spec:
    return parse_header(
        "-- Why?\n--\n-- Kind: analysis\n-- Scope: trace\n-- Params:\n"
        "--   min_gap_ns  BIGINT = 5  shortest gap, ns\n"
        "--   class  VARCHAR = NULL  only this class\n"
        "--   top  INTEGER  how many\n"
        "-- Columns:\n--   a  BIGINT  x\nSELECT $min_gap_ns + $top AS a WHERE $class IS NULL",
        "gaps",
        "gaps.sql",
    )


def test_defaults_fill_what_is_not_given(spec: Spec) -> None:
    assert bind(spec, {"top": "3"}) == {"min_gap_ns": 5, "class": None, "top": 3}


def test_a_missing_parameter_is_named(spec: Spec) -> None:
    with pytest.raises(QueryError, match="gaps needs the parameter 'top'") as caught:
        bind(spec, {})
    assert caught.value.hint == "it is how many"


def test_one_of_those_that_are_needed_is_enough() -> None:
    spec = parse_header(
        "-- Why?\n--\n-- Kind: analysis\n-- Scope: trace\n-- Params:\n"
        "--   number  BIGINT = NULL  its number\n--   name  VARCHAR = NULL  its name\n"
        "-- Needs: number | name\n"
        "-- Columns:\n--   a  BIGINT  x\nSELECT $number AS a WHERE $name IS NULL",
        "one",
        "one.sql",
    )
    assert spec.needs == ("number", "name")
    assert bind(spec, {"number": 1}) == {"number": 1, "name": None}
    for given in ({}, {"name": None}):
        with pytest.raises(UsageError, match=r"^one needs number or name$") as caught:
            bind(spec, given)
        assert caught.value.hint == "number is its number; name is its name"


def test_an_unknown_parameter_is_met_with_close_ones(spec: Spec) -> None:
    with pytest.raises(QueryError, match="no parameter 'min_gap'") as caught:
        bind(spec, {"min_gap": 1, "top": 1})
    assert caught.value.hint == "did you mean min_gap_ns?"
    with pytest.raises(QueryError) as caught:
        bind(spec, {"zzz": 1})
    assert caught.value.hint == "its parameters: min_gap_ns, class, top"


def test_a_limit_is_no_less_than_nothing() -> None:
    limit = Param("limit", "BIGINT", "20", "rows; 0 for all")
    assert coerce(limit, "0") == 0
    with pytest.raises(UsageError, match="limit: -1 is negative"):
        coerce(limit, "-1")
