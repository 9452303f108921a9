"""Where the difference is: a tree that adds up, and the work that differs most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 3

_MAX_CHILDREN = (4, 4, 3, 2)
_LEAST_SHARE = 0.02
_MAX_WORK = 8
_NAMES = {"exposed_comm": "exposed communication", "exposed_memcpy": "exposed copies"}
_MATCHES = {
    "op and shape": "same op and shape",
    "name": "same kernel",
    "op": "same op",
    "class": "same class",
    "place": "same place",
}


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return the largest parts of the difference, each with its share, from and to."""
    if not data.get("comparison_split"):
        return []
    if full:
        out: list[Text] = []
        for name in ("comparison_split", "comparison_work", "comparison_modules"):
            title = name.removeprefix("comparison_").capitalize()
            out += [heading(title), *grid_lines(data[name], None if wide else width, units=True)]
        return out
    return [*_tree(data["comparison_split"].to_dicts(), width), *_work(data, width)]


def _tree(rows: Sequence[dict[str, Any]], width: int) -> list[Text]:
    children: dict[int | None, list[dict[str, Any]]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row)
    whole = rows[0]
    shown = list(_shown(whole, children, abs(whole["delta_ns"])))
    decimals = ms_decimals(
        row[name] for row, _ in shown for name in ("delta_ns", "base_ns", "new_ns")
    )
    columns = [
        [_signed(row["delta_ns"], decimals) for row, _ in shown],
        ["–" if row["share_pct"] is None else f"{row['share_pct']:,.1f} %" for row, _ in shown],
        [f"{format_ms(row['base_ns'], decimals)} →" for row, _ in shown],
        [format_ms(row["new_ns"], decimals) for row, _ in shown],
    ]
    note = "ms, share of the difference, from → to; every level adds up"
    out = [heading("Split", note, width)]
    for (row, text), figures in zip(shown, aligned(columns), strict=True):
        verdict = row["verdict"] if row["verdict"] in ("slower", "faster") else ""
        label = shorten(text, width - len(figures) - 4 - (len(verdict) + 2 if verdict else 0))
        style = {"slower": "red", "faster": "green"}.get(verdict, "")
        tail = (f"  {verdict}", style) if verdict else ""
        out.append(Text.assemble("  ", figures, "  ", label, tail))
    return out


def _shown(
    node: dict[str, Any],
    children: Mapping[int | None, Sequence[dict[str, Any]]],
    whole_ns: int,
    indent: int = 0,
) -> Iterator[tuple[dict[str, Any], str]]:
    """Return the rows of the tree that are shown, with their labels; the rest of each in one."""
    depth = node["depth"]
    inside = sorted(children.get(node["node"], ()), key=lambda row: -abs(row["delta_ns"]))
    limit = _MAX_CHILDREN[depth] if depth < len(_MAX_CHILDREN) else 0
    kept = [row for row in inside[:limit] if abs(row["delta_ns"]) >= _LEAST_SHARE * whole_ns]
    if depth == 0:
        kept = inside
    for row in kept:
        name = _NAMES.get(row["name"], row["name"]) if depth == 0 else row["name"]
        only = children.get(row["node"], ())
        while len(only) == 1:
            # What has one part is that part.
            name = f"{name} · {only[0]['name']}"
            row = row | {"node": only[0]["node"], "depth": only[0]["depth"]}
            only = children.get(row["node"], ())
        yield row, "  " * indent + printable(name)
        if row["delta_ns"]:
            yield from _shown(row, children, whole_ns, indent + 1)
    left = [row for row in inside if row not in kept]
    if kept and left:
        sums = {name: sum(row[name] for row in left) for name in ("delta_ns", "base_ns", "new_ns")}
        share = 100 * sums["delta_ns"] / whole_ns if whole_ns else None
        sign = 1 if (node["share_pct"] or 0) * node["delta_ns"] >= 0 else -1
        rest = sums | {"share_pct": None if share is None else sign * share, "verdict": None}
        yield rest, "  " * indent + f"… {len(left):,} more"


def _work(data: Mapping[str, Result], width: int) -> list[Text]:
    rows = [row for row in data["comparison_work"].to_dicts() if row["part"] != "idle"]
    shown = [row for row in rows[:_MAX_WORK] if row["delta_ns"]]
    if not shown:
        return []
    decimals = ms_decimals(row[name] for row in shown for name in ("delta_ns", "base_ns", "new_ns"))
    columns = [
        [_signed(row["delta_ns"], decimals) for row in shown],
        [f"{format_ms(row['base_ns'], decimals)} →" for row in shown],
        [format_ms(row["new_ns"], decimals) for row in shown],
    ]
    out = [Text(), heading("Work that differs most", "from → to ms, where, kernels", width)]
    for row, figures in zip(shown, aligned(columns), strict=True):
        where = f"{row['phase']} {row['module']} · {row['op'] or '–'} · {row['class']}"
        out.append(Text(f"  {figures}  {shorten(printable(where), width - len(figures) - 4)}"))
        out.append(Text(f"    {shorten(printable(_kernels(row)), width - 4)}", style="dim"))
    changed = sum(row["delta_ns"] != 0 for row in rows)
    return out + more(changed - len(shown), "row", "rows")


def _kernels(row: Mapping[str, Any]) -> str:
    base, new = _side(row, "base"), _side(row, "new")
    if row["match"] == "new":
        return f"new: {new}"
    if row["match"] == "gone":
        return f"gone: {base}"
    if row["base_kernels"] == row["new_kernels"]:
        change = f" → {_count(row['new_kernel_count'])} ×"
        is_same = row["base_kernel_count"] == row["new_kernel_count"]
        return base + ("" if is_same else change)
    count = len(row["base_kernels"]), len(row["new_kernels"])
    became = ""
    if count[0] != count[1]:
        became = f"{count[0]} kernel{'s' * (count[0] != 1)} became {count[1]}: "
    matched = _MATCHES.get(row["match"])
    return f"{became}{base} → {new}" + (f"  ({matched})" if matched else "")


def _side(row: Mapping[str, Any], side: str) -> str:
    names = row[f"{side}_kernels"]
    told = ", ".join(shorten(name, 40) for name in names[:2]) + (", …" if len(names) > 2 else "")
    return f"{_count(row[f'{side}_kernel_count'])} × {told}"


def _count(count: float) -> str:
    return f"{count:,.1f}".removesuffix(".0")


def _signed(value_ns: int, decimals: int) -> str:
    sign = "+" if value_ns > 0 else "-" if value_ns < 0 else "±"
    return f"{sign}{format_ms(abs(value_ns), decimals)}"
