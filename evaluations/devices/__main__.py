"""`make devices`: measures how well `device=` predicts a model on another device.

    make devices ARGS="[--traces FOLDER] [--out FILE]"

FOLDER has recordings of a model's forward pass on an H100 and on an MI300X. Each predicts the other
device, and the kernels of each op are compared with that device's recording. Writes the table of
the manual's page.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import made_parts

import tracekit

REPO = Path(__file__).resolve().parents[2]
PAGE = REPO / "docs" / "explanation" / "predictions.md"
PAIR = {
    "tl_h100_qwen": ("H100", "H100 SXM"),
    "tl_mi300_qwen": ("MI300X", "MI300X"),
}
"""Device name in the table and in a change, by file."""

BY_CLASS = """
SELECT class, sum(dur_ns)::BIGINT AS ns FROM attributed_events WHERE kind = 'compute' GROUP BY ALL
"""
BY_OP = """
SELECT o.name, sum(a.dur_ns)::BIGINT AS ns
FROM attributed_events AS a
INNER JOIN record AS o ON a.trace_id = o.trace_id AND a.op_id = o.event_id
WHERE a.kind = 'compute' GROUP BY ALL
"""


def times(path: Path, statement: str) -> dict[str, int]:
    """Return the kernel time by the groups of a statement, ns."""
    with tracekit.open(path, cache=False) as trace:
        return dict(trace.sql(statement).rows)


def error_pct(result: dict[str, int], right: dict[str, int]) -> float:
    """Return the error of the common groups, weighted by their correct times, percent."""
    both = result.keys() & right.keys()
    off = sum(abs(result[name] - right[name]) for name in both)
    return 100 * off / sum(right[name] for name in both)


def table(folder: Path) -> str:
    """Return a row per kernel class of both predictions, and the errors by op."""
    lines: list[tuple[object, ...]] = []
    for here, there in (list(PAIR), list(PAIR)[::-1]):
        recorded, right = (folder / f"{name}.json.gz" for name in (here, there))
        label = f"{PAIR[here][0]} → {PAIR[there][0]}"
        with TemporaryDirectory() as folder_name:
            predicted = Path(folder_name) / "predicted.json"
            with tracekit.open(recorded, cache=False) as trace:
                change = f"device={PAIR[there][1]}"
                result = trace.predict(change, is_recorded=True, timeline=predicted)
                (before,) = trace.query("timeline").column("window_ns")
            with tracekit.open(right, cache=False) as trace:
                (after,) = trace.query("timeline").column("window_ns")
            classes = [times(path, BY_CLASS) for path in (recorded, predicted, right)]
            ops = [times(path, BY_OP) for path in (predicted, right)]
        assert result.predicted_ns is not None
        interval = f"{result.low_ns / 1e6:.1f} to {result.high_ns / 1e6:.1f}"
        lines.append(
            (label, "complete pass", *map(ms, (before, result.predicted_ns, after)), interval)
        )
        for name, right_ns in sorted(classes[2].items(), key=lambda item: -item[1])[:5]:
            predicted_ns = [one.get(name, 0) for one in classes[:2]]
            off = f"{100 * (predicted_ns[1] / right_ns - 1):+.0f} %"
            lines.append((label, f"`{name}`", *map(ms, (*predicted_ns, right_ns)), off))
        lines.append((label, "error of an op, mean", "", "", "", f"{error_pct(*ops):.1f} %"))
    heads = ("devices", "part", "recorded, ms", "predicted", "measured", "interval or error")
    return made_parts.table(heads, lines)


def ms(ns: float) -> str:
    """Return a time in ms."""
    return f"{ns / 1e6:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Update the page."""
    parser = argparse.ArgumentParser(prog="make devices")
    parser.add_argument("--traces", type=Path, default=REPO.parent / "shared" / "traces")
    parser.add_argument("--out", type=Path, default=PAGE)
    parsed = parser.parse_args(arguments)
    text = parsed.out.read_text("utf-8")
    parsed.out.write_text(
        made_parts.filled(text, "make devices", table(parsed.traces)), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
