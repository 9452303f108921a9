"""Parses rules (subject and bound) and rule files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from tracekit.errors import UsageError
from tracekit.small_files import MAX_TOML_BYTES, parse_toml, read_small
from tracekit.units import GB, KB, MB, NS_PER_MS, NS_PER_S, NS_PER_US, TB, Unit

Operator = Literal["<=", ">=", "<", ">", "="]

HOLDS: Mapping[Operator, Callable[[float, float], bool]] = {
    "<=": le,
    ">=": ge,
    "<": lt,
    ">": gt,
    "=": eq,
}
"""Comparison function of each operator."""

_TIMES = {"ns": 1, "us": NS_PER_US, "µs": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}
_SIZES = {"B": 1, "kB": KB, "MB": MB, "GB": GB, "TB": TB}
_UNITS: Mapping[str, tuple[int, tuple[Unit, ...]]] = {
    **{unit: (factor, ("ns",)) for unit, factor in _TIMES.items()},
    **{unit: (factor, ("bytes", "bytes_per_s")) for unit, factor in _SIZES.items()},
    "%": (1, ("pct",)),
    "": (1, ()),
}
"""Units of bounds, with the factor to the base unit, and the base units that they apply to."""

_BOUND = re.compile(
    r"(?P<operator><=|>=|==|=|<|>)\s*+"
    r"(?P<sign>[+-]?)\s*+(?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*+(?P<unit>%|[A-Za-zµ]*)"
)
_MAX_BOUND = 1e30
_STATEMENT = re.compile(r"\s*(?:SELECT|WITH|FROM)\b", re.IGNORECASE)

PROJECT_FILE = "pyproject.toml"
_HINT = 'for example: rules = ["step_time <= +3%"], or rules = {slow = "step_time <= +3%"}'


class Rule(Struct, frozen=True):
    """A rule: `subject` compared with the bound by `operator`.

    `bound` is in the base unit of the subject (ns, bytes, percent). A relative bound is a change
    from the base in percent. `unit` is the unit as written. An SQL rule has no operator; its
    statement must return no rows.
    """

    text: str
    subject: str
    operator: Operator | None = None
    bound: float = 0.0
    is_relative: bool = False
    name: str | None = None
    unit: str = ""

    @property
    def title(self) -> str:
        return self.name or " ".join(self.text.split())

    def bound_in(self, unit: Unit | None, *, is_share: bool) -> float:
        """Return the bound of an absolute rule, in the unit of its subject.

        If `is_share`, the subject is between 0 and 1, and bounds in percent are converted.
        """
        if not self.unit or unit in _UNITS[self.unit][1]:
            return self.bound
        if self.unit == "%" and is_share:
            return self.bound / 100
        raise UsageError(
            f"{self.title}: {self.subject} is not measured in {self.unit}",
            hint="a relative bound needs a sign: <= +3%"
            if self.unit == "%"
            else f"its unit is {unit}"
            if unit
            else "it has no unit",
        )


def parse_rule(text: str, name: str | None = None) -> Rule:
    """Parse a rule, such as `p99(ttft) <= 300 ms`, or SQL that must return no rows.

    A bound with a sign and a percent sign is relative to the base.
    """
    if _STATEMENT.match(text):
        return Rule(text, text.strip().rstrip(";"), name=name)
    # The bound follows the last operator, which has one or two characters.
    plain = text.strip()
    at = max(map(plain.rfind, "<>="))
    at -= plain[at - 1 : at + 1] in ("<=", ">=", "==")
    subject, match = plain[: max(at, 0)].rstrip(), _BOUND.fullmatch(plain, max(at, 0))
    if match is None or not subject or subject[-1] in "<>=":
        raise UsageError(
            f"{text!r:.200} is not a rule",
            hint="for example: step_time <= +3%, or exposed_comm_pct <= 10",
        )
    unit = match["unit"]
    if unit not in _UNITS:
        raise UsageError(
            f"{text!r:.200}: unknown unit {unit!r:.200}",
            hint="units: " + ", ".join(filter(None, _UNITS)),
        )
    number = float(match["number"].replace("_", "")) * _UNITS[unit][0]
    if number > _MAX_BOUND:
        raise UsageError(f"{text!r:.200}: the bound is too large")
    is_relative = bool(match["sign"]) and unit == "%"
    if match["sign"] == "-":
        number = -number
    operator: Operator = "=" if match["operator"] == "==" else match["operator"]  # type: ignore[assignment]
    return Rule(text, subject, operator, number, is_relative, name, unit)


_MAX_RULES = 500
_Text = Annotated[str, msgspec.Meta(max_length=10_000)]


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """Content of a rules file: rules, as a list or by name, and settings."""

    rules: (
        Annotated[list[_Text], msgspec.Meta(max_length=_MAX_RULES)]
        | Annotated[dict[_Text, _Text], msgspec.Meta(max_length=_MAX_RULES)]
    )
    against: str | None = None
    baselines: str | None = None
    inconclusive: Literal["report", "skip", "pass", "fail"] | None = None


def load_rules(path: Path) -> tuple[list[Rule], Settings]:
    """Read the rules and settings of a TOML file, or of the table in a `pyproject.toml`."""
    try:
        settings = msgspec.convert(_content(path), Settings)
    except ValueError as error:
        raise UsageError(f"{path}: {error!s:.200}", hint=_HINT) from error
    rules = settings.rules
    named = rules.items() if isinstance(rules, dict) else ((None, text) for text in rules)
    return [_parsed(path, text, name) for name, text in named], settings


def _content(path: Path) -> dict[str, Any]:
    try:
        content = parse_toml(read_small(path, MAX_TOML_BYTES))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error!s:.200}", hint=_HINT) from error
    for name in ("tool", "tracekit", "check") if path.name == PROJECT_FILE else ():
        content = content.get(name) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


def _parsed(path: Path, text: str, name: str | None) -> Rule:
    try:
        return parse_rule(text, name)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from error


def has_rules(path: Path) -> bool:
    """Return whether a file exists and has rules or settings."""
    return path.exists() and bool(_content(path))
