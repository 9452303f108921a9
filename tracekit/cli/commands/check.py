"""`tracekit check`: performance checks for CI."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tracekit.cli._emit import STREAMED, emit
from tracekit.cli._options import (
    baselines_option,
    format_option,
    no_cache_option,
    per_option,
    skip_option,
    wide_option,
)
from tracekit.errors import UsageError

_FAILED = 1
_INCONCLUSIVE = 7


@click.command(name="check")
@click.argument("new", metavar="NEW")
@click.option(
    "--against",
    metavar="BASE",
    help="Base of relative rules: a run, a trace, or a baseline (name, path, or URL).",
)
@click.option(
    "--rules",
    "rules_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file with rules.  [default: [tool.tracekit.check] in ./pyproject.toml]",
)
@click.option(
    "--rule",
    "texts",
    metavar="RULE",
    multiple=True,
    help="A rule, such as 'step_time <= +3%'; may be repeated.",
)
@click.option(
    "--inconclusive",
    type=click.Choice(["report", "pass", "fail"]),
    help="Outcome of inconclusive rules.  [default: report them, with exit code 7]",
)
@baselines_option
@per_option
@skip_option
@click.option(
    "--junit",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the results as JUnit XML.",
)
@click.option(
    "--annotations",
    type=click.Choice(["github"]),
    help="Print CI annotations for violated rules to stderr.",
)
@format_option
@no_cache_option
def command(
    new: str,
    against: str | None,
    rules_path: Path | None,
    texts: tuple[str, ...],
    inconclusive: str | None,
    baselines: str | None,
    per: str | None,
    skip: int,
    junit: Path | None,
    annotations: str | None,
    format_name: str,
    no_cache: bool,
) -> None:
    """Check a run against limits and a baseline (CI).

    A rule is SUBJECT OPERATOR BOUND, such as 'step_time <= +3%', 'exposed_comm_pct <= 10',
    'mfu >= 0.4', 'p99(ttft) <= 300 ms', 'peak_memory <= 70 GB', 'class.gemm.wall_ns <= +2%',
    'phase.backward.wall_ns <= +2%', 'cause.host_sync.idle_ns <= 1 ms',
    'module("*.self_attn").wall_ns <= +5%', 'health.device_time_linked >= 95',
    "count(kernel LIKE '%nchwToNhwc%') = 0", a column of any analysis ('timeline.idle_pct <= 20'),
    or an SQL statement that must return no rows. A bound with a sign and % is relative to the
    baseline and tested over steps. Exit codes: 0 all rules hold, 1 a rule failed, 7 inconclusive
    because of noise.
    """
    from tracekit.checking.baseline import DEFAULT_FOLDER
    from tracekit.checking.checking import check
    from tracekit.checking.rules import (
        PROJECT_FILE,
        Rule,
        Settings,
        has_rules,
        load_rules,
        parse_rule,
    )
    from tracekit.cli._progress import progress_bar
    from tracekit.opening import tune_for_traces

    rules: list[Rule] = []
    settings = Settings([])
    if rules_path is None and not texts and has_rules(Path(PROJECT_FILE)):
        rules_path = Path(PROJECT_FILE)
    if rules_path is not None:
        rules, settings = load_rules(rules_path)
    rules += [parse_rule(text) for text in texts]
    if not rules:
        raise UsageError("no rule to check", hint="use --rule 'step_time <= +3%', or --rules FILE")
    against = against or settings.against
    folder = baselines or settings.baselines or DEFAULT_FOLDER
    when_open = inconclusive or settings.inconclusive or "report"
    tune_for_traces()
    with progress_bar() as progress:
        report = check(
            new,
            rules,
            against=against,
            baselines=folder,
            per=per,  # type: ignore[arg-type]
            skip=skip,
            cache=not no_cache,
            progress=progress,
        )
    emit(report.result() if format_name in STREAMED else report.shown(), format_name)
    if junit is not None:
        from tracekit.checking.report import write_junit

        write_junit(report, junit)
    if annotations is not None:
        from tracekit.checking.report import annotation_lines

        for line in annotation_lines(report):
            # These lines are commands for the CI system, so they are not escaped.
            click.echo(line, file=getattr(sys.stderr, "stream", sys.stderr))
    outcome = report.outcome
    if outcome == "failed" or (outcome == "inconclusive" and when_open == "fail"):
        raise click.exceptions.Exit(_FAILED)
    if outcome == "inconclusive" and when_open == "report":
        raise click.exceptions.Exit(_INCONCLUSIVE)


@click.group(name="baseline")
def baseline() -> None:
    """Save, list, and show baselines for `tracekit check`."""


@baseline.command()
@click.argument("name")
@click.argument("trace", metavar="TRACE")
@baselines_option
@per_option
@skip_option
@click.option("--force", is_flag=True, help="Replace an existing baseline with the same name.")
@no_cache_option
def save(
    name: str,
    trace: str,
    baselines: str | None,
    per: str | None,
    skip: int,
    force: bool,
    no_cache: bool,
) -> None:
    """Save a run as a named baseline.

    The file has times by step, part, class, phase, module, and op, without events: tens of kB that
    you can commit with the code.
    """
    from tracekit.checking.baseline import DEFAULT_FOLDER, names, path_of
    from tracekit.checking.baseline import save as write
    from tracekit.checking.checking import make_baseline
    from tracekit.cli._progress import progress_bar
    from tracekit.opening import OpenRequest, open_request
    from tracekit.storage import Location

    folder = baselines or DEFAULT_FOLDER
    place = path_of(name, folder)
    if not force and name in names(folder):  # Report this before reading the trace.
        raise UsageError(
            f"{place}: baseline {name!r} already exists", hint="use --force to replace it"
        )
    with (
        progress_bar() as progress,
        open_request(OpenRequest([trace], cache=not no_cache, progress=progress)) as opened,
    ):
        result = make_baseline(name, opened, Location.of(trace).name, per=per, skip=skip)  # type: ignore[arg-type]
    place, size_bytes = write(result, folder, replaces=force)
    click.echo(f"{place}: {len(result.side.sample_units):,} samples, {size_bytes:,} bytes")


@baseline.command(name="list")
@baselines_option
@format_option
def list_baselines(baselines: str | None, format_name: str) -> None:
    """List the baselines."""
    from tracekit.checking.baseline import DEFAULT_FOLDER, baseline_list, load, names

    folder = baselines or DEFAULT_FOLDER
    emit(baseline_list([load(name, folder) for name in names(folder)]), format_name)


@baseline.command()
@click.argument("name")
@baselines_option
@format_option
def show(name: str, baselines: str | None, format_name: str) -> None:
    """Show a baseline."""
    from tracekit.checking.baseline import DEFAULT_FOLDER, baseline_rows, load

    emit(baseline_rows(load(name, baselines or DEFAULT_FOLDER)), format_name)


@click.command(name="history")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--as-given", is_flag=True, help="Keep the given order instead of sorting by time.")
@click.option(
    "--within",
    "margin_pct",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    metavar="PCT",
    help="Ignore changes up to this share, or this many percentage points.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write an HTML page with charts; replaces an earlier page.",
)
@baselines_option
@wide_option
@format_option
@no_cache_option
def history(
    runs: tuple[str, ...],
    as_given: bool,
    margin_pct: float,
    page: Path | None,
    baselines: str | None,
    wide: bool,
    format_name: str,
    no_cache: bool,
) -> None:
    """Show figures of several runs over time.

    A RUN is a run folder, a trace, or a baseline (its name, path, or URL). Reports the run in which
    a figure changed by more than the variation between runs. With fewer than five runs, the
    variation between steps is used. The commit comes from the CI variables at recording time
    (GITHUB_SHA, CI_COMMIT_SHA).
    """
    from tracekit.checking.baseline import DEFAULT_FOLDER
    from tracekit.checking.history import history as history_of
    from tracekit.cli._progress import progress_bar

    if page is not None:
        from tracekit.report import check_output

        check_output(page, force=False)
    with progress_bar() as progress:
        tables = history_of(
            runs,
            baselines=baselines or DEFAULT_FOLDER,
            by_date=not as_given,
            margin_pct=margin_pct,
            cache=not no_cache,
            progress=progress,
        )
    emit(tables, format_name, wide=wide)
    if page is not None:
        from tracekit.report import write
        from tracekit.report.history_page import history_page

        write(history_page(tables, runs), page)
