"""A comparison as tables, the basis of all output formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tracekit.analysis.result import Result, columns_of_text
from tracekit.comparison.effects import EFFECTS, shape_change
from tracekit.comparison.noise import Difference, compare_series, share_pct
from tracekit.comparison.serving import serving_tables
from tracekit.comparison.statistics import ALPHA
from tracekit.comparison.tree import By, Node

if TYPE_CHECKING:
    from tracekit.comparison.cells import Side
    from tracekit.comparison.comparing import Comparison
    from tracekit.comparison.matching import Pair

_JUDGED = 60
"""Maximum number of tree nodes to test, largest difference first."""

_NAMES = 20
_EFFECT_COLUMNS = ", ".join(f"{name} BIGINT" for name in EFFECTS)


def tables_of(comparison: Comparison, by: By) -> dict[str, Result]:
    tree = comparison.tree(by)
    tables = {
        "comparison_setup": _setup(comparison),
        "comparison": _total(comparison),
        "comparison_noise": _noise(comparison),
        "comparison_effects": _effects(comparison),
        "comparison_split": _split(comparison, tree),
        "comparison_work": _work(comparison, tree),
        "comparison_modules": _modules(comparison),
    }
    return tables if comparison.serving is None else tables | serving_tables(comparison.serving)


def _result(name: str, columns: str, rows: list[tuple[Any, ...]]) -> Result:
    return Result(name, columns_of_text(columns), rows)


def _setup(comparison: Comparison) -> Result:
    columns = "subject VARCHAR, name VARCHAR, base VARCHAR, new VARCHAR, weight VARCHAR"
    rows = [(one.subject, one.name, one.base, one.new, one.weight) for one in comparison.setup]
    return _result("comparison_setup", columns, rows)


def _total(comparison: Comparison) -> Result:
    base, new, root = comparison.base, comparison.new, comparison.root
    decided = comparison.measures[0]
    result = decided.difference
    run = comparison.run
    clock = None if comparison.clock is None else 100 * (float(comparison.clock) - 1)
    columns_and_values: list[tuple[str, str, Any]] = [
        ("base", "VARCHAR", base.label),
        ("new", "VARCHAR", new.label),
        ("per", "VARCHAR", comparison.per),
        ("base_ns", "BIGINT", root.base_ns),
        ("new_ns", "BIGINT", root.new_ns),
        ("delta_ns", "BIGINT", root.delta_ns),
        ("delta_pct", "DOUBLE", share_pct(root.delta_ns, root.base_ns)),
        ("run_base_ns", "DOUBLE", run and run.base.step_ns),
        ("run_new_ns", "DOUBLE", run and run.new.step_ns),
        ("run_delta_ns", "DOUBLE", run and run.delta_ns),
        ("run_delta_pct", "DOUBLE", run and run.delta_pct),
        ("run_low_ns", "DOUBLE", run and run.low_ns),
        ("run_high_ns", "DOUBLE", run and run.high_ns),
        ("run_basis", "VARCHAR", run and run.basis),
        ("verdict", "VARCHAR", comparison.verdict),
        ("within_pct", "DOUBLE", result.within_pct),
        ("margin_pct", "DOUBLE", comparison.margin_pct),
        ("more_count", "BIGINT", result.more_count),
        ("sample", "VARCHAR", decided.name),
        ("base_sample_count", "BIGINT", result.base_count),
        ("new_sample_count", "BIGINT", result.new_count),
        ("base_unit_count", "BIGINT", base.unit_count),
        ("new_unit_count", "BIGINT", new.unit_count),
        ("base_sum_ns", "BIGINT", root.base_sum_ns),
        ("new_sum_ns", "BIGINT", root.new_sum_ns),
        ("base_device_count", "BIGINT", base.device_count),
        ("new_device_count", "BIGINT", new.device_count),
        ("base_run_count", "BIGINT", base.run_count),
        ("new_run_count", "BIGINT", new.run_count),
        ("base_outside_pct", "DOUBLE", _outside_pct(base)),
        ("new_outside_pct", "DOUBLE", _outside_pct(new)),
        ("matched_pct", "DOUBLE", comparison.matched_pct),
        ("clock_pct", "DOUBLE", clock),
        ("shape_change", "VARCHAR", shape_change(comparison.pairs)),
    ]
    columns = ", ".join(f"{name} {kind}" for name, kind, _ in columns_and_values)
    return _result("comparison", columns, [tuple(value for *_, value in columns_and_values)])


def _outside_pct(side: Side) -> float | None:
    return share_pct(side.outside_ns, side.total_ns + side.outside_ns)


_NOISE = {
    "measure": ("VARCHAR", "name"),
    "base_count": ("BIGINT", "difference.base_count"),
    "new_count": ("BIGINT", "difference.new_count"),
    "base_median_ns": ("DOUBLE", "difference.base"),
    "new_median_ns": ("DOUBLE", "difference.new"),
    "difference_ns": ("DOUBLE", "difference.difference"),
    "difference_pct": ("DOUBLE", "difference.difference_pct"),
    "low_pct": ("DOUBLE", "difference.low_pct"),
    "high_pct": ("DOUBLE", "difference.high_pct"),
    "p_value": ("DOUBLE", "difference.p_value"),
    "verdict": ("VARCHAR", "difference.verdict"),
    "more_count": ("BIGINT", "difference.more_count"),
    "is_apart": ("BOOLEAN", "difference.is_apart"),
    "needed_count": ("BIGINT", "difference.needed_count"),
    "correlation": ("DOUBLE", "difference.correlation"),
    "base_warm_up_count": ("BIGINT", "base_trend.warm_up_count"),
    "new_warm_up_count": ("BIGINT", "new_trend.warm_up_count"),
    "base_outliers": ("BIGINT[]", "base_trend.outliers"),
    "new_outliers": ("BIGINT[]", "new_trend.outliers"),
    "base_drift_pct": ("DOUBLE", "base_trend.drift_pct"),
    "new_drift_pct": ("DOUBLE", "new_trend.drift_pct"),
    "base_series_ns": ("DOUBLE[]", "base"),
    "new_series_ns": ("DOUBLE[]", "new"),
}
"""Columns of `comparison_noise`, with their types and functions that return the value."""


def _noise(comparison: Comparison) -> Result:
    row_of = attrgetter(*(where for _, where in _NOISE.values()))
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in _NOISE.items())
    return _result("comparison_noise", columns, [row_of(one) for one in comparison.measures])


def _effects(comparison: Comparison) -> Result:
    columns = "effect VARCHAR, delta_ns BIGINT, base_pct DOUBLE"
    base_ns, effects = comparison.root.base_ns, comparison.root.effects
    rows = [
        (
            *(name.removeprefix("by_").removesuffix("_ns"), effects[name]),
            share_pct(effects[name], base_ns),
        )
        for name in sorted(EFFECTS, key=lambda one: -abs(effects[one]))
        if effects[name]
    ]
    return _result("comparison_effects", columns, rows)


def _split(comparison: Comparison, tree: Node) -> Result:
    columns = (
        "node BIGINT, parent BIGINT, depth BIGINT, level VARCHAR, name VARCHAR, base_ns BIGINT, "
        "new_ns BIGINT, delta_ns BIGINT, base_pct DOUBLE, verdict VARCHAR, low_ns DOUBLE, "
        f"high_ns DOUBLE, base_sum_ns BIGINT, new_sum_ns BIGINT, {_EFFECT_COLUMNS}"
    )
    rows = []
    judged = _judged(comparison, tree)
    for number, parent, depth, node in _numbered(tree):
        judgement = judged.get(id(node), (None, None, None))
        rows.append(
            (
                *(number, parent, depth, node.level, node.name),
                *(node.base_ns, node.new_ns, node.delta_ns),
                share_pct(node.delta_ns, tree.base_ns),
                *judgement,
                *(node.base_sum_ns, node.new_sum_ns),
                *(node.effects[name] for name in EFFECTS),
            )
        )
    return _result("comparison_split", columns, rows)


def _numbered(tree: Node) -> Iterator[tuple[int, int | None, int, Node]]:
    waiting: list[tuple[Node, int | None, int]] = [(tree, None, 0)]
    number = 0
    while waiting:
        node, parent, depth = waiting.pop()
        yield number, parent, depth, node
        inside = [child for child in node.children if child.level != "work"]
        waiting += [(child, number, depth + 1) for child in reversed(inside)]
        number += 1


_Judgement = tuple[str | None, float | None, float | None]


def _judged(comparison: Comparison, tree: Node) -> dict[int, _Judgement]:
    """Return the verdicts on the largest differences, each with its interval, ns per unit.

    Some of hundreds of parts differ by chance. The method of Benjamini and Hochberg (1995) limits
    the false discovery rate to `ALPHA`. If nothing differs, at most that share of comparisons
    reports a difference.
    """
    nodes = [node for node in tree.walk() if node.level != "work" and node is not tree]
    most = sorted(nodes, key=lambda node: -abs(node.delta_ns))[:_JUDGED]
    result = {id(node): _judge(comparison, node) for node in most}
    limit = chance_limit([one.p_value for one in result.values()], len(nodes))
    judged: dict[int, _Judgement] = {}
    for node in (tree, *most):
        one = result.get(id(node)) or _judge(comparison, node)
        verdict: str | None = one.verdict
        if node is not tree and verdict in ("faster", "slower") and (one.p_value or 0) > limit:
            verdict = "inconclusive"
        judged[id(node)] = verdict, one.low, one.high
    return judged


def chance_limit(p_values: Iterable[float | None], count: int) -> float:
    """Return the largest p-value that counts as a difference at a limited false discovery rate.

    `count` is the number of possible tests; None is a test without a p-value.
    """
    known = sorted(value for value in p_values if value is not None)
    limits = [ALPHA * (place + 1) / count for place in range(len(known))]
    accepted = [value for value, limit in zip(known, limits, strict=True) if value <= limit]
    return max(accepted, default=0.0)


def _judge(comparison: Comparison, node: Node) -> Difference:
    series = (
        comparison.base.series(cell for pair in node.pairs for cell in pair.base),
        comparison.new.series(cell for pair in node.pairs for cell in pair.new),
    )
    margin = comparison.margin_pct * comparison.root.base_ns / 100
    return compare_series(*series, margin=margin)


def _work(comparison: Comparison, tree: Node) -> Result:
    columns = (
        "part VARCHAR, phase VARCHAR, module VARCHAR, new_module VARCHAR, class VARCHAR, "
        "op VARCHAR, shape VARCHAR, new_shape VARCHAR, match VARCHAR, base_kernels VARCHAR[], "
        "new_kernels VARCHAR[], base_kernel_count DOUBLE, new_kernel_count DOUBLE, "
        "base_ns BIGINT, new_ns BIGINT, delta_ns BIGINT, base_kernel_ns DOUBLE, "
        f"new_kernel_ns DOUBLE, {_EFFECT_COLUMNS}"
    )
    leaves = sorted(
        (node for node in tree.walk() if node.level == "work"), key=lambda node: -abs(node.delta_ns)
    )
    rows = [_work_row(comparison, leaf) for leaf in leaves]
    return _result("comparison_work", columns, rows)


def _work_row(comparison: Comparison, leaf: Node) -> tuple[Any, ...]:
    (pair,) = leaf.pairs
    sides = (pair.base, comparison.base.unit_count), (pair.new, comparison.new.unit_count)
    counts = [sum(one.kernel_count for one in cells) / units for cells, units in sides]
    times = [sum(one.kernel_ns for one in cells) / units for cells, units in sides]
    return (
        *(pair.part, pair.phase, pair.module, _only(pair, 1, "module"), pair.class_name),
        *(leaf.name or None, _only(pair, 0, "shape"), _only(pair, 1, "shape"), pair.match),
        *(pair.base_names[:_NAMES], pair.new_names[:_NAMES], *counts),
        *(leaf.base_ns, leaf.new_ns, leaf.delta_ns, *times),
        *(leaf.effects[name] for name in EFFECTS),
    )


def _only(pair: Pair, side: int, name: str) -> str | None:
    """Return the value that all cells of a side share, else the first value with an ellipsis."""
    result = list(dict.fromkeys(getattr(cell, name) for cell in (pair.base, pair.new)[side]))
    texts = [text for text in result if text is not None]
    return (texts[0] + (", …" if len(texts) > 1 else "")) if texts else None


def _modules(comparison: Comparison) -> Result:
    rows = [
        (comparison.alignment.base_of[new], new, how)
        for new, how in comparison.alignment.renamed.items()
        if comparison.alignment.base_of[new] != new
    ]
    return _result("comparison_modules", "base VARCHAR, new VARCHAR, how VARCHAR", rows)
