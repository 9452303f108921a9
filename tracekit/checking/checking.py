"""Checks a run against rules and a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from tracekit.checking.baseline import (
    DEFAULT_FOLDER,
    Baseline,
    Folder,
    is_file_of_one,
    load,
    names,
)
from tracekit.checking.evaluate import judge
from tracekit.checking.measured import Measured, figures_of, latencies_of, repeats_of
from tracekit.checking.report import Report
from tracekit.checking.rules import Rule
from tracekit.comparison.cells import Per, make_side, read
from tracekit.comparison.setup import facts_of, health_of
from tracekit.errors import UsageError
from tracekit.ingest.trace_readers import Progress
from tracekit.storage import Location
from tracekit.storage.url import is_url
from tracekit.trace import Trace


def check(
    new: str | Path | Trace,
    rules: Sequence[Rule],
    *,
    against: str | Path | Trace | None = None,
    baselines: Folder = DEFAULT_FOLDER,
    per: Per | None = None,
    skip: int = 0,
    cache: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Check a run. The options are as in :func:`tracekit.compare`.

    `against` is the base of relative rules: a run, or the name, path, or URL of a baseline.
    """
    with ExitStack() as resources:
        trace = resources.enter_context(opened(new, cache, progress))
        base: Measured | None = None
        if against is None or not any(rule.is_relative for rule in rules):
            measured = measure(trace, label_of(new), per, skip)
        elif is_baseline(against, baselines):
            baseline = load(str(against), baselines)
            if per is not None and per != baseline.side.per:
                raise UsageError(
                    f"baseline {baseline.label} is per {baseline.side.per}, not per {per}",
                    hint=f"create one with tracekit check baseline save --per {per}",
                )
            base = replace(baseline, label=f"baseline {baseline.label}")
            measured = measure(trace, label_of(new), per or baseline.side.per, skip)
        else:
            other = resources.enter_context(opened(against, cache, progress))
            base = measure(other, label_of(against), per, skip)
            measured = measure(trace, label_of(new), per, skip)
            if base.side and measured.side and base.side.per != measured.side.per:
                # Steps are compared only if both sides mark them; otherwise, compare windows.
                base = measure(other, label_of(against), "window", skip)
                measured = measure(trace, label_of(new), "window", skip)
        judgements = [judge(rule, measured, base) for rule in rules]
    return Report(measured.label, base.label if base else None, judgements)


def measure(trace: Trace, label: str, per: Per | None = None, skip: int = 0) -> Measured:
    side = None
    (has_trace,) = trace.sql("SELECT EXISTS (FROM trace)")
    if has_trace[0]:
        reading = read([trace], label, per)
        side = make_side(reading, per or ("step" if reading.step_count else "window"), skip)
    return Measured(label, side, {}, figures_of(trace), trace, *repeats_of(trace))


def make_baseline(
    name: str, trace: Trace, label: str, *, per: Per | None = None, skip: int = 0
) -> Baseline:
    measured = measure(trace, label, per, skip)
    side, _ = measured.cells()
    series = measured.repeats, measured.step_ns, latencies_of(trace)
    created_at = datetime.now(UTC).isoformat(timespec="seconds")
    health, facts = health_of([trace]), facts_of([trace])
    return Baseline(name, side, health, measured.figures, None, *series, facts, created_at)


def is_baseline(against: str | Path | Trace, folder: Folder) -> bool:
    if not isinstance(against, str | Path):
        return False
    text = str(against)
    if is_file_of_one(text) or is_url(text):
        return is_file_of_one(text)
    return not Path(text).exists() or text in names(folder)


@contextmanager
def opened(
    one: str | Path | Trace, cache: bool, progress: Callable[[Progress], None] | None
) -> Iterator[Trace]:
    from tracekit.opening import OpenRequest, open_request

    if isinstance(one, str | Path):
        with open_request(OpenRequest([one], cache=cache, progress=progress)) as trace:
            yield trace
    else:
        yield one


def label_of(one: str | Path | Trace) -> str:
    if isinstance(one, str | Path):
        return Location.of(one).name  # without the signature of a URL
    return one.store_path.name if one.store_path else "trace"
