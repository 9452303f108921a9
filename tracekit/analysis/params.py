"""Checks and converts the parameters of an analysis."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import SupportsFloat, SupportsIndex, cast

from tracekit.analysis.spec import Param, Spec
from tracekit.errors import QueryError, UsageError, did_you_mean

ParamValue = int | float | str | bool | None

_INTEGER_BITS = {"BIGINT": 64, "INTEGER": 32}
_TRUE = frozenset({"true", "t", "yes", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "off", "0"})


def _integer(type_name: str, value: object) -> int:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, str):
        number = int(value.strip())
    else:
        # Accept all integer types, including numpy's, and reject floats.
        number = operator.index(cast("SupportsIndex", value))
    limit = 1 << (_INTEGER_BITS[type_name] - 1)
    if not -limit <= number < limit:
        raise OverflowError
    return number


def _double(value: object) -> float:
    if isinstance(value, bool):
        raise TypeError
    number = float(cast("SupportsFloat", value))
    if not math.isfinite(number):
        raise ValueError
    return number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUE:
        return True
    if isinstance(value, str) and value.strip().lower() in _FALSE:
        return False
    raise TypeError


_READERS: dict[str, tuple[str, Callable[[object], ParamValue]]] = {
    "BIGINT": ("an integer", lambda value: _integer("BIGINT", value)),
    "INTEGER": ("a 32-bit integer", lambda value: _integer("INTEGER", value)),
    "DOUBLE": ("a number", _double),
    "VARCHAR": ("text", _text),
    "BOOLEAN": ("true or false", _boolean),
}

PARAM_TYPES = tuple(_READERS)


def coerce(param: Param, value: object) -> ParamValue:
    """Return a value converted to the type of the parameter."""
    if value is None:
        if param.default == "NULL":
            return None
        raise UsageError(f"{param.name} needs a value", hint=f"meaning: {param.meaning}")
    wanted, read = _READERS[param.type]
    try:
        result = read(value)
    except OverflowError:
        raise UsageError(f"{param.name}: {value!r} is out of range for {param.type}") from None
    except (TypeError, ValueError):
        raise UsageError(
            f"{param.name}: {value!r} is not {wanted}", hint=f"meaning: {param.meaning}"
        ) from None
    if param.name == "limit" and isinstance(result, int) and result < 0:
        raise UsageError(f"limit: {result} is negative", hint=f"meaning: {param.meaning}")
    if param.choices and result not in param.choices:
        raise UsageError(
            f"{param.name}: {value!r} is not an allowed value",
            hint="one of: " + ", ".join(param.choices),
        )
    return result


def default_of(param: Param) -> ParamValue:
    """Return the default of an optional parameter, converted to its type."""
    return None if param.default == "NULL" else coerce(param, param.default)


def bind(spec: Spec, given: Mapping[str, object]) -> dict[str, ParamValue]:
    """Return a value for every declared parameter."""
    declared = {param.name: param for param in spec.params}
    for name in given:
        if name not in declared:
            raise QueryError(
                f"{spec.name} has no parameter {name!r}", hint=_known(name, list(declared))
            )
    values: dict[str, ParamValue] = {}
    for param in spec.params:
        if param.name in given:
            values[param.name] = coerce(param, given[param.name])
        elif param.is_required:
            raise QueryError(
                f"{spec.name} needs the parameter {param.name!r}", hint=f"meaning: {param.meaning}"
            )
        else:
            values[param.name] = default_of(param)
    if spec.needs and all(values[name] is None for name in spec.needs):
        raise UsageError(
            f"{spec.name} needs {' or '.join(spec.needs)}",
            hint="; ".join(
                f"{param.name} is {param.meaning}"
                for param in spec.params
                if param.name in spec.needs
            ),
        )
    return values


def _known(name: str, declared: list[str]) -> str:
    if not declared:
        return "it takes no parameters"
    return did_you_mean(name, declared) or "its parameters: " + ", ".join(declared)
