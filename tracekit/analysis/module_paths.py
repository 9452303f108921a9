"""The whole names of modules: their own names behind those of the modules around them.

The names of all modules of a deep tree, each with those of its ancestors, grow with the square of
the depth. So a name that has too much above it is cut in the middle: the names of the outermost
modules, how many are left out with a digest that tells their chain from others, and the names of
the innermost ones. A single name that is too long is cut likewise.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

MAX_WHOLE = 2000
"""Characters of a name, and of the names around a module, up to which they are shown whole."""

_HEAD, _TAIL = 200, 200
"""Characters at most that are shown of either end of longer ones."""

_CUT = "…{count} {what}, {digest:08x}…"
"""What stands for what is left out; analysis health looks for it."""


@dataclass(slots=True)
class _Path:
    name: str
    above: int | None
    text: str
    count: int
    digest: int
    # Of one that is cut: the outermost names with a slash behind each, and how many they are.
    head: tuple[str, int] | None = None


class ModulePaths:
    """Whole names of the modules of a trace, by number; each is added behind the one around it."""

    def __init__(self) -> None:
        self._paths: dict[int, _Path] = {}

    def add(self, number: int, name: str, above: int | None = None) -> str:
        """Add a module.

        Args:
            number: of the module.
            name: its own name, or its whole name where nothing is above.
            above: number of the module whose whole name stands in front; None for nothing.

        Returns:
            Its whole name, cut in the middle if more than :data:`MAX_WHOLE` characters are above,
            or if it has more itself.
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
        """Return the outermost names of one that is whole."""
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
