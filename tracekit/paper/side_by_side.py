"""Put the paper's figures and ours beside each other, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tracekit.errors import TracekitError, UsageError
from tracekit.paper.matching import BATCH_IS_RESULT, describe, is_candidate, mismatch, why_alone
from tracekit.paper.measures import MEASURES, Figures, Key, Measure
from tracekit.paper.runs import OurRun
from tracekit.paper.tables import Cell, PaperTable, Row, hint_at_ours


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a comparison: a row of the paper, a run of ours, or both.

    `names` are the cells that tell what the line is about. `ours` are our figures by name, None
    where there are none; `note` says why one side is missing.
    """

    names: Row
    paper: Row | None
    run: OurRun | None
    ours: Row | None
    note: str | None


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
    def paper_figures(self) -> frozenset[str]:
        """The figures that the paper has."""
        return frozenset(column.name for column in self.table.columns)


def compare(table: PaperTable, runs: Sequence[OurRun], platform: str | None = None) -> Comparison:
    """Put runs beside a published table.

    Args:
        table: the published table.
        runs: ours.
        platform: only these rows of the paper.

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
    taken = [_take(measure, run) for run in _candidates(table, runs)]
    rows = table.of_platform(platform)
    lines = [line for row in rows for line in _beside(table, measure, row, taken)]
    lines += [line for one in taken for line in _alone(table, measure, one)]
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
    used: set[Key] = field(default_factory=set)


def _candidates(table: PaperTable, runs: Sequence[OurRun]) -> list[OurRun]:
    found = [run for run in runs if is_candidate(table, run)]
    if "stage" not in table.setup:
        once: dict[str, OurRun] = {}
        for run in found:
            once.setdefault(run.hardware, run)
        return list(once.values())
    return _largest_batches(found) if table.name in BATCH_IS_RESULT else found


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


def _take(measure: Measure, run: OurRun) -> _Taken:
    if run.manifest.outcome in ("failed", "incomplete"):
        how = "failed" if run.manifest.outcome == "failed" else "is incomplete"
        return _Taken(run, [], f"the run {how}: {run.manifest.reason or 'no reason given'}")
    try:
        return _Taken(run, measure.take(run), None)
    except TracekitError as error:
        return _Taken(run, [], error.message)


def _beside(
    table: PaperTable, measure: Measure, row: Row, taken: Sequence[_Taken]
) -> Iterator[Line]:
    """Yield the lines of one row of the paper."""
    beside = [one for one in taken if mismatch(table, row, one.run) is None]
    if not beside:
        note = f"no run of {describe(table, row)}" if "stage" in table.setup else None
        yield Line(row, row, None, None, note)
    key = tuple(row[name] for name in measure.key)
    names = [name for name, _ in measure.figures]
    for one in beside:
        own = [figures for found, figures in one.figures if found == key]
        one.used.add(key)
        for figures in own:
            yield Line(row, row, one.run, dict(zip(names, figures, strict=True)), None)
        if not own:
            note = one.reason or f"the run has no such row in {measure.source}"
            yield Line(row, row, one.run, None, note)


def _alone(table: PaperTable, measure: Measure, one: _Taken) -> Iterator[Line]:
    """Yield the lines of a run that stand beside no row of the paper."""
    names = [name for name, _ in measure.figures]
    if one.used:
        note: str | None = "the paper has no such row"
    else:
        note = why_alone(table, one.run) if "stage" in table.setup else None
    if one.reason and not one.used:
        yield Line(_named(measure, one.run, ()), None, one.run, None, f"{note}; {one.reason}")
    for key, figures in one.figures:
        if key not in one.used:
            own = dict(zip(names, figures, strict=True))
            yield Line(_named(measure, one.run, key), None, one.run, own, note)


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
    return Line(cells, line.paper, line.run, line.ours, line.note)
