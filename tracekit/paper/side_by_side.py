"""Put the paper's figures and ours beside each other, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tracekit.errors import TracekitError, UsageError
from tracekit.paper.differences import Difference, find_differences
from tracekit.paper.matching import BATCH_IS_RESULT, describe, is_of_stage, mismatch, why_alone
from tracekit.paper.measures import MEASURES, Figures, Key, Measure
from tracekit.paper.runs import OurRun
from tracekit.paper.tables import Cell, PaperTable, Row, hint_at_ours
from tracekit.paper.whole_model import EXTRAPOLATIONS, Whole, Wholes

NO_SUCH_ROW = "the paper has no such row"
"""The note of a figure of ours that the paper does not have, of a run that stands beside others."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a comparison: a row of the paper, a run of ours, or both.

    `names` are the cells that tell what the line is about. `ours` are our figures by name, None
    where there are none; `note` says why one side is missing. `differences` are what the setup of
    the run differs in from that of the row; `wholes` are the figures of a run with cut layers as
    the whole model would have them, by name.
    """

    names: Row
    paper: Row | None
    run: OurRun | None
    ours: Row | None
    note: str | None
    differences: tuple[Difference, ...] = ()
    wholes: Mapping[str, Whole] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published table with ours beside it.

    A row of the paper has one line for every run that belongs to it, or one without any; then come
    the lines of runs that belong to no row. `name_columns` and `figure_columns` are names with
    their DuckDB types; a figure may be one of the paper, of ours, or of both.
    """

    table: PaperTable
    lines: tuple[Line, ...]
    name_columns: tuple[tuple[str, str], ...]
    figure_columns: tuple[tuple[str, str], ...]
    our_figures: frozenset[str]

    @property
    def whole_figures(self) -> tuple[str, ...]:
        """The figures of ours that can be extrapolated to a whole model."""
        found = EXTRAPOLATIONS.get(self.table.name)
        return found.figures if found else ()

    @property
    def telling_figures(self) -> tuple[str, ...]:
        """The figures of ours that tell the lines of one run in one row apart."""
        found = EXTRAPOLATIONS.get(self.table.name)
        return found.by if found else ()

    @property
    def paper_figures(self) -> frozenset[str]:
        """The figures that the paper has."""
        return frozenset(column.name for column in self.table.columns)


def compare(
    table: PaperTable,
    runs: Sequence[OurRun],
    platform: str | None = None,
    *,
    is_strict: bool = False,
) -> Comparison:
    """Put runs beside a published table.

    Args:
        table: the published table.
        runs: ours.
        platform: only these rows of the paper.
        is_strict: model, layers and batch size have to be those of the row.

    Raises:
        UsageError: the table has no such platform, or nothing of ours can stand beside it.
    """
    if table.name not in MEASURES:
        raise UsageError(
            f"{table.name} has no figures of ours beside it",
            hint=hint_at_ours(table.name),
        )
    measure = MEASURES[table.name]
    ours = dict(measure.figures)
    # A figure is what we measure too; all else of the paper's columns tells the rows apart.
    names = [
        (column.name, column.type)
        for column in table.columns
        if column.name not in ours and column.name not in ("as_printed", "outcome")
    ]
    theirs = [(column.name, column.type) for column in table.columns if column.name in ours]
    known = {name for name, _ in theirs}
    rows = table.of_platform(platform)
    taken = [_take(table, measure, run) for run in _candidates(table, runs)]
    for one in taken:
        one.apart = _why_apart(table, measure, one, is_strict=is_strict)
    matched = [one for one in taken if one.apart is None]
    lines = [
        line for row in rows for line in _beside(table, measure, row, matched, is_strict=is_strict)
    ]
    lines += [line for one in taken for line in _alone(table, measure, one, is_strict=is_strict)]
    name_keys = [name for name, _ in names]
    return Comparison(
        table=table,
        lines=tuple(_with_names(line, name_keys) for line in lines),
        name_columns=tuple(names),
        figure_columns=(*theirs, *(item for item in measure.figures if item[0] not in known)),
        our_figures=frozenset(ours),
    )


@dataclass(slots=True)
class _Taken:
    """What was taken from one run, and which of it stands beside a row of the paper already."""

    run: OurRun
    figures: Figures
    reason: str | None
    wholes: Wholes = field(default_factory=dict)
    apart: str | None = None
    used: set[Key] = field(default_factory=set)


def _candidates(table: PaperTable, runs: Sequence[OurRun]) -> list[OurRun]:
    if "stage" not in table.setup:
        once: dict[str, OurRun] = {}
        for run in runs:
            once.setdefault(run.hardware, run)
        return list(once.values())
    if table.name not in BATCH_IS_RESULT:
        return list(runs)
    best = _largest_batches([run for run in runs if is_of_stage(table, run)])
    return [run for run in runs if run in best or not is_of_stage(table, run)]


