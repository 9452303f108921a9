"""Unit factors, and formatting of durations, sizes, and rates.

Internally, all times are integer nanoseconds and all sizes are bytes; milliseconds and gigabytes
exist only in formatted text. 1 GB is 1e9 bytes. Integers are formatted without converting them to a
double, so every displayed digit is correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

KB = 1_000
MB = 1_000_000
GB = 1_000_000_000
TB = 1_000_000_000_000

Unit = Literal["ns", "bytes", "pct", "count", "bytes_per_s", "flop_per_s", "per_s", "flops", "hz"]

# Longer suffixes come first, because `_bytes_per_s` is a rate, not a size.
_SUFFIXES: tuple[Unit, ...] = (
    *("bytes_per_s", "flop_per_s", "per_s"),
    *("bytes", "flops", "count", "pct", "hz", "ns"),
)

_SMALL_MS = ((10 * NS_PER_US, 6), (100 * NS_PER_US, 5), (NS_PER_MS, 4))
# Minimum value in ns at which a column of milliseconds has 1, 2, 3, or 4 decimals.
_SHORT_MS = (10 * NS_PER_MS, NS_PER_MS, 100 * NS_PER_US, 10 * NS_PER_US)
_DURATION_STEPS = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs"))
_RATE_STEPS = ((TB, "TFLOP/s"), (GB, "GFLOP/s"), (MB, "MFLOP/s"))
_PREFIXES = ((TB, "T"), (GB, "G"), (MB, "M"), (KB, "k"))
# Units that are scaled in steps of 1e3.
_SCALED: dict[Unit, str] = {
    "bytes": "B",
    "bytes_per_s": "B/s",
    "flops": "FLOP",
    "flop_per_s": "FLOP/s",
    "hz": "Hz",
}

_SIZE = re.compile(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*+([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_DURATION = re.compile(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*(ns|us|µs|ms|s)\s*")
_DURATION_UNITS = {"ns": 1, "us": NS_PER_US, "µs": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}


def parse_bytes(text: str) -> int:
    """Parse a size such as `2GB` (2e9), `512MiB`, `4g`, or `1000000`; return bytes.

    Raises:
        ValueError: the text is not a size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.100} is not a size: write 800MB or 4GiB")
    power = " kmgt".index(match[2].lower() or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def parse_duration(text: str) -> int:
    """Parse a duration such as `41.4ms` or `1.2s`; return ns.

    Raises:
        ValueError: the text is not a positive duration.
    """
    match = _DURATION.fullmatch(text)
    ns = round(float(match[1]) * _DURATION_UNITS[match[2]]) if match else 0
    if not ns:
        raise ValueError(f"{text!r:.100} is not a time: write 41.4ms or 1.2s")
    return ns


def unit_of(column_name: str) -> Unit | None:
    """Return the unit in the suffix of a column name.

    Args:
        column_name: for example `idle_ns` or `bus_bytes_per_s`.

    Returns:
        `ns`, `bytes`, `pct` (0 to 100), `count`, `bytes_per_s`, `flop_per_s`, `per_s`, `flops`,
        `hz`, or None for a plain column.
    """
    for unit in _SUFFIXES:
        if column_name == unit or column_name.endswith("_" + unit):
            return unit
    return None


def stem_of(column_name: str) -> str:
    """Return a column name without its unit suffix: "idle" for `idle_ns`, "" for `bytes`."""
    unit = unit_of(column_name)
    if unit is None:
        return column_name
    return column_name[: len(column_name) - len(unit)].removesuffix("_")


def format_scaled(value: int | float, factor: int, decimals: int) -> str:
    """Return value / factor with thousands separators and a fixed number of decimals.

    Integers are divided as integers and rounded half away from zero, because a double would lose
    digits of large nanosecond counts.

    Args:
        value: the amount in the base unit (ns, bytes).
        factor: base units per displayed unit, a power of ten.
        decimals: number of decimals.
    """
    if isinstance(value, float):
        return f"{value / factor:,.{decimals}f}"
    scale: int = 10**decimals
    quotient = (2 * abs(value) * scale + factor) // (2 * factor)
    sign = "-" if value < 0 and quotient else ""
    whole, fraction = divmod(quotient, scale)
    return f"{sign}{whole:,}.{fraction:0{decimals}d}" if decimals else f"{sign}{whole:,}"


def ms_decimals(values_ns: Iterable[int | float]) -> int:
    """Return the number of decimals for a column of times in milliseconds.

    The default is three (microseconds). Values below 1 ms that are not all whole microseconds get
    four to six decimals. If a value is at least 100 s, all get one.
    """
    sizes = [abs(value) for value in values_ns]
    largest = max(sizes, default=0)
    if largest >= 100 * NS_PER_S:
        return 1
    if all(size % NS_PER_US == 0 for size in sizes):
        return 3
    for limit, decimals in _SMALL_MS:
        if largest < limit:
            return decimals
    return 3


def short_decimals(values_ns: Iterable[int | float]) -> int:
    """Return the number of decimals of milliseconds for about three significant digits."""
    largest = max((abs(value) for value in values_ns), default=0)
    return next((n for n, least in enumerate(_SHORT_MS, 1) if largest >= least), len(_SHORT_MS) + 1)


def format_ms(ns: int | float, decimals: int = 3) -> str:
    """Return nanoseconds as milliseconds without the unit, for example `12,854.103`."""
    return format_scaled(ns, NS_PER_MS, decimals)


def format_least(value: int | float, decimals: int, factor: int = NS_PER_MS) -> str:
    """Return a value in units of `factor` without the unit; by default, nanoseconds as ms.

    A positive value that would be rounded to 0 is shown as, for example, `<0.1`.
    """
    if not value:
        return "0"
    text = format_scaled(value, factor, decimals)
    least = f"{10**-decimals:.{decimals}f}"
    return f"<{least}" if value > 0 and not float(text.replace(",", "")) else text


def format_duration(ns: int | float) -> str:
    """Return nanoseconds as text with a suitable unit, such as `4.186 ms` or `812 ns`."""
    for factor, unit in _DURATION_STEPS:
        if abs(ns) >= factor:
            return f"{format_scaled(ns, factor, 3)} {unit}"
    return f"{ns:.3g} ns" if isinstance(ns, float) else f"{ns} ns"


def format_short(ns: int | float) -> str:
    """Return nanoseconds as text with about three digits, such as `41.9 ms` or `812 ns`."""
    for factor, unit in _DURATION_STEPS:
        if abs(ns) >= factor:
            return f"{format_scaled(ns, factor, 1 if abs(ns) >= 10 * factor else 2)} {unit}"
    return f"{ns:.0f} ns"


def format_interval(low_ns: int | float, high_ns: int | float) -> str:
    """Return an interval of times, such as `39.2 to 47.2 ms`."""
    low, high = format_short(low_ns), format_short(high_ns)
    if low == high and low_ns < high_ns:
        decimals = short_decimals((high_ns - low_ns,))
        low, high = format_ms(low_ns, decimals), f"{format_ms(high_ns, decimals)} ms"
    return f"{low.removesuffix(high[high.rindex(' ') :])} to {high}"


def scale_step(unit: Unit, amount: int | float) -> tuple[int, str] | None:
    """Return the factor and name of the scaled unit (in steps of 1e3) for an amount.

    Args:
        unit: a unit of :func:`unit_of`.
        amount: amount in the base unit.

    Returns:
        For example `(1_000_000_000_000, "TFLOP/s")`; None if the unit is not scaled.
    """
    if unit not in _SCALED:
        return None
    name = _SCALED[unit]
    for factor, prefix in _PREFIXES:
        if abs(amount) >= factor:
            return factor, prefix + name
    return 1, name


def format_bytes(size: int | float) -> str:
    """Return bytes as text with a unit, for example `1.25 GB` (GB = 1e9)."""
    factor, unit = scale_step("bytes", size) or (1, "B")
    return f"{format_scaled(size, factor, 0 if factor == 1 else 2)} {unit}"


def format_bytes_per_s(rate: int | float) -> str:
    """Return bytes per second as text with a unit, for example `24.10 GB/s`."""
    return format_bytes(rate) + "/s"


def format_flop_per_s(rate: int | float) -> str:
    """Return operations per second as text with a unit, for example `610.55 TFLOP/s`."""
    for factor, unit in _RATE_STEPS:
        if abs(rate) >= factor:
            return f"{format_scaled(rate, factor, 2)} {unit}"
    return f"{format_scaled(rate, 1, 0)} FLOP/s"


def format_pct(pct: int | float) -> str:
    """Return a percentage with one decimal, or `<0.1` for a small positive percentage."""
    if 0 < pct < 0.05:
        return "<0.1"
    return f"{pct:,.1f}"
