"""What microbenchmarks measured: products, copies, collectives, launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from tracekit.render._curves import MOST_CURVES, RateCurve, rate_curve_lines
from tracekit.render._text import printable, shorten
from tracekit.render.sections._layout import (
    NONE,
    Form,
    Row,
    Screen,
    aligned,
    columns,
    fitted,
    known,
    more,
    pct_text,
)
from tracekit.units import format_bytes, format_bytes_per_s, format_duration, format_flop_per_s

Rows = list[dict[str, Any]]

_CLOCKS = {"wall_clock": "(host)", "cuda_event": "(device)"}


@dataclass(frozen=True, slots=True)
class _Moved:
    """How copies and collectives are shown: what a point is of, and its rates with their form.

    `brief` says what the columns are of the fastest points, `whole` of every point.
    """

    title: str
    kind: tuple[str, ...]
    curve: str
    rates: dict[str, Form]
    after_size: dict[str, Form]
    brief: str
    whole: str


_COPIES = _Moved(
    "Copies measured",
    ("op", "memory"),
    "bytes_per_s",
    {"bytes_per_s": known(format_bytes_per_s)},
    {"peak_pct": pct_text},
    "latency of the smallest, bandwidth of the fastest, share of the data sheet's",
    "bytes, time, its 95 % interval, bandwidth, share of the data sheet's",
)
_COLLECTIVES = _Moved(
    "Collectives measured",
    ("op", "backend", "group_size"),
    "bus_bytes_per_s",
    {
        "algorithm_bytes_per_s": known(format_bytes_per_s),
        "bus_bytes_per_s": known(format_bytes_per_s),
    },
    {},
    "ranks, latency of the smallest, bandwidth of the fastest, bus",
    "bytes, time of the slowest rank, its 95 % interval, bandwidth, bus",
)


def bench_memcpy(screen: Screen) -> list[Text]:
    """Return a line for each direction; in full every point, and curves."""
    return _moved(screen, "bench_memcpy", _COPIES)


def bench_collectives(screen: Screen) -> list[Text]:
    """Return a line for each collective; in full every point, and curves."""
    return _moved(screen, "bench_collectives", _COLLECTIVES)


def _moved(screen: Screen, analysis: str, how: _Moved) -> list[Text]:
    rows = screen.rows(analysis)
    if screen.full:
        figures = [
            *columns(rows, message_bytes=known(format_bytes), median_ns=known(format_duration)),
            [_interval(row) for row in rows],
            *columns(rows, **how.rates, **how.after_size),
        ]
        return [
            *_drawn(
                screen,
                _bandwidths(rows, how),
                ("Bandwidth over bytes", "GB = 1e9 bytes"),
                lambda size: format_bytes(round(size)),
                format_bytes_per_s,
            ),
            _heading(screen, how.title, how.whole, rows),
            *_points(screen, _labels(rows, how.kind), figures, [row["reason"] for row in rows]),
        ]
    best = [row for row in rows if row["is_best"]]
    figures = [
        *columns(
            [_smallest_of(rows, row, how.kind) for row in best],
            median_ns=format_duration,
            message_bytes=format_bytes,
        ),
        *columns(best, **how.rates, message_bytes=format_bytes, **how.after_size),
    ]
    labels = _labels(best, how.kind, is_several=_is_several(rows))
    return [
        _heading(screen, how.title, how.brief, rows),
        *_points(screen, labels, figures, ["" for _ in best]),
        *more(len(rows) - len(best), "point"),
    ]


def _smallest_of(rows: Rows, like: Row, kind: tuple[str, ...]) -> Row:
    """Return the point of the smallest size among those of one kind that have a time."""
    key = ("run", "device", *kind)
    (smallest,) = (
        row for row in rows if row["is_smallest"] and all(row[name] == like[name] for name in key)
    )
    return smallest


def _bandwidths(rows: Rows, how: _Moved) -> list[RateCurve]:
    found: dict[str, dict[int, float]] = {}
    for row, label in zip(rows, _labels(rows, how.kind), strict=True):
        if row[how.curve] is not None and row["message_bytes"]:
            found.setdefault(label, {})[row["message_bytes"]] = row[how.curve]
    return _curves(found)


def bench_gemm(screen: Screen) -> list[Text]:
    """Return a line for the fastest point of each op and type; in full every point, and curves."""
    rows = screen.rows("bench_gemm")
    shown = rows if screen.full else [row for row in rows if row["is_best"]]
    figures = [
        [_shape(row) for row in shown],
        *columns(shown, median_ns=known(format_duration)),
        [_interval(row) for row in shown],
        *columns(shown, flop_per_s=known(format_flop_per_s), peak_pct=pct_text),
    ]
    labels = _labels(shown, ("op", "dtype", "series") if screen.full else ("op", "dtype"))
    what = "time, its 95 % interval, rate, share of the data sheet's peak"
    title = "" if screen.full else "fastest of each type: "
    out = [
        _heading(screen, "Products", f"{title}{what}", rows),
        *_points(
            screen,
            labels,
            figures,
            [row["reason"] if row["flop_per_s"] is None else "" for row in shown],
        ),
    ]
    if not screen.full:
        return out + more(len(rows) - len(shown), "point")
    found: dict[str, dict[int, float]] = {}
    for row, label in zip(rows, _labels(rows, ("series", "dtype"), " · "), strict=True):
        if row["series"] and row["flop_per_s"] is not None:
            found.setdefault(label, {})[row["m"]] = row["flop_per_s"]
    axes = ("Rate over M", "operations a second")
    drawn = _drawn(screen, _curves(found), axes, lambda size: f"M {size:,.0f}", format_flop_per_s)
    return drawn + out


def _shape(row: Row) -> str:
    if row["m"] is None:
        return NONE
    batch = f"{row['batch']} × " if row["batch"] != 1 else ""
    return f"{batch}{row['m']}×{row['n']}×{row['k']}"


def bench_launches(screen: Screen) -> list[Text]:
    """Return the time of each kind of launch, which is as short in full."""
    rows = screen.rows("bench_launches")
    timed = [row | {"timer": _CLOCKS.get(row["timer"], row["timer"])} for row in rows]
    figures = [*columns(rows, median_ns=known(format_duration)), [_interval(row) for row in rows]]
    return [
        _heading(screen, "Launches", "time of one call, its 95 % interval", rows),
        *_points(
            screen,
            _labels(timed, ("op", "series", "timer")),
            figures,
            [row["reason"] for row in rows],
        ),
    ]


def _heading(screen: Screen, title: str, note: str, rows: Rows) -> Text:
    """Return a heading that says what the points were measured on."""
    machines = dict.fromkeys(
        printable(row["device_name"] or row["device"] or "an unknown device") for row in rows
    )
    return screen.heading(title, f"{note} · {', '.join(machines)}")


def _is_several(rows: Rows) -> bool:
    return len({row["run"] for row in rows}) > 1


def _labels(
    rows: Rows, names: Sequence[str], between: str = " ", *, is_several: bool | None = None
) -> list[str]:
    """Return what each point is of; of several runs, also which."""
    if _is_several(rows) if is_several is None else is_several:
        names = ("run", *names)
    return [between.join(str(row[name]) for name in names if row[name]) for row in rows]


def _interval(row: Row) -> str:
    """Return the width of the median's interval to either side of it, in percent of the median."""
    if row["interval_pct"] is None:
        return ""
    return f"−{row['below_pct']:.1f} +{row['above_pct']:.1f} %"


