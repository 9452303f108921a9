"""Decides whether a run satisfies a rule, given the noise of the measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tracekit.checking.measured import Measured, Values, ask
from tracekit.checking.names import refuse_unknown
from tracekit.checking.rules import HOLDS, Rule
from tracekit.comparison.noise import Verdict, compare_series
from tracekit.comparison.quantiles import quantile_difference
from tracekit.comparison.statistics import least_count
from tracekit.errors import QueryError, UsageError
from tracekit.units import (
    Unit,
    format_bytes,
    format_bytes_per_s,
    format_duration,
    format_flop_per_s,
)

Outcome = Literal["passed", "failed", "inconclusive"]


class Judgement(Struct, frozen=True):
    rule: Rule
    outcome: Outcome
    value: float | None
    base_value: float | None
    limit: float | None
    unit: Unit | None
    change_pct: float | None
    reason: str

    @property
    def text(self) -> str:
        parts = []
        if self.value is not None:
            limit = amount_text(self.limit, self.unit)
            bound = "" if limit is None else f", limit {limit}"
            parts.append(f"{amount_text(self.value, self.unit)}{bound}")
        if self.change_pct is not None:
            parts.append(f"{self.change_pct:+.2f} % relative to the base")
        return "; ".join([*parts, *([self.reason] if self.reason else [])])


def amount_text(amount: float | None, unit: Unit | None) -> str | None:
    if amount is None:
        return None
    if unit == "ns":
        return format_duration(round(amount))
    if unit == "bytes":
        return format_bytes(round(amount))
    if unit == "bytes_per_s":
        return format_bytes_per_s(amount)
    if unit == "flop_per_s":
        return format_flop_per_s(amount)
    if unit == "pct":
        return f"{amount:,.2f} %"
    return f"{amount:,.6g}"


def judge(rule: Rule, new: Measured, base: Measured | None) -> Judgement:
    """Judge one rule.

    For a relative rule, the rank test compares the new steps with the base's steps plus the allowed
    increase. The rule fails if the new steps are longer by more than noise, and passes if they are
    shorter by more than noise. Otherwise, it is inconclusive. `step_time` uses unprofiled steps if
    both sides have enough of them. Tokens per second are judged by repeats, latency percentiles by
    requests. Deterministic values (counts, bytes, SQL results) are compared directly. With a single
    time or share per side, a relative rule is inconclusive.
    """
    if rule.operator is not None:
        refuse_unknown(rule.subject, [new] if base is None else [new, base])
    try:
        if rule.operator is None:
            return _of_statement(rule, new)
        values = new.values(rule.subject)
        if not rule.is_relative:
            return _absolute(rule, values)
        if base is None:
            raise UsageError(
                f"{rule.title}: a relative rule needs a baseline",
                hint="pass --against BASE: a run, a trace, or the name of a baseline",
            )
        is_timed = min(len(new.step_ns), len(base.step_ns)) >= least_count()
        if rule.subject == "step_time" and is_timed:
            # If there are too few unprofiled steps, profiled steps are used below.
            of_run = replace(new.values("unprofiled_step_time"), rests_on="unprofiled")
            return _relative(rule, of_run, base.values("unprofiled_step_time"))
        return _relative(rule, values, base.values(rule.subject))
    except QueryError as error:
        # Unknown values neither satisfy nor violate a rule.
        return Judgement(rule, "inconclusive", None, None, None, None, None, error.message)


def _of_statement(rule: Rule, new: Measured) -> Judgement:
    if new.trace is None:
        raise QueryError(f"{new.label} is a baseline, and SQL rules need a trace")
    count = len(ask(new.trace, rule.subject, rule.title))
    reason = "no row" if count == 0 else f"{count:,} row{'s' * (count != 1)}, expected none"
    outcome: Outcome = "failed" if count else "passed"
    return Judgement(rule, outcome, float(count), None, 0.0, "count", None, reason)


def _absolute(rule: Rule, values: Values) -> Judgement:
    assert rule.operator is not None
    bound = rule.bound_in(values.unit, is_share=rule.subject == "mfu")
    value = values.worst(rule.operator, bound)
    holds = HOLDS[rule.operator](value, bound)
    count = len(values.series)
    reason = f"median of {count:,} steps" if values.is_sampled and count > 1 else ""
    if not values.is_sampled and count > 1:
        reason = f"worst of {count:,} values"
    outcome: Outcome = "passed" if holds else "failed"
    reason = _joined(reason, values.rests_on)
    return Judgement(rule, outcome, value, None, bound, values.unit, None, reason)


def _relative(rule: Rule, values: Values, base: Values) -> Judgement:
    assert rule.operator is not None
    base_value = base.worst(rule.operator)
    limit = base_value * (1 + rule.bound / 100)
    value = values.worst(rule.operator, limit)
    change = 100 * (value - base_value) / base_value if base_value else None
    outcome, reason = _beyond_noise(rule, values, base, HOLDS[rule.operator](value, limit))
    reason = _joined(reason, values.rests_on)
    return Judgement(rule, outcome, value, base_value, limit, values.unit, change, reason)


def _joined(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def _beyond_noise(rule: Rule, new: Values, base: Values, holds: bool) -> tuple[Outcome, str]:
    if new.is_exact and base.is_exact:
        return "passed" if holds else "failed", "one value each"
    if rule.operator == "=":
        raise UsageError(f"{rule.title}: a relative rule needs a bound, not an equality")
    if new.is_sampled and base.is_sampled:
        return _of_series(rule, new.series, base.series, "steps")
    if new.repeats and base.repeats:
        return _of_series(rule, new.repeats, base.repeats, "repeats")
    if new.requests and base.requests:
        allowed = base.requests.scaled(1 + rule.bound / 100)
        result = quantile_difference(allowed, new.requests, new.quantile, margin_pct=0)
        counts = f"{base.requests.count:,} vs. {new.requests.count:,} requests"
        return _decided(rule, result.verdict, counts, "beyond noise", result.more_count)
    return "inconclusive", "one value each: noise unknown"


def _of_series(
    rule: Rule, new: Sequence[float], base: Sequence[float], what: str
) -> tuple[Outcome, str]:
    allowed = [value * (1 + rule.bound / 100) for value in base]
    # Zeros on both sides satisfy every bound.
    if not any(allowed) and not any(new):
        return "passed", "none in either run"
    result = compare_series(allowed, new, margin_pct=0)
    counts = f"{len(base):,} vs. {len(new):,} {what}"
    if result.verdict is None:
        return "inconclusive", f"{counts}: noise is unknown with only one"
    beyond = f"beyond noise (p = {result.p_value:.2g})"
    needed = result.needed_count
    if result.verdict == "inconclusive" and needed is not None:
        # With large noise, more measurements are needed.
        if result.is_apart:
            holds = (result.difference < 0) == (rule.operator in ("<=", "<"))
            side = "within" if holds else "beyond"
            return "inconclusive", f"{counts}, all {side} the bound; a verdict needs {needed}"
        if result.more_count == needed - min(len(base), len(new)):
            return "inconclusive", f"{counts}, too few; a verdict needs {needed}"
    return _decided(rule, result.verdict, counts, beyond, result.more_count)


def _decided(
    rule: Rule, verdict: Verdict | None, counts: str, beyond: str, more_count: int | None
) -> tuple[Outcome, str]:
    if verdict in ("faster", "slower"):
        is_below = verdict == "faster"
        outcome: Outcome = "passed" if is_below == (rule.operator in ("<=", "<")) else "failed"
        return outcome, f"{counts}, {beyond}"
    more = "" if more_count is None else f"; about {more_count:,} more would decide"
    return "inconclusive", f"{counts}, within noise{more}"
