"""Slices that overlap, on lanes on which none crosses another.

A track of Perfetto holds slices that nest or follow one another. Kernels of one stream may overlap
and a child may end after its parent, so a track that has such slices gets further lanes.
"""

from __future__ import annotations

from heapq import heappop, heappush

NESTING_LANES = 4
"""On so many lanes a slice is looked for a place inside of others; the lanes behind are flat, so
that the cost of a slice does not grow with how many overlap."""


class FlatLanes:
    """Lanes on which one thing follows the other."""

    __slots__ = ("_busy", "_count", "_free")

    def __init__(self) -> None:
        self._free: list[int] = []
        self._busy: list[tuple[int, int]] = []
        self._count = 0

    def place(self, start_ns: int, end_ns: int) -> int:
        """Return the first lane, from 0, that is free for what comes next in order of starts."""
        while self._busy and self._busy[0][0] <= start_ns:
            heappush(self._free, heappop(self._busy)[1])
        if self._free:
            lane = heappop(self._free)
        else:
            lane = self._count
            self._count += 1
        heappush(self._busy, (end_ns, lane))
        return lane


class Lanes:
    """Lanes on which slices nest, and the ends of what is open on them."""

    __slots__ = ("_flat", "_flat_ends", "_stacks")

    def __init__(self) -> None:
        self._stacks: list[list[int]] = []
        self._flat = FlatLanes()
        self._flat_ends: dict[int, int] = {}

    def place(self, start_ns: int, end_ns: int, ended: list[tuple[int, int]]) -> int:
        """Return the number of the lane of the next slice, from 0.

        Slices come in the order of their starts, of equal ones the longer first.

        Args:
            start_ns: start, ns.
            end_ns: end, ns.
            ended: gets lane and end, ns, of what is over when the slice begins, the innermost
                first: on each lane it has to be told before the slice.
        """
        for lane, stack in enumerate(self._stacks):
            while stack and stack[-1] <= start_ns:
                ended.append((lane, stack.pop()))
            if not stack or stack[-1] >= end_ns:
                stack.append(end_ns)
                return lane
        if len(self._stacks) < NESTING_LANES:
            self._stacks.append([end_ns])
            return len(self._stacks) - 1
        lane = NESTING_LANES + self._flat.place(start_ns, end_ns)
        if lane in self._flat_ends:
            ended.append((lane, self._flat_ends[lane]))
        self._flat_ends[lane] = end_ns
        return lane

    def close(self) -> list[tuple[int, int]]:
        """Return lane and end, ns, of all that is open, the innermost first, and close it."""
        left = [(lane, stack.pop()) for lane, stack in enumerate(self._stacks) for _ in [*stack]]
        left += self._flat_ends.items()
        self._flat_ends.clear()
        return left
