"""`tracekit predict TRACE --change "…"`: what would it be if?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._options import Reading, format_option, reading_options, trace_argument

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
    required=True,
    metavar="TEXT",
    help='What is changed and how: "class=gemm x0.5", "op=aten::item remove", "host x0.5", '
    '"loading workers=2"; of a serving run "rate x2", "batch limit=8", "batch tokens=512", '
    '"kv tokens=65536", "prefill apart". Several are made together.',
)
@click.option(
    "--timeline",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the predicted run as a Chrome trace: calls, and work of devices.",
)
@format_option
@reading_options("rules", "no_cache")
@click.pass_context
def command(
    context: click.Context,
    traces: tuple[str, ...],
    changes: tuple[str, ...],
    timeline: Path | None,
    format_name: str,
    reading: Reading,
) -> None:
    """Replay a recorded run with changes, and say how far that can be trusted.

    Of a serving run's load or engine it is what requests would see; further runs only say how long
    steps take. It exits with 7 where what the trace leaves unexplained is more than what would be
    gained, or where the unchanged simulation of a load is not like the recorded one.
    """
    from tracekit.cli._emit import emit
    from tracekit.cli._open import open_traces
    from tracekit.prediction.changes import SERVING

    is_traced = any(change.strip().partition(" ")[0] not in SERVING for change in changes)
    with open_traces(traces, reading, is_traced=is_traced) as trace:
        prediction = trace.predict(*changes, timeline=timeline)
        if format_name == "json":
            import json

            click.echo(json.dumps(prediction.as_dict(), indent=2, ensure_ascii=False))
        else:
            emit(prediction.as_result(), format_name)
            if format_name == "table":
                _say(prediction)
    if prediction.reason is not None:
        context.exit(INCONCLUSIVE)


def _say(prediction: Prediction | ServingPrediction) -> None:
    for assumption in prediction.assumptions:
        click.echo(f"assumes: {assumption}")
    if prediction.reason is not None:
        click.echo(f"no prediction: {prediction.reason}")
