"""`tracekit advise TRACE`: suggested changes and their predicted gains."""

from __future__ import annotations

import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._options import (
    Reading,
    format_option,
    reading_options,
    recorded_option,
    trace_argument,
)
from tracekit.cli.commands.predict import INCONCLUSIVE
from tracekit.errors import QueryError, UsageError, WorkloadError

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.prediction.advising import Advice, Advised, Candidate
    from tracekit.prediction.rerun import Verdict
    from tracekit.trace import Trace

SHOWN_UNDECIDED = 4
"""Maximum number of undecided changes that are shown."""

MAX_ROWS = 3
"""Maximum number of changes at the end of a breakdown."""


@click.command(name="advise")
@trace_argument
@click.option(
    "--against",
    metavar="CHANGED",
    help="Compare the prediction with a trace of the changed program, and save both in "
    "its run folder.",
)
@click.option(
    "--try",
    "is_tried",
    is_flag=True,
    help="For built-in workloads: record the run again with the change, and compare. "
    "Shows the command and asks first. Reuses an existing rerun.",
)
@click.option("--yes", is_flag=True, help="Record with --try without asking.")
@click.option("--rule", metavar="NAME", help="Name of the advice to verify.  [default: the first]")
@click.option("--full", is_flag=True, help="Show all evidence and assumptions, too.")
@format_option
@recorded_option
@reading_options("queries", "rules", "unprofiled_step", "step", "no_cache")
@click.pass_context
def command(
    context: click.Context,
    traces: tuple[str, ...],
    against: str | None,
    is_tried: bool,
    yes: bool,
    rule: str | None,
    full: bool,
    format_name: str,
    is_recorded: bool,
    reading: Reading,
) -> None:
    """Rank changes by predicted gain.

    Gains are predicted as in `tracekit predict`. The list omits gains below 1 % of a step, and
    gains below 2.5 % whose interval contains 0. With --against or --try, the exit code is 7 if
    noise makes the result inconclusive.
    """
    from tracekit.cli._emit import emit
    from tracekit.cli._open import open_traces

    if is_tried and (against is not None or len(traces) != 1):
        raise UsageError("--try needs one run folder, and cannot be combined with --against")
    if yes and not is_tried:
        raise UsageError("--yes needs --try")
    if rule is not None and against is None and not is_tried:
        raise UsageError("--rule needs --against or --try")
    with open_traces(traces, reading) as trace:
        advised = trace.advise(is_recorded=is_recorded)
        if not trace.sql("SELECT 1 FROM request LIMIT 1") and not trace.query("timeline"):
            raise QueryError(
                "the trace has no kernels or copies to advise on",
                hint="tracekit breakdown shows what is missing, and why",
            )
        if against is None and not is_tried:
            if format_name == "table":
                from tracekit.render._console import make_console

                width = make_console(sys.stdout).width
                click.echo("\n".join(advice_lines(advised, shlex.join(traces), width, full=full)))
            else:
                emit(advised.as_result(), format_name)
            return
        advice = _find_advice(advised, rule)
        changed = against or _rerun(Path(traces[0]), advice.candidate, is_agreed=yes)
        verdict = verification(advice, trace, changed, reading)
    _emit_verdict(verdict, format_name)
    if verdict.outcome == "inconclusive":
        context.exit(INCONCLUSIVE)


def _find_advice(advised: Advised, rule: str | None) -> Advice:
    from tracekit.analysis.catalog import renamed

    rule = rule and renamed(rule)
    for one in advised.advice:
        if rule in (None, one.candidate.rule):
            return one
    rules = ", ".join(dict.fromkeys(one.candidate.rule for one in advised.advice))
    raise QueryError(
        f"no advice named {rule} for this run"
        if rule
        else "no advice for this run, so there is nothing to verify",
        hint=f"available: {rules}"
        if rules
        else "use tracekit compare RUN CHANGED to see the difference",
    )


