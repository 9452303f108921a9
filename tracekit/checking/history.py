"""History of measures over several runs, and the runs in which they changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median

from msgspec import Struct
from msgspec.structs import replace

from tracekit.analysis.result import Result, columns_of_text
from tracekit.checking.baseline import DEFAULT_FOLDER, Folder, load
from tracekit.checking.checking import is_baseline, label_of, measure, opened
from tracekit.checking.measured import Measured
from tracekit.comparison.noise import compare_series, share_pct
from tracekit.comparison.statistics import ALPHA, student_tail, students_t
from tracekit.errors import QueryError, UsageError
from tracekit.ingest.trace_readers import Progress
from tracekit.units import unit_of

MARGIN_PCT = 2.0
"""Largest change that is ignored, percent of the earlier runs; percentage points for shares."""

MIN_RUNS = 5
"""Minimum number of runs for testing against the variation between runs; with fewer, steps
decide."""


MEASURES = {
    "unprofiled_step_ns": "unprofiled_step_time",
    "step_ns": "step_time",
    "idle_pct": "idle_pct",
    "exposed_comm_pct": "exposed_comm_pct",
    # Rules prefer the unprofiled value, but the history must not mix the two.
    "mfu_pct": "mfu.mfu_pct",
    "run_mfu_pct": "mfu.run_mfu_pct",
    "tokens_per_s": "tokens_per_s",
}
"""Names of measures in rules of `tracekit check`, by column of the history."""


class Run(Struct, frozen=True):
    name: str
    created_at: str | None
    commit: str | None
    series: dict[str, Sequence[float]]


class Change(Struct, frozen=True):
    """A change of a measure at run number `place`, and the probability of chance (`p_value`).

    `before` and `after` are medians of the runs since the previous and until the next change, and
    `before_count` and `after_count` the numbers of these runs. `basis` is the basis of the test:
    runs or steps.
    """

    place: int
    before: float
    after: float
    before_count: int
    after_count: int
    p_value: float
    basis: str


def history(
    runs: Sequence[str | Path],
    *,
    baselines: Folder = DEFAULT_FOLDER,
    by_date: bool = True,
    margin_pct: float = MARGIN_PCT,
    cache: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> dict[str, Result]:
    """Return the measures of runs over time, and where they changed.

    With `by_date`, runs are sorted by date if every run has a date. `history` has one row per run,
    with the median over steps if the measure is known per step. `history_changes` has one row per
    measure and run in which it changed.
    """
    measured = [_run(one, baselines, cache, progress) for one in runs]
    names = [one.name for one in measured]
    if len(set(names)) < len(names):
        # Runs in different folders may have the same name.
        measured = [replace(one, name=str(name)) for one, name in zip(measured, runs, strict=True)]
    dates = [_date(one.created_at) for one in measured]
    if by_date and None not in dates:
        order = sorted(range(len(dates)), key=lambda at: (dates[at], at))
        measured = [measured[at] for at in order]
    return tables_of(measured, margin_pct)


def _date(text: str | None) -> datetime | None:
    try:
        date = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _run(
    one: str | Path, baselines: Folder, cache: bool, progress: Callable[[Progress], None] | None
) -> Run:
    if is_baseline(one, baselines):
        baseline = load(str(one), baselines)
        return Run(baseline.label, baseline.created_at, None, _series(baseline))
    with opened(one, cache, progress) as trace:
        manifests = trace.sql(
            "SELECT created_at, coalesce(variables ->> '$.GITHUB_SHA', "
            "variables ->> '$.CI_COMMIT_SHA') FROM run"
        ).rows
        if len(manifests) > 1:
            raise UsageError(f"{one}: contains {len(manifests):,} runs", hint="name each run")
        created_at, commit = manifests[0] if manifests else (None, None)
        measured = measure(trace, label_of(one))
        return Run(measured.label, created_at, commit, _series(measured))


def _series(measured: Measured) -> dict[str, Sequence[float]]:
    series: dict[str, Sequence[float]] = {}
    for column, subject in MEASURES.items():
        with suppress(QueryError):
            values = measured.values(subject)
            series[column] = values.repeats or values.series
    return series


def tables_of(runs: Sequence[Run], margin_pct: float = MARGIN_PCT) -> dict[str, Result]:
    columns = ", ".join(
        f"{one} {'BIGINT' if unit_of(one) == 'ns' else 'DOUBLE'}" for one in MEASURES
    )
    rows = [
        (
            *(run.name, run.created_at, run.commit and run.commit[:12]),
            *(_middle(run, one) for one in MEASURES),
        )
        for run in runs
    ]
    changed = [row for one in MEASURES for row in _changed(one, runs, margin_pct)]
    changes = (
        "measure VARCHAR, run VARCHAR, before DOUBLE, after DOUBLE, change_pct DOUBLE, "
        "before_count BIGINT, after_count BIGINT, p_value DOUBLE, basis VARCHAR"
    )
    return {
        "history": Result(
            "history",
            columns_of_text(f"run VARCHAR, created_at VARCHAR, commit VARCHAR, {columns}"),
            rows,
        ),
        "history_changes": Result("history_changes", columns_of_text(changes), changed),
    }


def _middle(run: Run, column: str) -> float | None:
    if column not in run.series:
        return None
    value = median(run.series[column])
    return round(value) if unit_of(column) == "ns" else value


def _changed(
    column: str, runs: Sequence[Run], margin_pct: float
) -> Iterator[tuple[str | float | int, ...]]:
    measured = [run for run in runs if column in run.series]
    series = [run.series[column] for run in measured]
    for change in changes(series, margin_pct, is_share=unit_of(column) == "pct"):
        yield (
            *(column, measured[change.place].name, change.before, change.after),
            share_pct(change.after - change.before, change.before),  # type: ignore[misc]
            *(change.before_count, change.after_count, change.p_value, change.basis),
        )


def changes(
    series: Sequence[Sequence[float]], margin_pct: float = MARGIN_PCT, *, is_share: bool = False
) -> list[Change]:
    """Return the changes of a measure over ordered runs.

    The sequence of runs is split where the two parts differ most, and each part is split again
    (binary segmentation, Scott and Knott 1974). With at least :data:`MIN_RUNS` runs, Student's t
    test with equal variance decides on the medians of runs; its p-value is multiplied by the number
    of possible splits. With fewer runs, their steps are compared, ignoring the variation between
    runs. For shares, `margin_pct` is in percentage points.
    """
    middles = [median(one) for one in series]
    places: list[tuple[int, float, str]] = []
    waiting = [(0, len(series))]
    while waiting:
        begin, end = waiting.pop()
        divide = _by_steps if len(series) < MIN_RUNS else _by_runs
        division = divide(series[begin:end], middles[begin:end])
        if division is None:
            continue
        place, p_value, basis = division
        before = median(middles[begin : begin + place])
        after = median(middles[begin + place : end])
        margin = margin_pct if is_share else abs(before) * margin_pct / 100
        if p_value > ALPHA or abs(after - before) <= margin:
            continue
        places.append((begin + place, p_value, basis))
        waiting += [(begin, begin + place), (begin + place, end)]
    places.sort()
    ends = [0, *(place for place, _, _ in places), len(series)]
    all_changes = []
    for at, (place, p_value, basis) in enumerate(places):
        begin, end = ends[at], ends[at + 2]
        sides = median(middles[begin:place]), median(middles[place:end])
        all_changes.append(Change(place, *sides, place - begin, end - place, p_value, basis))
    return all_changes


def _by_runs(
    _series: Sequence[Sequence[float]], middles: Sequence[float]
) -> tuple[int, float, str] | None:
    """Return the best split of runs, its p-value, and the basis; None for fewer than three runs."""
    count = len(middles)
    if count < 3:
        return None
    t, place = max((students_t(middles, place), place) for place in range(1, count))
    return place, min(1.0, student_tail(t, count - 2) * (count - 1)), "runs"


def _by_steps(
    series: Sequence[Sequence[float]], middles: Sequence[float]
) -> tuple[int, float, str] | None:
    """Return the same for few runs, based on their steps; None if the sides do not differ."""
    count = len(middles)
    if count < 2:
        return None
    _, place = max(
        (abs(fmean(middles[place:]) - fmean(middles[:place])), place) for place in range(1, count)
    )
    before, after = middles[:place], middles[place:]
    if not (max(before) < min(after) or max(after) < min(before)):
        return None
    sides = [[value for one in part for value in one] for part in (series[:place], series[place:])]
    difference = compare_series(*sides, margin_pct=0)
    if difference.p_value is None or difference.verdict not in ("faster", "slower"):
        return None
    return place, difference.p_value, "steps"
