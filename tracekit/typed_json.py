"""JSON objects as dataclasses, every member checked against its type."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin

_T = TypeVar("_T")

MAX_DEPTH, MAX_ITEMS = 100, 100_000
"""How deep a value of any type may be nested, and how long a list may be."""


def build(cls: type[_T], value: Mapping[str, Any], where: str) -> _T:
    """Make a dataclass of a JSON object.

    Args:
        cls: the dataclass; its members are JSON's types, dataclasses, or lists, dicts and literals
            of these, or None.
        value: the object. Members that the dataclass does not have are left out.
        where: how errors name it.

    Raises:
        TypeError: a member is of another type.
        ValueError: a member without a default is missing.
    """
    hints = _hints(cls)  # type: ignore[arg-type]
    members: dict[str, Any] = {}
    for item in dataclasses.fields(cls):  # type: ignore[arg-type]
        if item.name in value:
            members[item.name] = _checked(
                hints[item.name], value[item.name], f"{where}: {item.name}"
            )
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise ValueError(f"{where}: {item.name} is missing")
    return cls(**members)


_hints = cache(typing.get_type_hints)


def _height(value: object) -> int:
    inside: Iterable[object] = value.values() if isinstance(value, dict) else ()
    return 1 + max(map(_height, value if isinstance(value, list) else inside), default=0)


def _checked(hint: Any, value: Any, where: str) -> Any:
    """Return a JSON value as the type that the hint says.

    Raises:
        TypeError: it is of another type.
    """
    origin = get_origin(hint)
    if hint is Any:
        if _height(value) > MAX_DEPTH:
            raise ValueError(f"{where} is nested more than {MAX_DEPTH} deep")
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        (inner,) = (part for part in get_args(hint) if part is not type(None))
        return _checked(inner, value, where)
    if origin is Literal:
        if value in get_args(hint):
            return value
        raise TypeError(f"{where} is {value!r:.60}, not one of {', '.join(get_args(hint))}")
    if origin is list:
        if isinstance(value, list):
            if len(value) > MAX_ITEMS:
                raise ValueError(f"{where} has more than {MAX_ITEMS:,} items")
            (inner,) = get_args(hint)
            return [_checked(inner, item, f"{where}[{i}]") for i, item in enumerate(value)]
    elif origin is dict:
        if isinstance(value, dict):
            inner = get_args(hint)[1]
            return {key: _checked(inner, item, f"{where}.{key}") for key, item in value.items()}
    elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if isinstance(value, dict):
            return build(hint, value, where)
    elif hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    name = getattr(hint, "__name__", str(hint))
    raise TypeError(f"{where} is {value!r:.60}, not of type {name}")