def _rerun(run: Path, advice: Candidate, *, is_agreed: bool) -> str:
    """Rerun with a suggested change unless a rerun exists; return the run folder of the rerun."""
    import os
    import subprocess

    from tracekit.manifest import FILE_NAME, read
    from tracekit.prediction.rerun import changed_command
    from tracekit.render._text import printable

    run = run.resolve()
    out = run.with_name(f"{run.name}-{advice.rule}")
    if (out / FILE_NAME).is_file():
        return str(out)
    words = changed_command(read(run), advice, out)
    shown = printable(shlex.join(words))
    if not is_agreed and not sys.stdin.isatty():
        raise UsageError(f"--try would run {shown}", hint="confirm at the prompt, or pass --yes")
    click.echo(f"records {shown}", err=True)
    if not is_agreed:
        click.confirm("Run it?", abort=True, err=True)
    # Prevent the process and its ranks from importing files of the current folder.
    done = subprocess.run(
        [sys.executable, "-P", "-m", *words],
        stdout=sys.stderr,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
        check=False,
    )
    if done.returncode:
        raise WorkloadError(f"{shown}: failed with exit code {done.returncode}")
    return str(out)


def verification(advice: Advice, trace: Trace, changed: str, reading: Reading) -> Verdict:
    """Compare a prediction with the measured rerun; save the verdict in the rerun's folder."""
    import tracekit
    from tracekit.comparison.comparing import compare
    from tracekit.comparison.serving import load_gain
    from tracekit.manifest import FILE_NAME
    from tracekit.prediction.advising import FIGURES
    from tracekit.prediction.rerun import judge, save_verdict

    cache, rules = not reading.no_cache, reading.rules
    if advice.load is None:
        result = compare(trace, changed, cache=cache, rules=rules)
        verdict = judge(advice, result.measures[0].difference.gain)
    else:
        figure = next(name for name, text in FIGURES.items() if text == advice.figure)
        with tracekit.open(changed, traces=False, cache=cache) as other:
            verdict = judge(advice, load_gain(trace, other, figure))
    if (Path(changed) / FILE_NAME).is_file():
        save_verdict(verdict, Path(changed))
    return verdict


def _emit_verdict(verdict: Verdict, format_name: str) -> None:
    from msgspec.structs import asdict

    from tracekit.analysis.result import Column, Result
    from tracekit.cli._emit import emit

    members = asdict(verdict)
    types = ["DOUBLE" if name.endswith("_pct") else "VARCHAR" for name in members]
    columns = tuple(map(Column, members, types))
    emit(Result("advise", columns, [tuple(members.values())]), format_name)


def advice_lines(advised: Advised, traces: str, width: int, *, full: bool = False) -> list[str]:
    """Return advice as lines for a terminal.

    Args:
        advised: the advice.
        traces: the arguments that opened the traces, for commands in the text.
        width: width of the terminal in columns. Commands are never wrapped.
        full: include all evidence and assumptions, undecided changes, and unknown gains.
    """
    from tracekit.prediction.advising import GAIN_UNKNOWN, UP_TO, gain_text, recording_text
    from tracekit.render._text import printable

    rows = advised.as_result().to_dicts()
    lines = []
    if longer := recording_text(advised.run_step, advised.step_count):
        lines += [_wrapped("", longer, width), ""]
    unclear = []
    for one, row in zip(advised.advice, rows, strict=True):
        if one.is_certain or full:
            number = sum(line[:1].isdigit() for line in lines) + 1
            head = f"{number}. {gain_text(row)}  "
            lines += [_wrapped(head, one.candidate.place or "", width, indent=3)]
            lines += [*_details(one, traces, width, full=full), ""]
        else:
            unclear.append(f"{gain_text(row)}: {one.candidate.place}")
    if any(row["is_upper_bound"] for row in rows):
        lines.append(_wrapped("", UP_TO, width))
    if advised.reason is not None:
        lines.append(advised.reason)
    lines += _joint(advised)
    if unclear:
        lines.append(_wrapped("Uncertain: ", "; ".join(unclear), width, indent=2))
    shown = advised.undecided[: SHOWN_UNDECIDED if full else 1]
    for advice, why in shown:
        what = advice.what if full else _first_sentence(advice.what)
        text = what if why == GAIN_UNKNOWN else f"{what}: {why}"
        lines.append(_wrapped("Gain unknown: ", text, width, indent=2))
        if not advice.changes:
            lines.append(_wrapped("  Next    ", advice.remedy, width))
    if not full and (advised.advice or len(advised.undecided) > len(shown)):
        lines.append("Evidence, assumptions, and more changes: --full")
    if advised.advice:
        lines.append(printable(f"Verify a change: tracekit advise {traces} --against CHANGED"))
    return lines