def _points(
    screen: Screen,
    labels: Sequence[str],
    figures: Sequence[Sequence[str]],
    reasons: Sequence[str | None],
) -> list[Text]:
    """Return a line for each point: what it is of, its figures, and why some are missing."""
    out = []
    shown = fitted([printable(label) for label in labels])
    for label, text, reason in zip(shown, aligned(figures), reasons, strict=True):
        line = Text(f"  {label}  {text}")
        if reason:
            note = shorten("  " + printable(reason), screen.width - line.cell_len)
            line.append(note, style="dim")
        out.append(line)
    return out


def _curves(found: dict[str, dict[int, float]]) -> list[RateCurve]:
    """Return the curves of points, rate by size, that have more than one."""
    return [
        RateCurve(name, sorted(points), [points[size] for size in sorted(points)])
        for name, points in found.items()
        if len(points) > 1
    ]


def _drawn(
    screen: Screen,
    curves: list[RateCurve],
    axes: tuple[str, str],
    size_text: Form,
    rate_text: Form,
) -> list[Text]:
    """Return a drawing of curves and an empty line; nothing without a curve."""
    if not curves:
        return []
    return [
        screen.heading(*axes),
        *rate_curve_lines(curves[:MOST_CURVES], screen.width, size_text, rate_text),
        *more(len(curves) - MOST_CURVES, "curve"),
        Text(),
    ]
