"""What the run was: stage, method, engine, model, and what it measured without the profiler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import printable, shorten
from tracekit.render.sections._heading import heading
from tracekit.units import format_bytes, format_duration, format_times

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 5

_MAX_NOTES = 3
_MARK = "  ·  "


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return what the manifest says in two lines, how the run ended if not well, and its notes."""
    if not data.get("run"):
        return []
    if full:
        return [heading("Run"), *grid_lines(data["run"], None if wide else width, units=True)]
    out = []
    for row in data["run"].to_dicts():
        if row["outcome"] == "unreadable":
            line = Text(printable(row["run"]), style="bold")
            reason = "  run.json is of no use: " + printable(row["reason"] or "")
            line.append(shorten(reason, width - line.cell_len), style="not bold yellow")
            out.append(line)
            continue
        title = " ".join(printable(row[name]) for name in ("stage", "opt") if row[name])
        line = Text(shorten(title, width // 2), style="bold")
        about = "  " + _MARK.join(_about(row))
        line.append(shorten(about, width - line.cell_len), style="not bold")
        out.append(line)
        measured = _measured(row)
        if measured:
            out.append(Text(shorten(_MARK.join(measured), width)))
        if row["outcome"] != "ok":
            said = f"{row['outcome']}: {printable(row['reason'] or 'no reason is given')}"
            out.append(Text(shorten(said, width), style="yellow"))
        out.extend(
            Text(shorten(f"note: {printable(note)}", width), style="dim")
            for note in (row["notes"] or ())[:_MAX_NOTES]
        )
    return out


def _about(row: Mapping[str, Any]) -> list[str]:
    parts = []
    if row["model"]:
        count = row["parameter_count"]
        size = f" ({_parameters(count)} parameters)" if count else ""
        parts.append(printable(PurePath(row["model"]).name or row["model"]) + size)
    parts.append(printable(row["engine"] or ""))
    if row["stage"] != "serve" and row["batch_size"] and row["sequence_length"]:
        parts.append(f"batch {row['batch_size']} × {row['sequence_length']} tokens")
    if row["precision"]:
        parts.append(printable(row["precision"]))
    if row["world_size"]:
        parts.append(f"{row['world_size']} rank{'' if row['world_size'] == 1 else 's'}")
    return [part for part in parts if part]


def _measured(row: Mapping[str, Any]) -> list[str]:
    parts = []
    # Of serving, the section of its throughput tells, and over which interval.
    if row["mean_tokens_per_s"] is not None and row["stage"] != "serve":
        spread = row["std_tokens_per_s"]
        text = f"{row['mean_tokens_per_s']:,.1f}"
        parts.append(text + ("" if spread is None else f" ± {spread:,.1f}") + " tokens/s")
    step_ns = row["mean_step_ns"]
    if step_ns:
        text = f"step {format_duration(round(step_ns))}"
        if row["profiled_step_pct"]:
            text += f", profiled {format_times(row['profiled_step_pct'])}"
        parts.append(text)
    if row["peak_device_bytes"] is not None:
        parts.append(f"peak {format_bytes(row['peak_device_bytes'])} device memory")
    elif row["peak_host_bytes"] is not None:
        parts.append(f"peak {format_bytes(row['peak_host_bytes'])} host memory")
    return parts


def _parameters(count: int) -> str:
    for factor, name in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= factor:
            return f"{count / factor:.3g} {name}"
    return str(count)