def _details(one: Advice, traces: str, width: int, *, full: bool) -> list[str]:
    """Return lines with the reason, the instructions, and the commands that show more."""
    from tracekit.render._text import printable

    candidate, prediction = one.candidate, one.prediction
    lines = [
        _wrapped(
            "   Why      ", candidate.what if full else _first_sentence(candidate.what), width
        ),
        _wrapped("   How      ", candidate.remedy, width),
    ]
    if one.brings:
        lines.append(_wrapped("   Effect   ", one.brings, width))
    if full:
        assumptions = "; ".join(prediction.assumptions) or "the replay is accurate"
        lines.append(_wrapped("   Assumes  ", assumptions, width))
        if candidate.evidence:
            lines.append(printable(f"   Evidence {candidate.evidence.replace('TRACE', traces)}"))
    if one.load is None:  # `predict` rejects loads with steps unlike the recorded ones
        changes = " ".join(f"--change {shlex.quote(change)}" for change in candidate.changes)
        lines.append(printable(f"   Predict  tracekit predict {traces} {changes}"))
    return lines


def _first_sentence(text: str) -> str:
    """Return the first sentence of a text, without its period."""
    return text.partition(". ")[0]


def _joint(advised: Advised) -> list[str]:
    """Return the combined gain of all certain changes, in step time and request latency."""
    certain = [one for one in advised.advice if one.is_certain]
    lines = []
    for what, is_replay in (("", True), (" of the load", False)):
        several = [one for one in certain if (one.load is None) is is_replay]
        if len(several) > 1:
            of = f" of the {several[-1].figure}" if what else ""
            gain = f"{several[-1].joint_gain_pct:.1f} %{of}"
            # One suggestion may combine several others.
            count = len({change for one in several for change in one.candidate.changes})
            number = "Both" if count == 2 else f"All {count}"
            lines.append(f"{number} changes{what} together save {gain}")
    return lines


def short_advice_lines(advice: Result | None, traces: str, width: int) -> list[str]:
    """Return the best suggestions as lines for the end of a breakdown.

    Args:
        advice: suggested changes, best first, or None if they were not computed.
        traces: the arguments that opened the traces.
        width: width of the terminal in columns.
    """
    from tracekit.render._text import printable

    command = printable(f"tracekit advise {traces}")
    if len(command) > width - 37:
        command = "tracekit advise TRACE"
    if advice is None:
        return [f"All rows: --full  ·  What to change: {command}"]
    # Imported only here, because the import takes longer than printing the line above.
    from tracekit.prediction.advising import NOTHING_KNOWN, gain_text

    rows = advice.to_dicts()[:MAX_ROWS]
    if not rows:
        return [f"{NOTHING_KNOWN.capitalize()} ({command})"]
    lines = [f"What to change ({command}):"]
    for number, row in enumerate(rows, start=1):
        text = f"{gain_text(row)}: {row['where']}: {row['what']}"
        lines.append(_wrapped(f"{number}. ", text, width))
    return lines


def _wrapped(head: str, text: str, width: int, *, indent: int | None = None) -> str:
    from tracekit.render._text import printable

    text, width = printable(text), max(width, 40)
    room = width - (len(head) if indent is None else indent)
    return textwrap.fill(
        text,
        width,
        initial_indent=head,
        subsequent_indent=" " * (width - room),
        break_on_hyphens=False,
        break_long_words=any(len(word) > room for word in text.split()),
    )
