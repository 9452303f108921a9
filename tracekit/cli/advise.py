"""`tracekit advise TRACE`: what to change, and what it would gain."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from tracekit.cli._options import Reading, format_option, reading_options, trace_argument

if TYPE_CHECKING:
    from tracekit.prediction.advising import Advised, Candidate

SHOWN_UNDECIDED = 4


@click.command(name="advise")
@trace_argument
@format_option
@reading_options("queries", "rules", "no_cache")
def command(traces: tuple[str, ...], format_name: str, reading: Reading) -> None:
    """Rank what to change about a run by what it would gain, each replayed.

    What gains less than 1 % of the window, or less than its own interval is wide, is not said.
    """
    from tracekit.cli._emit import emit
    from tracekit.cli._open import open_traces

    with open_traces(traces, reading) as trace:
        advised = trace.advise()
    if format_name == "table":
        click.echo("\n".join(told(advised, shlex.join(traces))))
    else:
        emit(advised.as_result(), format_name)


def told(advised: Advised, traces: str) -> list[str]:
    """Return advice as lines for a terminal.

    Args:
        advised: what is to be told.
        traces: the arguments that opened them, for the commands in it.
    """
    from tracekit.render._text import printable
    from tracekit.units import format_duration

    lines = []
    for number, one in enumerate(advised.advice, start=1):
        seen, told_of = one.candidate, one.prediction
        low, high = one.range_pct
        step = ""
        if advised.step_count:
            step = f", {format_duration(one.gain_ns // advised.step_count)} a step"
        changes = " ".join(f"--change {shlex.quote(change)}" for change in seen.changes)
        lines += [
            f"{number}. {told_of.gain_pct:.1f} % ({low:.1f} to {high:.1f} %){step}: {seen.place}",
            f"   seen      {seen.what}",
            *_shown(seen, traces),
            f"   change    {seen.remedy}",
            f"   rests on  {'; '.join(told_of.assumptions) or 'the replay alone'}",
            f"   ask       tracekit predict {traces} {changes}",
        ]
    if not advised.advice:
        lines.append("nothing worth changing above 1 %")
    elif len(advised.advice) > 1:
        joint = advised.advice[-1].joint_gain_pct
        lines.append(f"all {len(advised.advice)} together: {joint:.1f} %")
    if advised.advice:
        lines.append(f"to check: tracekit compare {traces} CHANGED")
    for seen, why in advised.undecided[:SHOWN_UNDECIDED]:
        lines.append(f"not known: {seen.what}: {why}")
        if not seen.changes:
            lines.append(f"   record    {seen.remedy}")
    return [printable(line) for line in lines]


def _shown(seen: Candidate, traces: str) -> list[str]:
    if not seen.evidence:
        return []
    return [f"   see       {seen.evidence.replace('TRACE', traces)}"]
