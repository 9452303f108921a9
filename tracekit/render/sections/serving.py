"""Sections on serving: throughput, latencies, and the work of engine steps."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from tracekit.render._curves import MAX_CURVES, Curve, curve_lines
from tracekit.render._text import printable
from tracekit.render.sections._layout import (
    Row,
    Screen,
    device_label,
    figures,
    more,
    pct_text,
)
from tracekit.units import format_pct, format_short

MAX_DEVICES = 4

_MEANINGS = {
    "e2e": "to the end of the answer",
    "ttft": "to the first token",
    "tpot": "per token after the first",
    "itl": "between tokens",
    "client_wait": "delayed by the client",
}
_CDF_TITLES = {
    "e2e": "share of the requests that were answered within",
    "ttft": "share of the requests whose first token came within",
    "tpot": "share of the requests whose mean time per token after the first was at most",
    "itl": "share of the tokens that followed the previous token within",
    "client_wait": "share of the requests that the client delayed by at most",
}
_MAIN = "e2e"


def throughput(screen: Screen) -> list[Text]:
    """Return a line per run: requests/s, tokens/s, and the time interval that they cover."""
    out = []
    for row in screen.rows("throughput"):
        parts = [f"{row['ok_count']:,} of {row['request_count']:,} requests ok"]
        if row["requests_per_s"] is not None:
            parts.insert(0, f"{row['requests_per_s']:,.1f} requests/s")
            if row["output_tokens_per_s"] is not None:
                parts.insert(0, f"{row['output_tokens_per_s']:,.1f} output tokens/s")
            parts.append(f"in {format_short(row['interval_ns'])}")
        if row["outcome"] == "incomplete":
            parts.append(f"only {format_pct(row['answered_pct'])} % of the load")
        out.append(screen.ended(screen.heading("Throughput"), " · ".join(parts)))
    return out


def latency(screen: Screen) -> list[Text]:
    """Return a line per metric, except for metrics without values or with only zeros."""
    rows = [row for row in screen.rows("latency") if row["max_ns"]]
    if not rows:
        return []
    title = Text("Latency", style="bold")
    if any(row["outcome"] == "incomplete" for row in rows):
        title.append(" (load incomplete)", style="dim")
    names = {"mean_ns": "mean", "p50_ns": "p50", "p90_ns": "p90", "p99_ns": "p99", "max_ns": "max"}
    return screen.block(
        title,
        [row["metric"] for row in rows],
        figures(rows, names, is_alike=True),
        after=[_MEANINGS.get(row["metric"], "") for row in rows],
    )


def latency_cdf(screen: Screen) -> list[Text]:
    """Return a drawing of end-to-end latency for all runs, or of all metrics with `full`."""
    curves: dict[str, dict[tuple[str, str], Curve]] = {}
    for row in screen.rows("latency_cdf"):
        run = (row["engine"] or "", row["run"] or "")
        of_metric = curves.setdefault(row["metric"], {})
        if run not in of_metric:
            of_metric[run] = Curve(" · ".join(filter(None, run)))
        of_metric[run].values_ns.append(row["value_ns"])
        of_metric[run].pcts.append(row["cumulative_pct"])
    out: list[Text] = []
    for metric, of_metric in curves.items():
        every = list(of_metric.values())
        # Skip metrics with only zeros.
        if not (screen.full or metric == _MAIN) or all(one.values_ns[-1] <= 0 for one in every):
            continue
        if out:
            out.append(Text())
        out.append(screen.heading(f"Latency {metric}", _CDF_TITLES.get(metric, "")))
        out.extend(curve_lines(every[:MAX_CURVES], screen.width))
        out.extend(more(len(every) - MAX_CURVES, "run"))
    return out


def serving_window(screen: Screen) -> list[Text]:
    """Return a line per device with its steady state: steps, batch sizes, and speed."""
    rows = [row for row in screen.rows("serving_window") if row["reason"] is None]
    out = []
    for row in rows[:MAX_DEVICES]:
        line = screen.heading("Steady state")
        if len(rows) > 1:
            line.append(f"  {device_label(row)}")
        out.append(screen.ended(line, _steady_state(row), "not bold"))
    return out + more(len(rows) - len(out), "device")


def _steady_state(row: Row) -> str:
    kinds = [
        f"{row[f'{kind}_step_count']:,} {kind}"
        for kind in ("prefill", "mixed", "decode", "verify")
        if row[f"{kind}_step_count"]
    ]
    parts = [
        f"steps {row['first_step']}–{row['last_step']} ({', '.join(kinds)})",
        format_short(row["dur_ns"]),
        f"up to {row['max_running_count']:,} running",
    ]
    if row["decode_tokens_per_s"] is not None:
        parts.append(f"{row['decode_tokens_per_s']:,.1f} decode tokens/s")
    if row["idle_pct"] is not None:
        parts.append(f"idle {format_pct(row['idle_pct'])} %")
    return " · ".join(parts)


def serving_modules(screen: Screen) -> list[Text]:
    """Return the kinds of work by phase over all devices, longest first."""
    phases: dict[str, list[dict[str, Any]]] = {}
    for row in screen.rows("serving_module_totals"):
        phases.setdefault(row["phase"], []).append(row)
    return screen.block(
        "Serving",
        [*phases],
        figures([tasks[0] for tasks in phases.values()], {"phase_wall_ns": "time"}),
        after=[
            " · ".join(
                f"{_task(row)} {pct_text(row['phase_pct'])}" for row in tasks if row["wall_ns"]
            )
            for tasks in phases.values()
        ],
    )


def _task(row: Row) -> str:
    """Return the name of a kind of work; `other` is qualified."""
    task = printable(row["task"])
    return f"other {row['task_group']}" if task == "other" else task
