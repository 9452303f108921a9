"""`tracekit predict TRACE --change "…"`: the effect of a change."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from tracekit.cli._options import (
    Reading,
    format_option,
    reading_options,
    recorded_option,
    trace_argument,
)
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.prediction.predicting import Prediction
    from tracekit.prediction.serving import ServingPrediction

INCONCLUSIVE = 7


@click.command(name="predict")
@trace_argument
@click.option(
    "--change",
    "changes",
    multiple=True,
    metavar="TEXT",
    help='Target and change: "class=gemm x0.5", "op=aten::item remove", "host x0.5". '
    "May be repeated to combine changes. Without it, list examples.",
)
@click.option(
    "--timeline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the predicted run as a Chrome trace with launch calls and device work; an "
    "existing folder gets one file per rank.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a page that compares the predicted run with TRACE (one run).",
)
@format_option
@recorded_option
@reading_options("rules", "peak_rates", "unprofiled_step", "step", "no_cache")
@click.pass_context
def command(
    context: click.Context,
    traces: tuple[str, ...],
    changes: tuple[str, ...],
    timeline: Path | None,
    report: Path | None,
    format_name: str,
    is_recorded: bool,
    reading: Reading,
) -> None:
    """Predict the effect of a change.

    For a change of a serving load or engine, it predicts request latencies. Additional runs then
    provide more step times. A change of batch or sequence size ("batch=8") needs additional runs of
    other sizes. The exit code is 7 if the replay leaves more time unexplained than the gain, or if
    the simulation does not reproduce the recorded load.
    """
    from tracekit.cli._emit import emit
    from tracekit.cli._open import open_traces
    from tracekit.prediction.changes import SERVING, parse_change

    if not changes:
        _list_changes()
        raise UsageError("which change?", hint='pass one of these: --change "class=gemm x0.5"')
    if report is not None:
        from tracekit.report import check_output

        check_output(report, force=False)
    keywords = {parse_change(change).keyword for change in changes}
    alone = 1 if "size" in keywords else len(traces)
    with ExitStack() as opened:
        if report is not None and timeline is None:
            timeline = Path(opened.enter_context(TemporaryDirectory()))
        trace, *further = (
            opened.enter_context(open_traces(run, reading, reads_traces=not keywords <= SERVING))
            for run in (traces[:alone], *((run,) for run in traces[alone:]))
        )
        if reading.peak_rates is not None:
            rates = reading.peak_rates
            folder = rates if rates.is_dir() else rates.parent
            measured = open_traces((str(folder),), reads_traces=False)
            further.append(opened.enter_context(measured))
        prediction = trace.predict(
            *changes, timeline=timeline, further=further, is_recorded=is_recorded
        )
        if format_name == "json":
            import json

            click.echo(json.dumps(prediction.as_dict(), indent=2, ensure_ascii=False))
        else:
            emit(prediction.as_result(), format_name)
            if format_name == "table":
                _print_notes(prediction)
        if report is not None and timeline is not None:
            from tracekit.cli.commands.report import compared
            from tracekit.report import write

            write(compared(traces[0], (str(timeline),), reading, changes), report)
    if prediction.reason is not None:
        context.exit(INCONCLUSIVE)


def _list_changes() -> None:
    from tracekit.prediction.changes import EXAMPLES

    width = max(map(len, EXAMPLES))
    for example, meaning in EXAMPLES.items():
        click.echo(f"{example:<{width}}  {meaning}", err=True)


def _print_notes(prediction: Prediction | ServingPrediction) -> None:
    from tracekit.prediction.predicting import Prediction

    if isinstance(prediction, Prediction):
        click.echo(f"base: {prediction.base_text}; low and high are bounds of the prediction")
    for assumption in prediction.assumptions:
        click.echo(f"assumes: {assumption}")
    if prediction.reason is not None:
        click.echo(f"no prediction: {prediction.reason}")
