"""The difference of two sides: the whole, whether it is more than noise, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading
from tracekit.units import format_ms, format_pct, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 2

_LITTLE_PCT = 10

_STYLES = {"slower": "red", "faster": "green", "same": "bold", "inconclusive": "yellow"}
EFFECTS = {
    "new": "new work",
    "gone": "work gone",
    "recompute": "recomputation on one side alone",
    "count": "other number of calls",
    "clock": "other clocks",
    "cost": "calls of the same longer or shorter",
    "shape": "other shapes",
    "kernel": "other kernels",
    "overlap": "other overlap",
    "idle": "other idle time",
}


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return the whole difference with its verdict, and by what it is explained."""
    if not data.get("comparison"):
        return []
    (row,) = data["comparison"].to_dicts()
    if full:
        names = ("comparison", "comparison_noise", "comparison_effects")
        out: list[Text] = []
        for name in names:
            title = name.removeprefix("comparison_").capitalize()
            out += [heading(title), *grid_lines(data[name], None if wide else width, units=True)]
        return out
    label = printable(f"{row['base']} → {row['new']}")
    noise = data["comparison_noise"].to_dicts()
    out = [heading(f"Per {row['per']}", label, width), _whole(row, noise)]
    out += [Text(f"  {shorten(text, width - 2)}", style="dim") for text in _rests_on(row)]
    out += _noise(noise, row, width)
    effects = data["comparison_effects"].to_dicts()
    if effects:
        decimals = ms_decimals(effect["delta_ns"] for effect in effects)
        columns = [
            [_signed_ms(effect["delta_ns"], decimals) for effect in effects],
            [_share(effect["share_pct"]) for effect in effects],
        ]
        out += [Text(), heading("Why", "adds up to the difference", width)]
        out += [
            Text(f"  {figures}  {EFFECTS[effect['effect']]}")
            for effect, figures in zip(effects, aligned(columns), strict=True)
        ]
    return out


def _whole(row: Mapping[str, Any], noise: Sequence[Mapping[str, Any]]) -> Text:
    decimals = ms_decimals([row["base_ns"], row["new_ns"], row["delta_ns"]])
    line = Text("  ")
    line.append(
        f"{format_ms(row['base_ns'], decimals)} → {format_ms(row['new_ns'], decimals)} ms   "
    )
    line.append(f"{_signed_ms(row['delta_ns'], decimals)}", style="bold")
    if row["delta_pct"] is not None:
        line.append(f"   {row['delta_pct']:+,.1f} %", style="bold")
    line.append("   ")
    line.append(_verdict(row), style=_STYLES.get(row["verdict"], "dim"))
    median_pct = noise[0]["difference_pct"] if noise else None
    is_decided = row["verdict"] in ("faster", "slower")
    if is_decided and median_pct is not None and median_pct * row["delta_ns"] < 0:
        line.append(f" by the median ({median_pct:+,.1f} %): a few {row['sample']}s make the mean")
    return line


def _verdict(row: Mapping[str, Any]) -> str:
    verdict, sample = row["verdict"], row["sample"]
    if verdict is None:
        return f"no verdict: one {sample} on a side tells nothing of noise"
    if verdict == "same":
        return f"same within ±{row['within_pct']:.2g} %"
    if verdict == "inconclusive" and row["more_count"] is not None:
        many = f"{row['more_count']:,} more {sample}{'s' if row['more_count'] != 1 else ''}"
        return f"inconclusive: {many} on each side would likely decide"
    if verdict == "inconclusive":
        return f"inconclusive: at this noise no reasonable number of {sample}s would decide"
    return str(verdict)