def _largest_batches(runs: Sequence[OurRun]) -> list[OurRun]:
    """Keep, of runs that differ in the batch size alone, the one with the largest that fitted."""
    best: dict[tuple[object, ...], OurRun] = {}

    def rank(run: OurRun) -> tuple[bool, int]:
        return run.manifest.outcome == "ok", run.manifest.batch_size or 0

    for run in runs:
        stated = run.manifest
        alike = (
            *(run.model, run.method, run.hardware, stated.engine, stated.precision),
            *(stated.sequence_length, stated.parallel.world_size),
        )
        if alike not in best or rank(run) > rank(best[alike]):
            best[alike] = run
    return list(best.values())


def _take(table: PaperTable, measure: Measure, run: OurRun) -> _Taken:
    if not is_of_stage(table, run):
        return _Taken(run, [], None)
    if run.manifest.outcome in ("failed", "incomplete"):
        how = "failed" if run.manifest.outcome == "failed" else "is incomplete"
        return _Taken(run, [], f"the run {how}: {run.manifest.reason or 'no reason given'}")
    try:
        taken = _Taken(run, measure.take(run), None)
        if run.whole_layer_count is not None and table.name in EXTRAPOLATIONS:
            taken.wholes = EXTRAPOLATIONS[table.name].take(run)
        return taken
    except TracekitError as error:
        return _Taken(run, [], error.message)


def _why_apart(table: PaperTable, measure: Measure, one: _Taken, *, is_strict: bool) -> str | None:
    """Return why a run stands beside no row at all, None if it may."""
    if not is_of_stage(table, one.run):
        return why_alone(table, one.run, is_strict=is_strict)
    theirs = {tuple(row[name] for name in measure.key) for row in table.rows}
    ours = {key for key, _ in one.figures}
    if not ours or ours & theirs or "stage" not in table.setup:
        return None
    return f"{_key_text(measure, ours)}: the paper has {_key_text(measure, theirs)}"


def _key_text(measure: Measure, keys: set[Key]) -> str:
    """Return keys as text: `n 688, k 256`."""
    texts = (
        ", ".join(f"{name} {value}" for name, value in zip(measure.key, key, strict=False))
        for key in sorted(keys, key=str)
    )
    return " or ".join(texts)


def _beside(
    table: PaperTable, measure: Measure, row: Row, taken: Sequence[_Taken], *, is_strict: bool
) -> Iterator[Line]:
    """Yield the lines of one row of the paper."""
    beside = [one for one in taken if mismatch(table, row, one.run, is_strict=is_strict) is None]
    if not beside:
        note = None
        if "stage" in table.setup:
            note = f"no run of {describe(table, row, is_strict=is_strict)}"
        yield Line(row, row, None, None, note)
    key = tuple(row[name] for name in measure.key)
    names = [name for name, _ in measure.figures]
    for one in beside:
        own = [figures for found, figures in one.figures if found == key]
        one.used.add(key)
        differing = find_differences(table, row, one.run)
        for figures in own:
            ours = dict(zip(names, figures, strict=True))
            yield Line(row, row, one.run, ours, None, differing, _wholes(table, one, key, ours))
        if not own:
            note = one.reason or f"the run has no such row in {measure.source}"
            yield Line(row, row, one.run, None, note, differing)


def _alone(table: PaperTable, measure: Measure, one: _Taken, *, is_strict: bool) -> Iterator[Line]:
    """Yield the lines of a run that stand beside no row of the paper."""
    names = [name for name, _ in measure.figures]
    note: str | None = None
    if one.used:
        note = NO_SUCH_ROW
    elif "stage" in table.setup:
        note = one.apart or why_alone(table, one.run, is_strict=is_strict)
    if not one.figures and not one.used:
        why = "; ".join(text for text in (note, one.reason) if text)
        yield Line(_named(measure, one.run, ()), None, one.run, None, why)
    for key, figures in one.figures:
        if key not in one.used:
            own = dict(zip(names, figures, strict=True))
            wholes = _wholes(table, one, key, own)
            yield Line(_named(measure, one.run, key), None, one.run, own, note, (), wholes)


def _wholes(table: PaperTable, one: _Taken, key: Key, figures: Row) -> Mapping[str, Whole]:
    """Return what the whole model would have of some figures of a run, by name."""
    if table.name not in EXTRAPOLATIONS:
        return {}
    further = (figures[name] for name in EXTRAPOLATIONS[table.name].by)
    return one.wholes.get((*key, *further), {})


def _named(measure: Measure, run: OurRun, key: Key) -> Row:
    """Return the cells that name a row of the paper, for a run that has none."""
    own: dict[str, Cell] = {
        "model": run.model,
        "method": run.manifest.opt,
        "framework": run.manifest.engine,
    }
    return own | dict(zip(measure.key, key, strict=False))


def _with_names(line: Line, names: Sequence[str]) -> Line:
    cells: Row = {name: line.names.get(name) for name in names}
    return replace(line, names=cells)
