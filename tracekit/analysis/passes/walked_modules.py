"""The modules of a trace and their paths, collected by the context walk.

The walk finds a module by the name of its range or call. Its path, its number among siblings, its
layer, and (for recomputation) the matching forward module are known only after the walk.

The total length of the paths grows with the square of the tree's depth. So the middle of a long
path is replaced by the number of omitted names and their digest. A single long name is shortened in
the same way.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

from msgspec import Struct

MAX_WHOLE = 2000
"""Maximum length, in characters, of a name or path of ancestors that is not shortened."""

_HEAD, _TAIL = 200, 200
"""Maximum number of characters at the start and end of a shortened name or path."""

_CUT = "…{count} {what}, {digest:08x}…"
"""Text that replaces omitted names. Analysis health searches for it."""


class _Path(Struct):
    name: str
    above: int | None
    text: str
    count: int
    digest: int
    # Only for shortened paths: the outermost names, each followed by a slash, and their number.
    head: tuple[str, int] | None = None


class ModulePaths:
    """Paths of the modules of a trace by number. Parents are added before children."""

    def __init__(self) -> None:
        self._paths: dict[int, _Path] = {}

    def add(self, number: int, name: str, above: int | None = None) -> str:
        """Add a module.

        Args:
            number: number of the module.
            name: its own name, or its complete path without `above`.
            above: number of the parent module, or None.

        Returns:
            Its path, shortened in the middle if the path of its parents or its name has more than
            :data:`MAX_WHOLE` characters.
        """
        around = None if above is None else self._paths[above]
        text = name.encode("utf-8", "surrogatepass")
        if len(name) > MAX_WHOLE:
            count = len(name) - _HEAD - _TAIL
            left_out = _CUT.format(count=count, what="characters", digest=zlib.crc32(text))
            name = name[:_HEAD] + left_out + name[-_TAIL:]
        if around is None:
            path = _Path(name, None, name, 1, zlib.crc32(text))
        else:
            digest = zlib.crc32(b"/" + text, around.digest)
            path = _Path(name, above, "", around.count + 1, digest, around.head)
            if around.head is None and len(around.text) <= MAX_WHOLE:
                path.text = f"{around.text}/{name}"
            else:
                path.head = path.head or self._head(around)
                path.text = self._cut(path, path.head)
        self._paths[number] = path
        return path.text

    def _around(self, path: _Path) -> _Path | None:
        return None if path.above is None else self._paths[path.above]

    def _head(self, path: _Path) -> tuple[str, int]:
        """Return the outermost names of a complete path, and their number."""
        names = []
        step: _Path | None = path
        while step is not None:
            names.append(step.name)
            step = self._around(step)
        head, count = "", 0
        for name in reversed(names):
            if len(head) + len(name) + 1 > _HEAD:
                break
            head += f"{name}/"
            count += 1
        return head, count

    def _cut(self, path: _Path, head: tuple[str, int]) -> str:
        tail, size = [path.name], 0
        step = self._around(path)
        while step is not None and size + len(step.name) + 1 <= _TAIL:
            tail.append(step.name)
            size += len(step.name) + 1
            step = self._around(step)
        count = path.count - head[1] - len(tail)
        digest = 0 if step is None else step.digest
        left_out = _CUT.format(count=count, what="modules", digest=digest)
        return f"{head[0]}{left_out}/{'/'.join(reversed(tail))}"


# The layer is the number after a class name (`LlamaDecoderLayer_3`) or in a qualified name.
_LAYER_CLASS = re.compile(r"(?:Layer|Block)_(\d+)$")
_NO_LAYER = re.compile(r"Linear|Norm|Embedding|Attention|MLP|Conv|Dropout|RowParallel|Pool")
_INSTANCE = re.compile(r"(.+)_(\d+)$", re.DOTALL)
_LAYER_NUMBER = re.compile(r"(?:^|[./])(\d+)(?=[./]|$)")
_NUMBER = re.compile(r"\d+")
# Digits inside a word (all2all) are not a layer number.
_NUMBER_ALONE = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")


class Module(Struct):
    """A module found by the walk. `parent` is the number of a module of the same trace."""

    parent: int | None
    label: str
    module_class: str | None
    source: str
    is_qualified: bool
    is_inside_node: bool


def finished(trace_id: int, modules: list[Module]) -> list[tuple[Any, ...]]:
    """Return the rows of table walked_module for one trace."""
    same = _graft(modules)
    parents = [module.parent for module in modules]
    for number, module in enumerate(modules):
        parent = module.parent
        parents[number] = None if parent is None else same.get(parent, parent)
    paths_of = {
        module.label: number for number, module in enumerate(modules) if module.is_qualified
    }
    order = _siblings(modules, parents, same)
    rows: list[tuple[Any, ...]] = []
    paths, rolled = ModulePaths(), ModulePaths()
    layers: list[int | None] = [None] * len(modules)
    depths = [0] * len(modules)
    in_order = _by_depth(modules, parents, paths_of)
    spans = _tree_spans(parents, same)
    for number in in_order:
        module, parent = modules[number], parents[number]
        if module.is_qualified:
            path = paths.add(number, module.label)
            rollup = _LAYER_NUMBER.sub(lambda m: m[0].replace(m[1], "*"), path)
            rollup = rolled.add(number, rollup)
            match = _LAYER_NUMBER.search(path)
            layer = _layer_number(match[1]) if match else None
        else:
            path = paths.add(number, module.label, parent)
            layer, name = _layer_of(module, None if parent is None else layers[parent])
            if name is None:
                name = order.get(number, module.label)
            rollup = rolled.add(number, name, parent)
        layers[number] = layer
        depths[number] = 0 if parent is None else depths[parent] + 1
        if number not in same:
            rows.append(
                (
                    trace_id,
                    number,
                    number,
                    parent,
                    module.label,
                    module.module_class,
                    path,
                    depths[number],
                    layer,
                    module.source,
                    rollup,
                    *spans[number],
                )
            )
    # A recomputed module has the number of its forward module, but its own source.
    rows.extend(
        (trace_id, number, target, *[None] * 6, "nn.Module", *[None] * 3)
        for number, target in same.items()
    )
    return rows


def _tree_spans(parents: list[int | None], same: dict[int, int]) -> dict[int, tuple[int, int]]:
    """Return the preorder position of each module and of its last descendant."""
    children: dict[int | None, list[int]] = {}
    for number, parent in enumerate(parents):
        if number not in same:
            children.setdefault(parent, []).append(number)
    spans: dict[int, tuple[int, int]] = {}
    position = 0
    waiting = [(root, False) for root in reversed(children.get(None, []))]
    while waiting:
        number, is_done = waiting.pop()
        if is_done:
            spans[number] = (spans[number][0], position - 1)
            continue
        spans[number] = (position, position)
        position += 1
        waiting.append((number, True))
        waiting.extend((child, False) for child in reversed(children.get(number, [])))
    return spans


def _graft(modules: list[Module]) -> dict[int, int]:
    """Return the forward module of each recomputed module.

    The autograd engine calls recomputed modules, so the outermost one has no parent. It is matched
    to the forward module with the same label, if there is exactly one; the modules inside it are
    matched by their labels.
    """
    forward: dict[str, list[int]] = {}
    children: dict[tuple[int | None, str], int] = {}
    for number, module in enumerate(modules):
        if module.source == "nn.Module" and not module.is_inside_node:
            forward.setdefault(module.label, []).append(number)
            children[module.parent, module.label] = number
    same: dict[int, int] = {}
    for number, module in enumerate(modules):
        if module.source != "nn.Module":
            continue
        if module.is_inside_node:
            candidates = forward.get(module.label, ())
            if len(candidates) == 1:
                same[number] = candidates[0]
        elif module.parent in same:
            twin = children.get((same[module.parent], module.label))
            if twin is not None:
                same[number] = twin
            else:
                children[same[module.parent], module.label] = number
    return same


def _siblings(
    modules: list[Module], parents: list[int | None], same: dict[int, int]
) -> dict[int, str]:
    """Return names with numbers among siblings: `Linear[1]` is the second Linear of its parent."""
    families: dict[tuple[int | None, str], list[tuple[int, str, int]]] = {}
    for number, module in enumerate(modules):
        match = _INSTANCE.fullmatch(module.label) if module.source == "nn.Module" else None
        if match and number not in same:
            # Sort numerically; numbers may have any length.
            digits = match[2].lstrip("0")
            families.setdefault((parents[number], match[1]), []).append(
                (len(digits), digits, number)
            )
    names = {}
    for (_, module_class), members in families.items():
        for position, (_, _, number) in enumerate(sorted(members)):
            names[number] = module_class if len(members) == 1 else f"{module_class}[{position}]"
    return names


def _layer_number(digits: str) -> int | None:
    """Return the layer number, or None if it has too many digits."""
    return int(digits) if len(digits) < 10 else None


def _layer_of(module: Module, above: int | None) -> tuple[int | None, str | None]:
    """Return the layer number of a module without a qualified name, and its rolled-up name."""
    if module.source == "frame":
        match = _LAYER_NUMBER.search(module.label)
        return (_layer_number(match[1]), _NUMBER.sub("*", module.label)) if match else (above, None)
    if module.source == "range":
        return above, _NUMBER_ALONE.sub("*", module.label)
    if above is None and not _NO_LAYER.search(module.label):
        match = _LAYER_CLASS.search(module.label)
        if match:
            return _layer_number(match[1]), f"{module.label[: match.start(1)]}*"
    return above, None


def _by_depth(
    modules: list[Module], parents: list[int | None], paths_of: dict[str, int]
) -> list[int]:
    """Return the modules with parents before children; set the parents of qualified names."""
    # In the order of their parts, each path is followed by the paths inside it.
    around: list[str] = []
    for path in sorted(paths_of, key=lambda path: path.split(".")):
        while around and not path.startswith(f"{around[-1]}."):
            around.pop()
        if around:
            parents[paths_of[path]] = paths_of[around[-1]]
        around.append(path)
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(modules)):
        chain = []
        step: int | None = start
        while step is not None and step not in seen:
            seen.add(step)
            chain.append(step)
            step = parents[step]
        order.extend(reversed(chain))
    return order
