"""Section on several runs over time: a row per run, and a sentence per change."""

from __future__ import annotations

from rich.text import Text

from tracekit.render._text import printable
from tracekit.render.sections._layout import Row, Screen
from tracekit.time_parts import LABELS
from tracekit.units import format_duration

NAMES = {
    "plain_step_ns": "step without the profiler",
    "step_ns": "recorded step",
    "idle_pct": "idle time",
    "exposed_comm_pct": LABELS["exposed_comm"],
    "mfu_pct": "MFU of recorded steps",
    "run_mfu_pct": "MFU without the profiler",
    "tokens_per_s": "tokens/s",
}


def history(screen: Screen) -> list[Text]:
    """Return the runs as a table, and a sentence per change."""
    changes = screen.rows("history_changes")
    out = [screen.heading("Runs"), *screen.table("history"), screen.heading("Changes")]
    if not changes:
        return [*out, screen.line("  none beyond the noise", "dim")]
    for row in changes:
        out.append(screen.line(f"  {sentence(row)}"))
        out.append(screen.line(f"    {_rests_on(row)}", "dim"))
    return out


def sentence(row: Row) -> str:
    """Return a sentence: what changed, by how much, and since which run."""
    measure = row["measure"]
    sides = " → ".join(_amount(measure, row[side]) for side in ("before", "after"))
    share = "" if row["change_pct"] is None else f" ({row['change_pct']:+.1f} %)"
    return f"{NAMES[measure]} {sides}{share} from {printable(row['run'])} on"


def _amount(measure: str, value: float) -> str:
    if measure.endswith("_ns"):
        return format_duration(round(value))
    return f"{value:,.1f} %" if measure.endswith("_pct") else f"{value:,.1f}"


def _rests_on(row: Row) -> str:
    counts = [row[f"{side}_count"] for side in ("before", "after")]
    runs = [
        f"{count:,} {'run' if count == 1 else 'runs'} {side}"
        for count, side in zip(counts, ("before", "from there"), strict=True)
    ]
    by = "" if row["basis"] == "runs" else ", by their steps: how runs vary is not known of so few"
    return f"{', '.join(runs)}; p = {row['p_value']:.2g}{by}"
