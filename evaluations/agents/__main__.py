"""`make agents`: measures the tokens of all default MCP answers on all public traces.

    make agents ARGS="[--only TEXT] [--out FILE]"

TRACEKIT_PUBLIC_TRACES names the folder of traces. Each trace is opened once for all tools.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.mcp.answers import Tools
from tracekit.mcp.folders import traces_in
from tracekit.render.brief import USUAL_TOKENS, token_count

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "agents.md"
BEGIN, END = "<!-- begin: make agents -->", "<!-- end: make agents -->"
_LOG = logging.getLogger("agents")


class OpenTools(Tools, kw_only=True):
    """The tools for one trace, which stays open."""

    trace: tracekit.Trace

    def _opened(self, *_: object, **__: object) -> Any:
        return contextlib.nullcontext(self.trace)


def calls(trace: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name, tool, and arguments of every default answer about a trace."""
    given = {"trace": trace}
    yield "open", "open", given
    for name in ("breakdown", "pivot", *load_catalog().analyses):
        yield f"ask {name}", "ask", {**given, "analysis": name}
    yield "sql FROM event", "sql", {**given, "statement": "FROM event"}
    yield "sql FROM device_events", "sql", {**given, "statement": "FROM device_events"}
    yield "compare with itself", "compare", {"base": trace, "new": trace}
    yield "advise", "advise", given
    yield "advise changes", "advise", {**given, "changes": ["host x0.5"]}
    yield "explain why", "explain", {**given, "kernel": ""}


def explanations() -> Iterator[str]:
    """Yield every topic with an explanation that needs no trace."""
    catalog = load_catalog()
    yield from ("", "pivot", "changes", *catalog.analyses, *catalog.tables, *catalog.views)
    yield from {title.subject for title in catalog.analyses.titles()}


def row(name: str, counts: dict[str, int], refused_count: int) -> str:
    """Return a row of the table."""
    largest = max(counts, key=counts.__getitem__)
    median = round(statistics.median(counts.values()))
    return (
        f"| {name} | {len(counts)} | {refused_count} | {median:,} | {counts[largest]:,} | "
        f"{largest.replace('ask ', '')} |\n"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Make all calls and write the table."""
    parser = argparse.ArgumentParser(prog="make agents")
    parser.add_argument("--only", default="", help="text in the names of traces")
    parser.add_argument("--out", type=Path, default=PAGE)
    parsed = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    root = Path(os.environ["TRACEKIT_PUBLIC_TRACES"]).resolve()
    listed = [name for name, *_ in traces_in([root]) if "/" not in name]
    every: dict[str, int] = {}
    rows = []
    for trace in listed:
        if parsed.only not in trace or trace == "expected.json":
            continue
        counts, refused = {}, 0
        with tracekit.open(root / trace) as opened:
            tools = OpenTools([root], trace=opened)
            for called, tool, given in calls(trace):
                text, is_error = tools.call(tool, given)
                counts[called] = token_count(text)
                refused += is_error
        name = trace.removesuffix(".gz").removesuffix(".json")
        rows.append(row(name, counts, refused))
        every |= {f"{called} of {name}": count for called, count in counts.items()}
        _LOG.info("%s", rows[-1].strip())
    counts = {
        f"explain {topic}".strip(): token_count(Tools([root]).call("explain", {"topic": topic})[0])
        for topic in explanations()
    }
    counts["open without a trace"] = token_count(Tools([root]).call("open", {})[0])
    rows.append(row("(no trace)", counts, 0))
    every |= counts
    largest = max(every, key=every.__getitem__)
    over = sum(count > USUAL_TOKENS for count in every.values())
    table = (
        f"{len(every):,} answers; the largest, `{largest}`, has {every[largest]:,} tokens; "
        f"{over} exceed {USUAL_TOKENS:,}.\n\n"
        "| trace | answers | refusals | median tokens | most tokens | in |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
    )
    before, rest = parsed.out.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    parsed.out.write_text(
        f"{before}{BEGIN}\n\n{table}{''.join(rows)}\n{END}{after}", encoding="utf-8"
    )
    if over:
        raise SystemExit(f"{over} answers are over the budget")


if __name__ == "__main__":
    main()