def _rests_on(row: Mapping[str, Any]) -> list[str]:
    """Return what the figures rest on, in words."""
    told = []
    if row["per"] != "window" or row["base_unit_count"] > 1 or row["new_unit_count"] > 1:
        what = "devices" if row["per"] == "window" else f"{row['per']}s of devices"
        told.append(f"mean of {row['base_unit_count']:,} and {row['new_unit_count']:,} {what}")
    if row["matched_pct"] is None:
        told.append("no device time to match")
    else:
        matched = f"{format_pct(row['matched_pct'])} % of device time matched"
        is_little = row["matched_pct"] < _LITTLE_PCT
        told.append(f"only {matched}: hardly the same work" if is_little else matched)
    outside = row["base_outside_pct"], row["new_outside_pct"]
    if any(outside) and None not in outside:
        told.append(f"outside of steps {format_pct(outside[0])} % and {format_pct(outside[1])} %")
    if row["clock_pct"] is not None:
        told.append(f"all compute {row['clock_pct']:+.1f} %: other clocks")
    return [" · ".join(told)]


def _noise(rows: Sequence[Mapping[str, Any]], whole: Mapping[str, Any], width: int) -> list[Text]:
    """Return one line for each thing measured: counts, medians, interval, verdict."""
    rows = [row for row in rows if row["base_count"] > 1 and row["new_count"] > 1]
    if not rows:
        return []
    decimals = ms_decimals(
        row[name] for row in rows for name in ("base_median_ns", "new_median_ns")
    )
    columns = [
        [row["measure"] for row in rows],
        [f"{row['base_count']:,} × {format_ms(row['base_median_ns'], decimals)}" for row in rows],
        [f"{row['new_count']:,} × {format_ms(row['new_median_ns'], decimals)} ms" for row in rows],
        [
            f"{row['difference_pct']:+,.1f} %" if row["difference_pct"] is not None else "–"
            for row in rows
        ],
        [
            f"{row['low_pct']:+,.1f} … {row['high_pct']:+,.1f} %"
            if row["low_pct"] is not None
            else "–"
            for row in rows
        ],
        [_by_ranks(row) for row in rows],
    ]
    out = [
        Text(),
        heading("Noise", "count × median, difference, its 99.5 % interval, verdict", width),
    ]
    for row, figures in zip(rows, aligned(columns), strict=True):
        out.append(Text(shorten(f"  {figures}", width), style=_STYLES.get(row["verdict"], "")))
        if row["correlation"]:
            told = f"each is like the one before (correlation {row['correlation']:.2g})"
            out.append(Text(shorten(f"    {told}: so many say less", width), style="dim"))
        for side in ("base", "new"):
            seen = _seen(row, side)
            if seen:
                out.append(Text(shorten(f"    {side}: {seen}", width), style="dim"))
    is_one = 1 in (whole["base_run_count"], whole["new_run_count"])
    if is_one and not {"faster", "slower"}.isdisjoint(row["verdict"] for row in rows):
        told = "one run on a side: what varies from run to run is not in this noise (--base, --new)"
        out.append(Text(shorten(f"  {told}", width), style="dim"))
    return out


def _by_ranks(row: Mapping[str, Any]) -> str:
    """Return a verdict; the ranks may tell what the interval of the medians leaves open."""
    verdict, low, high = row["verdict"], row["low_pct"], row["high_pct"]
    is_open = low is not None and high is not None and low <= 0 <= high
    return f"{verdict} by ranks" if is_open and verdict in ("faster", "slower") else verdict or ""


def _seen(row: Mapping[str, Any], side: str) -> str:
    parts = []
    count = row[f"{side}_warm_up_count"]
    if count:
        told = "the first is a warm-up" if count == 1 else f"the first {count} are a warm-up"
        # --skip is about profiled steps.
        parts.append(told if row["measure"] != "step" else f"{told}: --skip {count}")
    others = [n + 1 for n in row[f"{side}_outliers"] if n >= row[f"{side}_warm_up_count"]]
    if others:
        parts.append(f"far from the others: number {', '.join(map(str, others))}")
    if row[f"{side}_drift_pct"] is not None:
        parts.append(f"drifts by {row[f'{side}_drift_pct']:+.1f} % from first to last")
    return "; ".join(parts)


def _signed_ms(value_ns: int, decimals: int) -> str:
    sign = "+" if value_ns > 0 else "-" if value_ns < 0 else "±"
    return f"{sign}{format_ms(abs(value_ns), decimals)} ms"


def _share(share_pct: float | None) -> str:
    return "–" if share_pct is None else f"{share_pct:,.1f} %"
