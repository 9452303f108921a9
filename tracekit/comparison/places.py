"""Matches modules of two sides by name, or else by their position in the tree."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from tracekit.comparison.cells import ModuleNode

_WRAPPERS = frozenset(
    {
        "_checkpoint_wrapped_module",
        "_forward_module",
        "_fsdp_wrapped_module",
        "_orig_mod",
        "DeepSpeedEngine",
        "DistributedDataParallel",
        "FullyShardedDataParallel",
        "OptimizedModule",
        "module",
    }
)
"""Names of modules that only wrap another one."""

_LIKE_ENOUGH = 0.5
_MAX_INSIDE = 1000
"""Maximum number of submodules, nearest first, whose names describe a module."""
_MAX_ALIKE = 50
"""Approximate maximum number of candidates per module."""
_WRAPPER = re.compile("|".join(sorted(_WRAPPERS)))
_NAME = re.compile(r"[^./]+")
_NUMBER = re.compile(r"(?:_\d+|\[\d+\])$")


class Alignment(Struct, frozen=True):
    """Corresponding modules: the base's path by the new path, and how renamed modules matched."""

    base_of: Mapping[str, str]
    renamed: Mapping[str, str]


def align_modules(base: Mapping[str, ModuleNode], new: Mapping[str, ModuleNode]) -> Alignment:
    """Find the base's module for each module of the new side.

    Modules correspond if they have the same path, or the same path without wrappers (DDP's
    `module`, compile's `_orig_mod`, …). The remaining modules are matched from the roots of both
    trees downward: children of corresponding modules correspond if they have the same name, the
    same class and position, or similar submodules.
    """
    base_of = {path: path for path in new if path in base}
    renamed: dict[str, str] = {}
    free_base = {path for path in base if path not in base_of}
    bare = {_bare(path): path for path in sorted(free_base, key=len)}
    for path in new:
        same = None if path in base_of else bare.get(_bare(path))
        if same in free_base:
            base_of[path] = same
            renamed[path] = "wrapped"
            free_base.discard(same)
    children = _children(base), _children(new)
    _descend(children, base, new, base_of, renamed, free_base)
    return Alignment(base_of, renamed)


@lru_cache(maxsize=1 << 16)
def _last_name(path: str) -> str:
    names = _NAME.findall(path)
    return _NUMBER.sub("", names[-2] + ".*" if names[-1] == "*" and len(names) > 1 else names[-1])


_Children = Mapping[str | None, Sequence[str]]
_Key = Callable[[ModuleNode], str | None]
_KEYS: tuple[tuple[str, _Key | None], ...] = (
    ("name", lambda node: _last_name(node.path)),
    ("class", lambda node: node.class_name),
    ("inside", None),
)


def _descend(
    children: tuple[_Children, _Children],
    base: Mapping[str, ModuleNode],
    new: Mapping[str, ModuleNode],
    base_of: dict[str, str],
    renamed: dict[str, str],
    free_base: set[str],
) -> None:
    # Iterative, because the depth of a file may exceed the recursion limit.
    waiting: list[tuple[str | None, str | None]] = [(None, None)]
    while waiting:
        base_path, new_path = waiting.pop()
        below_base, below_new = children[0].get(base_path, ()), children[1].get(new_path, ())
        for how, key in _KEYS:
            open_base = [path for path in below_base if path in free_base]
            open_new = [path for path in below_new if path not in base_of]
            if not open_base or not open_new:
                break
            pairs = (
                _by_key([base[path] for path in open_base], [new[path] for path in open_new], key)
                if key is not None
                else _by_inside(open_base, open_new, children)
            )
            for one, other in pairs:
                base_of[other] = one
                renamed[other] = how
                free_base.discard(one)
        inside = set(below_base)
        waiting += (
            (base_of[path], path) for path in reversed(below_new) if base_of.get(path) in inside
        )


def _by_key(
    base: Sequence[ModuleNode], new: Sequence[ModuleNode], key: _Key
) -> list[tuple[str, str]]:
    waiting: dict[str | None, deque[str]] = {}
    for node in base:
        waiting.setdefault(key(node) or None, deque()).append(node.path)
    waiting.pop(None, None)
    return [(result.popleft(), node.path) for node in new if (result := waiting.get(key(node)))]


def _by_inside(
    base: Sequence[str], new: Sequence[str], children: tuple[_Children, _Children]
) -> list[tuple[str, str]]:
    free: tuple[_Alike, _Alike] = {}, {}
    for paths, inside, alike in zip((base, new), children, free, strict=True):
        for number, path in enumerate(paths):
            if names := _names_inside(path, inside):
                alike.setdefault(names, deque()).append(number)
    pairs = []
    for names, ones in free[0].items():
        others = free[1].get(names, deque())
        while ones and others:
            pairs.append((base[ones.popleft()], new[others.popleft()]))
    holders: dict[str, list[frozenset[str]]] = {}
    for names, others in free[1].items():
        for name in names if others else ():
            holders.setdefault(name, []).append(names)
    result = sorted(
        (-likeness, one, free[1][other_names][0], other_names)
        for names, ones in free[0].items()
        if ones
        for other_names in _candidates(names, holders)
        if (likeness := len(names & other_names) / len(names | other_names)) >= _LIKE_ENOUGH
        for one in ones
    )
    used = set()
    for _, one, _, other_names in result:
        if one not in used and free[1][other_names]:
            used.add(one)
            pairs.append((base[one], new[free[1][other_names].popleft()]))
    return pairs


_Alike = dict[frozenset[str], deque[int]]
"""Indices of modules that contain the same names."""


def _candidates(
    names: frozenset[str], holders: Mapping[str, Sequence[frozenset[str]]]
) -> Mapping[frozenset[str], None]:
    """Return the modules of the other side that share one of the rarest of these names."""
    near: dict[frozenset[str], None] = {}
    for name in sorted(names & holders.keys(), key=lambda name: (len(holders[name]), name)):
        if len(near) < _MAX_ALIKE:
            near |= dict.fromkeys(holders[name][:_MAX_ALIKE])
    return near


def _names_inside(path: str, children: _Children) -> frozenset[str]:
    names, waiting, count = set(), deque(children.get(path, ())), 0
    while waiting and count < _MAX_INSIDE:
        one = waiting.popleft()
        count += 1
        names.add(_last_name(one))
        waiting.extend(children.get(one, ()))
    return frozenset(names)


def _children(modules: Mapping[str, ModuleNode]) -> dict[str | None, list[str]]:
    result: dict[str | None, list[str]] = {}
    for node in modules.values():
        parent = node.parent if node.parent in modules else None
        result.setdefault(parent, []).append(node.path)
    return result


def _bare(path: str) -> str:
    if not _WRAPPER.search(path):
        return ".".join(_NAME.findall(path))
    names = (name for name in _NAME.findall(path) if _NUMBER.sub("", name) not in _WRAPPERS)
    return ".".join(names)
