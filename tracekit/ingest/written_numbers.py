"""Numbers as trace events write them: µs to ns, whole numbers; as numbers or in quotes.

Nothing goes through a double: all digits of the file count.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal

from tracekit.units import NS_PER_US

_DECIMAL = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_HEXADECIMAL = re.compile(r"\s*(0[xX][0-9a-fA-F]+)\s*", re.ASCII)

_LARGEST = Decimal("1.7976931348623157e308")
"""A number beyond is none: what wrote it had no place for it either."""

_MAX_CHARACTERS = 4096
_exact = Context(prec=_MAX_CHARACTERS + 10)


def decimal_of(text: str) -> Decimal | None:
    """Return a decimal number, None where the text is none."""
    if len(text) > _MAX_CHARACTERS or not _DECIMAL.fullmatch(text):
        return None
    try:
        number = Decimal(text.strip())
    except ArithmeticError:  # An exponent beyond all bounds.
        return None
    return number if number.copy_abs() <= _LARGEST else None


def ns_of(us: Decimal) -> int:
    """Return µs as ns, to the nearest; what is as near to two goes to the even one."""
    return int(_exact.multiply(us, NS_PER_US).to_integral_value(ROUND_HALF_EVEN))


def whole_number(text: str) -> int | None:
    """Return a whole number of 64 bits; None where the text is none.

    AMD's traces have some in hexadecimal: ``0x7``.
    """
    found = _HEXADECIMAL.fullmatch(text)
    if found:
        number = int(found[1], 16)
    else:
        value = decimal_of(text)
        if value is None or value.copy_abs() >= 2**64 or value != value.to_integral_value():
            return None
        number = int(value)
    return number if -(2**63) <= number < 2**63 else None
