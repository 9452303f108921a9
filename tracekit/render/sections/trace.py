"""Sections on the input: the run, the files, missing data, and data quality."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import PurePath
from typing import Any

from rich.text import Text

from tracekit.analysis.result import Result, picked
from tracekit.render._text import cell_width, printable, truncate
from tracekit.render.sections._layout import (
    Row,
    Screen,
    figures,
    rank_text,
)
from tracekit.units import format_bytes, format_pct, format_short

MAX_OPS = 8

_SEVERITIES = {"warn": 0, "note": 1, "ok": 2}
_SEVERITY_STYLES = {"warn": "yellow", "note": "green", "ok": "green"}


def run(screen: Screen) -> list[Text]:
    """Return the summary of the manifest, the outcome of a failed run, and its notes."""
    width = screen.width
    out = []
    rows = screen.rows("run")
    is_only = len(rows) == 1 and screen.data.get("trace")
    for row in rows:
        if row["outcome"] == "unreadable":
            line = Text(printable(row["run"]), style="bold")
            reason = "run.json cannot be used: " + printable(row["reason"] or "")
            out.append(screen.ended(line, reason, "not bold yellow"))
            continue
        title = " ".join(printable(row[name]) for name in ("stage", "opt") if row[name])
        line = Text(truncate(title, width // 2), style="bold")
        about = [*_about_run(row, is_traced=bool(is_only)), *_measured(screen, row)]
        out += screen.joined([*about, *(_about_traces(screen) if is_only else ())], line)
        if row["outcome"] != "ok":
            ending = f"{row['outcome']}: {printable(row['reason'] or 'unknown reason')}"
            out.append(screen.line(ending, "yellow"))
        # Show all notes completely, because they may change the meaning of the figures above.
        for note in row["notes"] or ():
            text = f"note: {printable(note)}"
            wrapped = textwrap.wrap(text, max(width, 20), subsequent_indent="  ")
            out.extend(Text(line, style="dim") for line in wrapped)
    return out


def _about_run(row: Row, *, is_traced: bool) -> list[str]:
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
    if row["world_size"] and not is_traced:
        parts.append(f"{row['world_size']} rank{'' if row['world_size'] == 1 else 's'}")
    return [part for part in parts if part]


def _measured(screen: Screen, row: Row) -> list[str]:
    parts = []
    if row["unprofiled_step_ns"] and not screen.has_steps:
        parts.append(f"step {format_short(row['unprofiled_step_ns'])} unprofiled")
    # For serving runs, the section on throughput shows tokens/s.
    if row["mean_tokens_per_s"] is not None and row["stage"] != "serve":
        spread = row["std_tokens_per_s"]
        text = f"{row['mean_tokens_per_s']:,.1f}"
        parts.append(text + ("" if spread is None else f" ± {spread:,.1f} (SD)") + " tokens/s")
    if row["peak_device_bytes"] is not None:
        parts.append(f"peak {format_bytes(row['peak_device_bytes'])} allocated")
    elif row["peak_host_bytes"] is not None:
        parts.append(f"peak {format_bytes(row['peak_host_bytes'])} host memory")
    return parts


def _parameters(count: int) -> str:
    for factor, name in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= factor:
            return f"{count / factor:.3g} {name}"
    return str(count)


def trace(screen: Screen) -> list[Text]:
    """Return the names, devices, and event counts of the traces.

    For a single run, they follow the summary of its manifest.
    """
    rows = screen.rows("trace")
    runs = screen.rows("run")
    if len(runs) == 1 and runs[0]["outcome"] != "unreadable":
        return []
    return screen.joined(
        _about_traces(screen), Text(truncate(_files(rows), screen.width // 2), "bold")
    )


def _about_traces(screen: Screen) -> list[str]:
    rows = screen.rows("trace")
    (totals,) = screen.rows("trace_totals")
    added = [text for row in rows if (text := row.get("execution_trace"))]
    about = [
        _devices(rows),
        _ranks(rows, totals["unranked_count"]),
        *_counts(screen, totals),
        *(f"the execution trace adds {printable(text)}" for text in added[:1]),
    ]
    return [part for part in about if part]


def _files(rows: Sequence[Row]) -> str:
    if len(rows) == 1:
        return printable(PurePath(rows[0]["file"]).name)
    folders = {str(PurePath(row["file"]).parent) for row in rows}
    place = f" in {printable(PurePath(folders.pop()).name)}/" if len(folders) == 1 else ""
    return f"{len(rows):,} traces{place}"


def _ranks(rows: Sequence[Row], unknown: int) -> str:
    ranks = sorted({row["rank"] for row in rows if row["rank"] is not None})
    parts = []
    if ranks:
        parts.append(f"rank{'' if len(ranks) == 1 else 's'} {_spans(ranks)}")
    if unknown:
        if len(rows) == 1:
            return ""
        parts.append(f"{unknown:,} of unknown rank")
    sizes = {row["world_size"] for row in rows if row["world_size"] is not None}
    if len(rows) == 1 and sizes == {1}:
        return ""
    of = f" of {sizes.pop():,}" if len(sizes) == 1 else ""
    return ", ".join(parts) + of


def _spans(numbers: Sequence[int]) -> str:
    """Return sorted numbers as text with ranges: `0–3, 6`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in spans)


