"""Parameters are checked, converted, and completed with defaults."""

from decimal import Decimal
from fractions import Fraction

import pytest

from tracekit.analysis.header import Param, parse_header
from tracekit.analysis.params import bind, coerce
from tracekit.errors import QueryError, UsageError


def param(type_name, default="NULL", choices=()):
    return Param("x", type_name, default, "what it is", choices)


class Index:
    """An integer that is not an int, like numpy's."""

    def __index__(self):
        return 7


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("BIGINT", 2**63 - 1, 2**63 - 1), ("BIGINT", " -12 ", -12), ("BIGINT", Index(), 7),
        ("INTEGER", -(2**31), -(2**31)), ("DOUBLE", 1, 1.0), ("DOUBLE", "1e3", 1000.0),
        ("DOUBLE", Decimal("2.5"), 2.5), ("DOUBLE", Fraction(1, 2), 0.5),
        ("VARCHAR", "gemm", "gemm"), ("BOOLEAN", True, True), ("BOOLEAN", "No", False),
        ("BOOLEAN", "on", True), ("BIGINT", None, None),
    ],
)  # fmt: skip
def test_a_value_becomes_its_type(type_name, value, expected):
    result = coerce(param(type_name), value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        *(("BIGINT", value) for value in (2**63, 1.5, 1.0, True, "x", "9" * 5000)),
        ("INTEGER", 2**31),
        *(("DOUBLE", value) for value in ("nan", True, [])),
        ("VARCHAR", 1),
        *(("BOOLEAN", value) for value in (1, "maybe")),
    ],
)
def test_a_value_of_another_type_is_refused(type_name, value):
    with pytest.raises(UsageError, match=r"^x"):
        coerce(param(type_name), value)


def test_none_needs_a_null_default():
    with pytest.raises(UsageError, match=r"^x"):
        coerce(param("BIGINT", "0"), None)


def test_choices_are_the_only_values():
    assert coerce(param("VARCHAR", "a", ("a", "b")), "b") == "b"
    with pytest.raises(UsageError, match="'c'") as caught:
        coerce(param("VARCHAR", "a", ("a", "b")), "c")
    assert "a, b" in str(caught.value.hint)


@pytest.fixture
def spec():
    return parse_header(
        "-- Why?\n--\n-- Kind: analysis\n-- Scope: trace\n-- Params:\n"
        "--   min_gap_ns  BIGINT = 5  shortest gap, ns\n"
        "--   class  VARCHAR = NULL  only this class\n"
        "--   top  INTEGER  how many\n"
        "-- Columns:\n--   a  BIGINT  x\nSELECT $min_gap_ns + $top AS a WHERE $class IS NULL",
        "gaps",
        "gaps.sql",
    )


def test_defaults_fill_what_is_not_given(spec):
    assert bind(spec, {"top": "3"}) == {"min_gap_ns": 5, "class": None, "top": 3}


def test_a_missing_parameter_is_named(spec):
    with pytest.raises(QueryError, match="'top'") as caught:
        bind(spec, {})
    assert "how many" in str(caught.value.hint)


def test_one_of_the_needed_parameters_is_enough():
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
        with pytest.raises(UsageError, match="number or name") as caught:
            bind(spec, given)
        assert "its number" in str(caught.value.hint)


def test_the_hint_for_an_unknown_parameter_lists_similar_ones(spec):
    for name, hinted in (("min_gap", "min_gap_ns?"), ("zzz", "min_gap_ns, class, top")):
        with pytest.raises(QueryError, match=name) as caught:
            bind(spec, {name: 1, "top": 1})
        assert hinted in str(caught.value.hint)


def test_a_limit_is_not_negative():
    limit = Param("limit", "BIGINT", "20", "rows; 0 for all")
    assert coerce(limit, "0") == 0
    with pytest.raises(UsageError, match="-1"):
        coerce(limit, "-1")
