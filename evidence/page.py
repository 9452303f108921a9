"""The Markdown page of what was found: `python3 evidence/page.py part*-results.json > evidence.md`.

A pure function of the results: it can be made again at any time, of any parts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_TITLES = {1: "Does it work", 2: "The paper on this GPU", 3: "Serving, copies and ceilings"}
_FIGURE_LENGTH = 160
# A heading of a longer result stands below those of the page.
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def markdown(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the page.

    Args:
        parts: what `part<N>-results.json` holds, each.
    """
    lines = ["# Evidence", ""]
    for results in sorted(parts, key=lambda part: part["part"]):
        lines += _part(results)
    return "\n".join(lines).rstrip() + "\n"


def _part(results: Mapping[str, Any]) -> list[str]:
    host = results["host"]
    packages = ", ".join(f"{name} {version}" for name, version in host["packages"].items())
    lines = [f"## Part {results['part']}: {_TITLES[results['part']]}", ""]
    if not host["has_cuda"]:
        lines += ["**No GPU was seen: this is a trial of the scripts on a CPU.**", ""]
    elif results["is_dry"]:
        lines += ["**Dry run: sizes are those of a trial.**", ""]
    memory = host["device_memory_bytes"]
    lines += [
        f"{results['created_at']} · {host['device']}"
        + (f" ({memory / 2**30:.0f} GiB)" if memory else "")
        + f" · {host['core_count']} cores · {results['seconds']:.0f} s",
        "",
        packages,
        "",
    ]
    for problem in results["problems"]:
        lines.append(f"- not installed: {problem}")
    for text in results.get("did_not_fit", ()):
        lines.append(f"- did not fit: {text}")
    if lines[-1]:
        lines.append("")
    lines += [
        "| item | case | outcome | s | claims | reason |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in results["rows"]:
        held = sum(claim["holds"] for claim in row["claims"])
        claims = f"{held} of {len(row['claims'])}" if row["claims"] else ""
        cells = (row["item"], row["case"], row["outcome"], f"{row['seconds']:.0f}", claims)
        lines.append(_row(*cells, row["reason"] or ""))
    lines.append("")
    for row in results["rows"]:
        lines += _details(row, results["shows"].get(row["item"], ""))
    return lines


def _details(row: Mapping[str, Any], shows: str) -> list[str]:
    """Return a section on a case that has anything to tell."""
    if not (row["claims"] or row["figures"] or row["texts"]):
        return []
    name = row["case"] if row["case"] == row["item"] else f"{row['item']}: {row['case']}"
    lines = [f"### {name}", "", f"{shows}.", ""]
    for claim in row["claims"]:
        sign = "holds" if claim["holds"] else "**does not hold**"
        wanted = f", wanted {claim['wanted']}" if claim["wanted"] else ""
        measured = "" if claim["measured"] is None else f": {_shown(claim['measured'])}{wanted}"
        lines.append(f"- {sign}: {claim['claim']}{measured}")
    if row["claims"]:
        lines.append("")
    if row["figures"]:
        lines += ["| figure | value |", "| --- | --- |"]
        lines += [_row(name, _shown(value)) for name, value in row["figures"].items()]
        lines.append("")
    for title, text in row["texts"].items():
        lines += [f"#### {title}", "", _HEADING.sub(r"**\1**", text.strip()), ""]
    return lines


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _FIGURE_LENGTH else text[: _FIGURE_LENGTH - 1] + "…"


def main(paths: Sequence[str]) -> int:
    """Print the page of some results."""
    if not paths:
        sys.stderr.write("usage: page.py RESULTS.json...\n")
        return 2
    sys.stdout.write(markdown([json.loads(Path(path).read_text("utf-8")) for path in paths]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