def _devices(rows: Sequence[Row]) -> str:
    """Return the devices by product name, or by kind of accelerator if the file has no name."""
    names: Counter[str] = Counter()
    seen: set[tuple[int, str]] = set()
    for row in rows:
        for device in row["devices"] or ():
            # A rank may have several files.
            if row["rank"] is not None and (row["rank"], device) in seen:
                continue
            seen.add((row["rank"], device))
            _, _, product = device.partition(" ")
            names[printable(product or row["accelerator"] or device)] += 1
    # Results created by hand may lack this column.
    unrecorded = {
        printable(row["accelerator"]) for row in rows if row.get("is_recorded", True) is False
    }
    if unrecorded:
        accelerators = ", ".join(sorted(unrecorded))
        label = f"{accelerators}: no usable kernels"
        names["device work unknown" if unrecorded == {"unknown"} else label] = 1
    if not names:
        return "no device work"
    return ", ".join(name if count == 1 else f"{count:,} × {name}" for name, count in names.items())


def _counts(screen: Screen, totals: Row) -> list[str]:
    parts = []
    rows = [row for row in screen.rows("steps") if row["step"] is not None]
    count = len({row["step"] for row in rows})
    if screen.has_steps and count:
        parts.append(f"{_counted(count, 'step')} recorded")
        with_work = len({row["step"] for row in rows if row["span_ns"] is not None})
        if with_work < count:
            parts[-1] += f", {with_work:,} of them with device work"
    else:
        parts.append(f"{format_short(totals['max_window_ns'])} recorded")
    if totals["repaired_count"]:
        parts.append(f"{totals['repaired_count']:,} repaired")
    if totals["rejected_count"]:
        parts.append(f"{totals['rejected_count']:,} rejected")
    truncated = totals["truncated_count"]
    if truncated:
        parts.append("cut off" if totals["trace_count"] == 1 else f"{truncated:,} cut off")
    if screen.full:
        parts.append(f"{totals['event_count']:,} events")
        if totals["device_event_count"] is not None:
            parts.append(f"{totals['device_event_count']:,} on devices")
        parts.append(format_bytes(totals["file_bytes"]))
    return parts


_UNRECORDED = "kernels were not recorded: "


def unrecorded(screen: Screen) -> list[Text]:
    """Return lines on missing kernels: the reason, and the host activity."""
    rows = screen.rows("unrecorded")
    title = "Kernels were not recorded"
    if all(row["launch_count"] is None for row in rows):
        title = "Device work is unknown"
    elif not any(row["reason"].startswith(_UNRECORDED) for row in rows):
        title = "No kernel has a usable time"
    out = [Text(title, style="bold yellow")]
    is_several = len({row["rank"] for row in rows}) > 1
    for reason, ranks in _reasons(rows).items():
        others = f" and {len(ranks) - 1} more" if len(ranks) > 1 else ""
        where = f"{rank_text(ranks[0])}{others}: " if is_several else ""
        wrapped = textwrap.wrap(where + reason, max(screen.width - 2, 20))
        out += [Text(f"  {line}") for line in wrapped]
    if screen.full:
        return [*out, *screen.table("unrecorded")]
    ops = screen.rows("unrecorded_totals")
    shown = ops[:MAX_OPS]
    if not shown:
        return out
    heading = Text("  Host activity", style="bold")
    heading.append("  on all threads, without nested ops", style="not bold dim")
    titles = {"host_ns": "time", "host_pct": "% of host time", "op_count": "count", "kind": ""}
    labels = [f"  {printable(row['name'])}" for row in shown]
    return [
        *out,
        *screen.block(heading, labels, figures(shown, titles), of=len(ops)),
    ]


