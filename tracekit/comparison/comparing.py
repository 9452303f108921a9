"""Opens two sides, matches their work, and splits and tests the difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from tracekit.analysis.result import Result
from tracekit.comparison.cells import Per, Reading, Side, make_side, read, usual_per
from tracekit.comparison.effects import clock_factor
from tracekit.comparison.matching import Pair, match_sides
from tracekit.comparison.measures import (
    Measure,
    RunDifference,
    RunStep,
    measures_of,
    run_difference,
    run_step,
    unprofiled_steps,
)
from tracekit.comparison.noise import MARGIN_PCT, Verdict
from tracekit.comparison.places import Alignment, align_modules
from tracekit.comparison.serving import Served, Serving, compare_serving, served_by
from tracekit.comparison.setup import Facts, Health, Unlike, facts_of, health_of, unlike
from tracekit.comparison.tree import By, Node, make_tree, rearranged
from tracekit.errors import QueryError
from tracekit.ingest.trace_readers import Progress
from tracekit.storage import Location
from tracekit.trace import Trace


class Comparison(Struct, frozen=True, dict=True):
    """Two sides and the difference of their time, split into parts that add up, and tested.

    Created by :func:`tracekit.compare`. All figures are ns per unit; `per` is the unit.
    """

    base: Side
    new: Side
    pairs: Sequence[Pair]
    alignment: Alignment
    clock: Fraction | None
    root: Node
    measures: Sequence[Measure]
    setup: Sequence[Unlike]
    margin_pct: float
    serving: Serving | None = None
    run: RunDifference | None = None

    def __repr__(self) -> str:
        return f"<Comparison: {self.base.label} and {self.new.label}, per {self.per}>"

    def _repr_html_(self) -> str:
        """Return the first table as HTML, which is how a notebook shows the comparison."""
        return next(iter(self.results().values()))._repr_html_()

    @property
    def per(self) -> Per:
        """The unit of all figures; see :data:`Per`."""
        return self.base.per

    @property
    def delta_ns(self) -> int:
        """Increase of the time per unit from base to new, ns."""
        return self.root.delta_ns

    @property
    def verdict(self) -> Verdict | None:
        """Result of the noise test; None if a side has only one measurement.

        Based on unprofiled steps if both sides have them, else on profiled steps.
        """
        return self.measures[0].difference.verdict if self.run is None else self.run.verdict

    @cached_property
    def matched_pct(self) -> float | None:
        """Matched share of the device time of both sides, 0 to 100; None if unknown."""
        matched = total = 0
        for pair in self.pairs:
            if pair.part != "idle":
                size = sum(cell.kernel_ns for cell in (*pair.base, *pair.new))
                total += size
                matched += size if pair.match not in ("new", "gone") else 0
        return 100 * matched / total if total else None

    def tree(self, by: By = "module") -> Node:
        """Return the split as a tree; every level adds up to its parent.

        Args:
            by: first level of the compute split: module, class, or phase.
        """
        return rearranged(self.root, by)

    def results(self, by: By = "module") -> dict[str, Result]:
        """Return the comparison as tables by name, as shown on the command line.

        Args:
            by: first level of the compute split.
        """
        from tracekit.comparison.tables import tables_of

        return tables_of(self, by)


def compare(
    base: str | Path | Trace | Sequence[str | Path | Trace],
    new: str | Path | Trace | Sequence[str | Path | Trace],
    *,
    per: Per | None = None,
    skip: int = 0,
    margin_pct: float = MARGIN_PCT,
    cache: bool = True,
    rules: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Comparison:
    """Compare two runs: split the difference of their time, and test whether it exceeds noise.

    Args:
        base: the reference: a trace, a run folder, a store, or an open trace; several are
            repeats of the same run.
        new: the other side, in the same form.
        per: unit of figures: step, window, layer, token, or request. The default is a step if steps
            cover most of the time of both sides, and one has several, else a device window.
        skip: number of steps to omit at the beginning of each run.
        margin_pct: largest difference that counts as no difference, percent of the base.
        cache: whether to cache ingested traces, as in :func:`tracekit.open`.
        rules: a rules file for the classifier, as in :func:`tracekit.open`.
        progress: called at intervals while a trace is read.

    Raises:
        TraceError: a trace cannot be read.
        StoreError: a store cannot be opened.
        UsageError: a side has nothing to compare, or lacks the unit.
        QueryError: a side has no trace.
    """
    from tracekit.opening import OpenRequest, open_request

    def opened(one: str | Path | Trace, resources: ExitStack) -> Trace:
        if isinstance(one, str | Path):
            rules_file = None if rules is None else Path(rules)
            request = OpenRequest([one], cache=cache, rules=rules_file, progress=progress)
            return resources.enter_context(open_request(request))
        return one

    names = _labels(base, new)
    with ExitStack() as resources:
        sides = [[opened(one, resources) for one in _several(side)] for side in (base, new)]
        for side, name in zip(sides, names, strict=True):
            if not all(one.sql("SELECT EXISTS (FROM trace)").rows[0][0] for one in side):
                raise QueryError(
                    f"compare needs a trace, but {name} has none",
                    hint="tracekit query run BASE NEW shows both runs; tracekit check NEW "
                    "--against BASE --rule 'p99(ttft) <= +5%' compares requests",
                )
        # An open trace runs one query at a time, even if it is on both sides.
        is_shared = any(one is other for one in sides[0] for other in sides[1])
        with ThreadPoolExecutor(1 if is_shared else 2) as pool:
            readings, facts, health, plain, served, runs = zip(
                *pool.map(_read, sides, names, (per, per)), strict=True
            )
    per = per or usual_per(*readings)
    both = make_side(readings[0], per, skip), make_side(readings[1], per, skip)
    alignment = align_modules(both[0].modules, both[1].modules)
    pairs = match_sides(*both, alignment)
    clock = clock_factor(pairs)
    root = make_tree(pairs, (both[0].unit_count, both[1].unit_count), clock)
    measures = measures_of(*both, plain, margin_pct)
    return Comparison(
        *both,
        pairs,
        alignment,
        clock,
        root,
        measures,
        unlike(facts[0], facts[1], health),
        margin_pct,
        compare_serving(served[0], served[1], margin_pct),
        run_difference(runs[0], runs[1], measures, margin_pct) if per == "step" else None,
    )


def _read(
    traces: Sequence[Trace], label: str, per: Per | None
) -> tuple[Reading, Facts, Health, list[float], Served, RunStep | None]:
    reading, plain = read(traces, label, per), unprofiled_steps(traces)
    return (
        *(reading, facts_of(traces), health_of(traces), plain, served_by(traces)),
        run_step(traces, plain) if per in (None, "step") and reading.has_steps else None,
    )


_Given: TypeAlias = "str | Path | Trace | Sequence[str | Path | Trace]"


def _several(given: _Given) -> Sequence[str | Path | Trace]:
    return given if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _labels(base: _Given, new: _Given) -> tuple[str, str]:
    """Return the shortest distinct file names of both sides."""
    parts = [[_path_of(one).parts for one in _several(side)] for side in (base, new)]
    for length in (1, 2, 3):
        names = [" + ".join("/".join(one[-length:]) for one in side) for side in parts]
        if names[0] != names[1] and all(names):
            return names[0], names[1]
    shortest = ["/".join(one[-1:]) for one in parts[0]]
    if parts[0] == parts[1] and all(shortest):
        name = " + ".join(shortest)
        return name, f"{name} (again)"
    return "base", "new"


def _path_of(one: str | Path | Trace) -> Path:
    if isinstance(one, str | Path):
        return Path(Location.of(one).shown)  # without the signature of a URL
    return one.store_path or Path()