def _reasons(rows: Sequence[Row]) -> dict[str, list[int | None]]:
    """Return the ranks by reason."""
    result: dict[str, list[int | None]] = {}
    for row in rows:
        reason = row["reason"].removeprefix(_UNRECORDED)
        ranks = result.setdefault(printable(reason), [])
        if row["rank"] not in ranks:
            ranks.append(row["rank"])
    return result


def health(screen: Screen) -> list[Text]:
    """Return a line on data quality: number and names of warnings and notes."""
    line = Text.assemble(("Data quality  ", "bold"))
    rows = problems(screen.data["health"]).to_dicts()
    if not rows:
        passed = f"good, {len(screen.data['health']):,} checks passed"
        return [line.append(passed, style="not bold green")]
    worst = rows[0]["severity"]
    shown = _findings([row for row in rows if row["severity"] == worst])
    notes = {row["metric"] for row in rows if row["severity"] == "note"}
    also = f"; {_counted(len(notes), 'note')}" if worst == "warn" and notes else ""
    counts = _counted(len(shown), "warning" if worst == "warn" else "note")
    line.append("good, " * (worst == "note") + counts, style=f"not bold {_SEVERITY_STYLES[worst]}")
    source = " (tracekit query health)"
    for end in (f"{also}{source}", source):
        if named := _fitting(shown, screen.width - line.cell_len - 2 - len(end)):
            return [line.append(f": {named}{end}")]
    return [line.append(f"{also}{source}")]


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def problems(health: Result) -> Result:
    """Return the checks that did not pass, warnings first; a single file has no rank."""
    is_single = health.column("metric").count("rank_unknown") < 2
    rows = [
        tuple(row.values())
        for row in sorted(health.to_dicts(), key=lambda row: _SEVERITIES.get(row["severity"], 1))
        if row["severity"] != "ok"
        and not (is_single and (row["metric"], row["severity"]) == ("rank_unknown", "note"))
    ]
    result = Result(health.name, health.columns, rows)
    return picked(result, [*result.column_names[1:]]) if is_single else result


def _fitting(findings: list[str], room: int) -> str:
    """Return the findings that fit, and the number of omitted findings."""
    for count in range(len(findings), 0, -1):
        omitted = len(findings) - count
        text = ", ".join(findings[:count]) + (f" and {omitted:,} more" if omitted else "")
        if cell_width(text) <= room:
            return text
    return ""


def _findings(rows: list[dict[str, Any]]) -> list[str]:
    """Return one string per metric, for all ranks that report it."""
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_metric.setdefault(row["metric"], []).append(row)
    return [
        f"{printable(metric.replace('_', ' '))} {_values(same)}{_on(same)}"
        for metric, same in by_metric.items()
    ]


def _values(rows: list[dict[str, Any]]) -> str:
    """Return the value of a metric, or its smallest and largest value."""
    known = sorted((row for row in rows if row["value"] is not None), key=itemgetter("value"))
    texts = dict.fromkeys(health_value(row) for row in (known or rows))
    return " to ".join([*texts][:: max(len(texts) - 1, 1)])


def _on(rows: list[dict[str, Any]]) -> str:
    if len(rows) == 1:
        return ""
    is_of_ranks = len({row["rank"] for row in rows}) == len(rows)
    return f" (on {len(rows):,} {'ranks' if is_of_ranks else 'traces'})"


def health_value(row: Mapping[str, Any]) -> str:
    """Return the value of a metric with its unit."""
    value, unit = row["value"], row["unit"]
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return printable(value)
    if unit in ("pct", "%"):
        return f"{format_pct(value)} %"
    if unit == "ns":
        return format_short(value)
    if unit == "bytes":
        return format_bytes(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
